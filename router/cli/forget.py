"""``batchgate forget``: removes the remains of a site that is gone for good from the cluster.

Shell (the API, a clock). It uses the caller's own rights. It refuses while an agent of the site renews its Lease, which
it finds by watching the Lease: this machine's clock may differ.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import click

from router import names
from router.cli.cluster import LEASES, Cluster, cluster_options
from router.cli.output import as_document, as_json
from router.cli.table import print_table
from router.errors import ApiError, ConfigError, Conflict, NotFound
from router.hpc import cluster_id
from router.kube.client import Json
from router.kube.events import PendingEvent, Reference, event_object
from router.notation import durations
from router.operating import forgetting
from router.operating.forgetting import LeftPod, Plan, Remains
from router.operating.jobs import facts
from router.pod.view import PodView, view
from router.startup.options import Duration

_LOOK_SECONDS: Final = 1.0
_INSTANCE: Final = "batchgate-forget"


@dataclass(slots=True)
class _Work:
    """The steps that were done, and the errors, one sentence each."""

    done: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def step(self, words: str, act: Callable[[], object]) -> None:
        """Do one step; a missing object counts as done."""
        try:
            act()
        except NotFound:
            pass
        except ApiError as error:
            self.problems.append(f"{words}: {error}")
            return
        self.done.append(words)


@click.command()
@click.argument("site")
@cluster_options
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", type=Duration(), default="5m", show_default=True, help="For the end of the Pods.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def forget(cluster: Cluster, site: str, wait: int, output: str, **flags: bool) -> None:
    """Take a SITE that is gone for good out of the cluster: its Nodes, Pods, Leases and the state of its queues.

    Its unfinished Jobs are suspended, as they would make new Pods for deleted Nodes. To run them on another site,
    delete them and apply them again. Take the site out of the policy first. The command refuses while an agent of the
    site leads. Files and jobs on the site stay there.

    \b
    Example:  batchgate forget demo --dry-run
    """
    remains = _look(cluster, site)
    plan = forgetting.plan(site, remains, _digits(cluster))
    if plan.empty:
        raise ConfigError(f"nothing is left of a site {site!r} in this cluster")
    if output == "table":
        _print(plan)
    work = _Work()
    if not flags["dry_run"]:
        _demand_consent(plan, asked=not flags["yes"])
        _demand_gone(cluster, plan, remains.lease)
        _act(cluster, plan, work, wait)
    _tell(plan, work, output, dry=flags["dry_run"])
    sys.exit(1 if work.problems else 0)


def _look(cluster: Cluster, site: str) -> Remains:
    """All remains of a site. Raises ConfigError if some cannot be read: a site is forgotten as a whole."""
    nodes = cluster.every("the Nodes of queues", "/api/v1/nodes", dict, labelSelector=names.NODE_KIND) or ()
    jobs = cluster.every(
        "Jobs of all namespaces", "/apis/batch/v1/jobs", facts, labelSelector=f"{names.KEY_SITE}={site}"
    )
    pods = pods_of(cluster, site, [one["metadata"]["name"] for one in nodes if forgetting.is_of(one, site)])
    queues = cluster.one("the state of queues", _config_map(cluster, names.QUEUES_CONFIG_MAP))
    checks = cluster.one("the checks of sites", _config_map(cluster, names.CHECKS_CONFIG_MAP))
    public = cluster.one("what sites tell everybody", _config_map(cluster, names.PUBLIC_CONFIG_MAP))
    lease = cluster.one("the agents' Lease", _lease(cluster, site))
    if cluster.missed:
        cluster.say_missed()
        raise ConfigError("a site is forgotten as a whole, so you must be able to see all of it; nothing was done")
    documents = ((found or {}).get("data") or {} for found in (queues, checks, public))
    return Remains(jobs or (), nodes, pods, lease, *documents)


def pods_of(cluster: Cluster, site: str, nodes: list[str]) -> tuple[PodView, ...]:
    """The Pods on the site's Nodes, and those with the site's label."""
    queries = [{"fieldSelector": f"spec.nodeName={node}"} for node in nodes]
    found: dict[str, PodView] = {}
    for query in [{"labelSelector": f"{names.KEY_SITE}={site}"}, *queries]:
        found |= {pod.uid: pod for pod in cluster.every("Pods of all namespaces", "/api/v1/pods", view, **query) or ()}
    return tuple(found.values())


def _config_map(cluster: Cluster, name: str) -> str:
    return f"/api/v1/namespaces/{cluster.system}/configmaps/{name}"


def _lease(cluster: Cluster, site: str) -> str:
    return f"{LEASES}/{cluster.system}/leases/{names.lease_name(site)}"


def _digits(cluster: Cluster) -> str:
    system = cluster.one("the cluster's id", "/api/v1/namespaces/kube-system")
    return cluster_id(system["metadata"]["uid"]) if system else ""


def _demand_consent(plan: Plan, *, asked: bool) -> None:
    if not asked:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("this is no terminal on which to ask: give --yes, or --dry-run to only look")
    click.confirm(f"Forget site {plan.site}?", abort=True, err=True)


def _demand_gone(cluster: Cluster, plan: Plan, lease: Mapping[str, Any] | None) -> None:
    """Raise ConfigError if an agent of the site renews its Lease. Watches a held Lease for as long as it lasts."""
    if not forgetting.holder(lease):
        return
    who, first, lasts = forgetting.holder(lease), forgetting.version(lease), forgetting.lasts(lease)
    click.echo(f"Lease {plan.lease} names {who}: looking for {durations.show(lasts)} whether it is renewed", err=True)
    until = time.monotonic() + lasts + _LOOK_SECONDS
    while time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)
        now = cluster.api.find(_lease(cluster, plan.site))
        if forgetting.holder(now) and forgetting.version(now) != first:
            raise ConfigError(
                f"an agent of site {plan.site} leads ({forgetting.holder(now)}); end it first: it would make all of it "
                "again. Nothing was done"
            )


def _act(cluster: Cluster, plan: Plan, work: _Work, wait: int) -> None:
    api = cluster.api
    for job in plan.jobs:
        change: Json = {"metadata": {"uid": job.uid}, "spec": {"suspend": True}}
        path = f"/apis/batch/v1/namespaces/{job.namespace}/jobs/{job.name}"
        if not job.suspended:
            work.step(f"Job {job.namespace}/{job.name} suspended", partial(api.patch, path, change))
    for pod in plan.pods:
        work.step(f"Pod {pod.namespace}/{pod.name} told", partial(_tell_pod, cluster, plan.site, pod))
    for node in plan.nodes:
        path = f"/api/v1/nodes/{node.name}"
        work.step(f"Node {node.name} deleted", partial(api.delete, path, uid=node.uid))
        path = f"{LEASES}/{names.NODE_LEASES}/leases/{node.name}"
        work.step(f"Lease of Node {node.name} deleted", partial(api.delete, path))
    if plan.queue_state:
        path, body = _config_map(cluster, names.QUEUES_CONFIG_MAP), {"data": {plan.queue_state: None}}
        work.step("state of its queues removed", partial(api.patch, path, body))
    if plan.checks:
        path, body = _config_map(cluster, names.CHECKS_CONFIG_MAP), {"data": {plan.checks: None}}
        work.step("its last check removed", partial(api.patch, path, body))
    if plan.notice:
        path, body = _config_map(cluster, names.PUBLIC_CONFIG_MAP), {"data": {plan.notice: None}}
        work.step("what it told everybody removed", partial(api.patch, path, body))
    if plan.lease:
        work.step(f"Lease {plan.lease} deleted", lambda: api.delete(_lease(cluster, plan.site)))
    if work.problems:  # Kubernetes does not end Pods of Nodes that still exist
        return
    _await_end(cluster, plan, work, wait)


def _tell_pod(cluster: Cluster, site: str, pod: LeftPod) -> None:
    now = time.time()
    rest = f"what batch job {pod.batch_job} did there is not known" if pod.batch_job else "it was never submitted"
    words = f"Site {site} is gone for good, and no agent serves this Pod any more; {rest}"
    about = Reference("Pod", pod.namespace, pod.name, pod.uid)
    event = event_object(PendingEvent(about, "Warning", names.REASON_SITE_FORGOTTEN, words, now, now), _INSTANCE)
    try:
        cluster.api.create(f"/api/v1/namespaces/{pod.namespace}/events", event)
    except Conflict:
        return  # created by an earlier try


def _await_end(cluster: Cluster, plan: Plan, work: _Work, wait: int) -> None:
    """Wait until Kubernetes has ended the Pods of the deleted Nodes."""
    if not plan.pods:
        return
    click.echo(f"Waiting until Kubernetes has ended {len(plan.pods)} Pods (a minute or two)", err=True)
    until = time.monotonic() + wait
    while left := list(_left(cluster, plan)):
        if time.monotonic() > until:
            work.problems.append(f"Pods are still there after {durations.show(wait)}: {', '.join(left)}")
            return
        time.sleep(_LOOK_SECONDS)
    work.done.append(f"{len(plan.pods)} Pods ended")


def _left(cluster: Cluster, plan: Plan) -> Iterator[str]:
    for pod in plan.pods:
        found = cluster.api.find(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}")
        if found is not None and found["metadata"]["uid"] == pod.uid and not view(found).status.terminal:
            yield f"{pod.namespace}/{pod.name}"


def _print(plan: Plan) -> None:
    rows = [("suspend", "Job", f"{one.namespace}/{one.name}", "") for one in plan.jobs if not one.suspended]
    rows += [("delete", "Node", one.name, "and its Lease") for one in plan.nodes]
    rows += [("end", "Pod", f"{one.namespace}/{one.name}", one.batch_job) for one in plan.pods]
    rows += [("delete", "Lease", plan.lease, "")] * bool(plan.lease)
    rows += [("remove", "queue state", plan.queue_state, "")] * bool(plan.queue_state)
    rows += [("remove", "last check", plan.checks, "")] * bool(plan.checks)
    rows += [("remove", "notice to everybody", plan.notice, "")] * bool(plan.notice)
    print_table(("WHAT", "KIND", "NAME", "BATCH JOB"), rows)
    if plan.ended:
        kept = "what agents have brought to the site's resultsDir, where it had one, stays there"
        click.echo(f"{plan.ended} Pods that are over go with their Nodes, and so do their logs; {kept}.")


def _tell(plan: Plan, work: _Work, output: str, *, dry: bool) -> None:
    stays = [f"batch job {one}" for one in plan.batch_jobs] + [
        f"directories {plan.directory} below workDir, of each user"
    ]
    if output == "json":
        document: Any = as_document(plan)
        told = {"dryRun": dry, "done": work.done, "problems": work.problems, "leftOnSite": stays}
        click.echo(as_json({**document, **told}))
        return
    for sentence in work.problems:
        click.echo(f"Error: {sentence}", err=True)
    click.echo(f"Left on the site: {'; '.join(stays)}.")
    if dry:
        click.echo("Nothing was done (--dry-run).")
    elif plan.jobs:
        listed = ", ".join(f"{one.namespace}/{one.name}" for one in plan.jobs)
        click.echo(f"Suspended: {listed}. Delete and apply them again where another site shall run them.")
