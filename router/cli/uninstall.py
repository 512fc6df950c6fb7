"""``batchgate uninstall``: takes Batchgate off a cluster, in the order that leaves nothing behind.

Shell (the API, a clock). It uses the caller's own rights. ``router.operating.uninstalling`` plans.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import click

from router import names
from router.cli.cluster import LEASES, Cluster, cluster_options
from router.errors import ConfigError, NotFound
from router.joining import accounts
from router.kube.client import Json
from router.notation import durations
from router.operating import forgetting, uninstalling
from router.operating.jobs import facts
from router.operating.overview import place_of
from router.operating.replicas import is_ours
from router.operating.uninstalling import Deletion, Found, Plan
from router.pod.view import PodView, view
from router.startup.options import Duration

_KINDS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_KEPT: Final = (
    f"secrets/{names.WEBHOOK_TLS}",
    f"secrets/{names.WEBHOOK_CA}",
    f"secrets/{names.WEBHOOK_ISSUER}",
    f"secrets/{names.WEBHOOK_SIGNING}",
    f"configmaps/{names.PUBLIC_KEYS_CONFIG_MAP}",
)
_LOOK_SECONDS: Final = 1.0


@click.command()
@cluster_options
@click.option("--check", is_flag=True, help="Only say what is there and what would be done; exit code 1 if it may not.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--registrations-only",
    is_flag=True,
    help="Delete the registrations alone, also while agents run, as the chart does before its own deletion.",
)
@click.option(
    "--wait",
    type=Duration(),
    default="2m",
    show_default=True,
    help="For the end of Jobs and Pods that are deleted already.",
)
def uninstall(cluster: Cluster, *, check: bool, yes: bool, registrations_only: bool, wait: int) -> None:
    """Take Batchgate off the cluster: its registration, its Nodes, their Leases, certificate requests, sites' accounts.

    It refuses while a routed Job or Pod lives, or an agent runs. In the end it says what is left for `helm uninstall` or
    `kubectl delete -k`.

    \b
    Example: batchgate uninstall --check
    """
    if not check:
        _await_end(cluster, wait)
    if registrations_only:
        plan = uninstalling.plan_registrations(_look_at_what_lives(cluster))
    else:
        found = _look(cluster)
        plan = uninstalling.plan(found, cluster.system, _leading(cluster, found))
    for one in plan.deletions:
        click.echo(f"delete  {one.words}")
    if not plan.deletions:
        click.echo("Nothing of Batchgate is left that this command deletes.")
    for sentence in plan.against:
        click.echo(f"Error: {sentence}.", err=True)
    if plan.against:
        click.echo("Nothing was done.", err=True)
        sys.exit(1)
    if not check:
        _act(cluster, plan, asked=not yes)
        _look_again(cluster, plan)
    for sentence in plan.then:
        click.echo(f"{sentence}.")
    if check:
        click.echo("Nothing was done (--check).")


def _await_end(cluster: Cluster, wait: int) -> None:
    """Waits where all that lives has been deleted: after `kubectl delete jobs`, agents still end the batch jobs."""
    until = time.monotonic() + wait
    told = False
    while (left := uninstalling.leaving(_look_at_what_lives(cluster))) and time.monotonic() < until:
        if not told:
            click.echo(f"Waiting at most {durations.show(wait)} for what is deleted: {', '.join(left)}", err=True)
        told = True
        time.sleep(_LOOK_SECONDS)


def _look(cluster: Cluster) -> Found:
    """All that is there. Raises ConfigError if some cannot be read: otherwise a living Pod could be missed."""
    system = f"/api/v1/namespaces/{cluster.system}"
    part = "app.kubernetes.io/part-of=batchgate"
    found = replace(
        _look_at_what_lives(cluster),
        leases=cluster.every("Leases", f"{LEASES}/{cluster.system}/leases", dict) or (),
        node_leases=cluster.every("Leases of Nodes", f"{LEASES}/{names.NODE_LEASES}/leases", dict) or (),
        requests=tuple(
            one for one in cluster.every("certificate requests", uninstalling.REQUESTS, dict) or () if is_ours(one)
        ),
        accounts=tuple(_accounts(cluster)),
        kept=tuple(f"{system}/{one}" for one in _KEPT if cluster.one(one, f"{system}/{one}") is not None),
        deployed=cluster.every(
            "Deployments", f"/apis/apps/v1/namespaces/{cluster.system}/deployments", _name, labelSelector=part
        )
        or (),
        gated=cluster.every("Namespaces", "/api/v1/namespaces", _name, labelSelector=names.LABEL_GATE) or (),
    )
    _demand_all(cluster)
    return found


def _accounts(cluster: Cluster) -> Iterator[Deletion]:
    """What `site add` has made for any site. The bindings outside our namespace stay when that is deleted."""
    ours = f"app.kubernetes.io/part-of=batchgate,{names.KEY_SITE}"
    bindings = cluster.every("ClusterRoleBindings", accounts.BINDINGS, dict, labelSelector=ours) or ()
    for site in sorted({str(one["metadata"]["labels"][names.KEY_SITE]) for one in bindings}):
        for one in reversed(accounts.objects(site, cluster.system)):
            if cluster.one(one.words, one.path) is not None:
                yield Deletion(one.path, one.words)


def _look_at_what_lives(cluster: Cluster) -> Found:
    """The registrations, and what may be routed. Raises ConfigError as above."""
    nodes = cluster.every("virtual Nodes", "/api/v1/nodes", dict, labelSelector=names.NODE_KIND) or ()
    ours = tuple(one for one in nodes if place_of(one) is not None)
    label = f"{names.KEY_TARGET}={names.TARGET_HPC}"
    found = Found(
        registrations=tuple(_registrations(cluster)),
        nodes=ours,
        jobs=cluster.every("Jobs of all namespaces", "/apis/batch/v1/jobs", facts, labelSelector=label) or (),
        pods=_pods(cluster, ours, label),
    )
    _demand_all(cluster)
    return found


def _demand_all(cluster: Cluster) -> None:
    if cluster.missed:
        cluster.say_missed()
        raise ConfigError("you must be able to see all of Batchgate to take it away; nothing was done")


def _name(found: Mapping[str, Any]) -> str:
    return str(found["metadata"]["name"])


def _registrations(cluster: Cluster) -> list[Json]:
    paths = {kind: f"{uninstalling.REGISTRATIONS}/{kind.lower()}s/{names.REGISTRATION}" for kind in _KINDS}
    found = {kind: cluster.one(kind, path) for kind, path in paths.items()}
    return [{**one, "kind": kind} for kind, one in found.items() if one is not None]


def _pods(cluster: Cluster, nodes: tuple[Json, ...], label: str) -> tuple[PodView, ...]:
    """The Pods on our Nodes, and those with our label."""
    queries = [{"labelSelector": label}, *({"fieldSelector": f"spec.nodeName={_name(node)}"} for node in nodes)]
    found: dict[str, PodView] = {}
    for query in queries:
        found |= {pod.uid: pod for pod in cluster.every("Pods of all namespaces", "/api/v1/pods", view, **query) or ()}
    return tuple(found.values())


def _leading(cluster: Cluster, found: Found) -> list[str]:
    """The holders of agents' Leases that are renewed while this looks, as this machine's clock may differ."""
    before = {_name(one): one for one in found.leases if uninstalling.is_our_lease(one) and forgetting.holder(one)}
    if not before:
        return []
    lasts = max(forgetting.lasts(one) for one in before.values())
    click.echo(f"Looking for {durations.show(lasts)} whether an agent runs: {', '.join(sorted(before))}", err=True)
    time.sleep(lasts + _LOOK_SECONDS)
    now = {name: cluster.api.find(f"{LEASES}/{cluster.system}/leases/{name}") for name in before}
    return [
        forgetting.holder(after)
        for name, after in now.items()
        if forgetting.holder(after) and forgetting.version(after) != forgetting.version(before[name])
    ]


def _look_again(cluster: Cluster, plan: Plan) -> None:
    """A Job may have been routed between the look and the end of the registration."""
    against = uninstalling.plan_registrations(_look_at_what_lives(cluster)).against if plan.deletions else ()
    for sentence in against:
        click.echo(f"Error: meanwhile: {sentence}.", err=True)
    if against:
        sys.exit(1)


def _act(cluster: Cluster, plan: Plan, *, asked: bool) -> None:
    if not plan.deletions:
        return
    if asked and not sys.stdin.isatty():
        raise click.UsageError("this is no terminal on which to ask: give --yes, or --check to only look")
    if asked:
        click.confirm("Delete all of these?", abort=True, err=True)
    for one in plan.deletions:
        try:
            cluster.api.delete(one.path)
        except NotFound:
            continue
    click.echo(f"{len(plan.deletions)} objects deleted.")
