"""``batchgate status``: shows queues, Jobs by state, stuck Pods and leading agents, with the caller's rights."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from router import names
from router.cli.cluster import LEASES, Cluster, cluster_options
from router.cli.output import as_document, as_json
from router.cli.rights import HEAD as RIGHTS_HEAD
from router.cli.rights import look_at_rights
from router.cli.rights import row as right_row
from router.cli.statustroubles import exit_code, look_at_checks, look_at_policy, print_checks, print_troubles
from router.cli.table import print_table
from router.cli.webhook import (
    HEAD,
    head_line,
    look_at_conditions,
    look_at_requests,
    look_at_webhook,
    row,
    say_requests,
)
from router.errors import ConfigError
from router.kube.client import Json
from router.kube.clock import server_time
from router.notation import durations
from router.operating import creations, releases
from router.operating.creations import FailedCreation
from router.operating.jobs import JobFacts, facts
from router.operating.overview import Overview, Queue, Seen, overview, place_of, sites_of
from router.operating.policies import sentence
from router.operating.troubles import Looked, troubles
from router.pod.view import view


@click.command()
@click.argument("site", default="")
@cluster_options
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--exit-code", "coded", is_flag=True, help="Exit with 1 if anything needs somebody (for monitors).")
def status(cluster: Cluster, site: str, output: str, *, coded: bool) -> None:
    """Show the state of queues, Jobs and the webhook, what is stuck and why, which agent leads, and what needs somebody.

    For one SITE, or for all. Reads the cluster with your own rights; what you may not see is named on standard error.
    Codes of --exit-code: 0 all is well; 1 something needs somebody; 3 you may not see all, and the rest is well.

    \b
    Example:  batchgate status
              batchgate status demo -o json
              batchgate status --exit-code
    """
    seen = look(cluster)
    known = sites_of(seen)
    if site and site not in known:
        cluster.say_missed()
        raise ConfigError(f"nothing is there of a site {site!r}; known are: {', '.join(known) or 'none'}")
    found = overview(seen, site)
    gate, waiting = look_at_webhook(cluster), look_at_requests(cluster)
    (files, policy), checks = look_at_policy(cluster), look_at_checks(cluster, known, site)
    conditions = look_at_conditions(cluster, policy, found.policies)
    allowed = () if isinstance(policy, str) else look_at_rights(cluster, policy, seen.jobs, site)
    wrong = troubles(Looked(found, gate, waiting, conditions, files, checks, allowed))
    whole = not cluster.missed
    cluster.say_missed()
    if output == "json":
        document: Any = as_document(found)
        more: dict[str, object] = {
            "webhook": gate,
            "pendingRequests": waiting,
            "matchConditions": conditions,
            "rights": allowed,
        }
        more |= {"policyFiles": files, "checks": checks, "troubles": wrong, "notLookedAt": cluster.missed}
        click.echo(as_json(document | as_document(more)))
    else:
        _print(found, none="none to be seen" if cluster.missed else "none")
        click.echo(f"\nWebhook: {head_line(gate)}")
        if gate is not None and gate.replicas:
            print_table(HEAD, [row(one) for one in gate.replicas])
        for one in conditions:
            click.echo(
                f"{'Warning: ' * (one.fits is False)}Match condition {one.name}: {one.reason}", err=one.fits is False
            )
        if allowed:
            _section("Rights that the policy needs", RIGHTS_HEAD, [right_row(one) for one in allowed], "")
        say_requests(waiting)
        print_checks(checks)
        print_troubles(wrong, whole=whole)
    if coded:
        sys.exit(exit_code(wrong, whole=whole))


def look(cluster: Cluster) -> Seen:
    """All objects of sites in a cluster that the caller may see. Raises ApiError if the API server does not answer."""
    path = f"/api/v1/namespaces/{cluster.system}/configmaps/{names.QUEUES_CONFIG_MAP}"
    queues = cluster.one("the state of queues", path) or {}
    policies, nodes = _replicas(cluster), _nodes(cluster)
    leases = cluster.every("the agents' Leases", f"{LEASES}/{cluster.system}/leases", dict)
    read = server_time(cluster.api)  # Jobs take as long as they take
    jobs = cluster.everywhere("jobs", "/apis/batch/v1", facts, labelSelector=names.KEY_TARGET)
    return Seen(
        now=server_time(cluster.api),
        queues=queues.get("data") or {},
        policies=policies,
        nodes=nodes,
        leases=None if leases is None else {one["metadata"]["name"]: one for one in leases},
        jobs=jobs,
        pods=cluster.everywhere("pods", "/api/v1", view, labelSelector=names.KEY_SITE),
        failed_creations=_failed_creations(cluster, jobs),
        read=read,
    )


def _failed_creations(cluster: Cluster, jobs: Sequence[JobFacts]) -> tuple[FailedCreation, ...]:
    """The Events that Pods of these Jobs were refused, as far as they went to HPC; no others are kept in memory."""
    known = {one.uid for one in jobs if one.site and not one.finished}

    def keep(event: Json) -> FailedCreation | None:
        found = creations.failed_creation(event)
        return found if found.uid in known else None

    found = cluster.everywhere("events", "/api/v1", keep, fieldSelector=creations.SELECTOR)
    return tuple(one for one in found if one is not None)


def _replicas(cluster: Cluster) -> dict[str, str]:
    """The documents of the webhook's replicas, by key."""
    path = f"/api/v1/namespaces/{cluster.system}/configmaps/{names.POLICY_STATE_CONFIG_MAP}"
    found = cluster.one("what each replica of the webhook publishes about itself", path) or {}
    return dict(found.get("data") or {})


def _nodes(cluster: Cluster) -> tuple[dict[str, Any], ...]:
    return cluster.every("the Nodes of queues", "/api/v1/nodes", dict, labelSelector=names.NODE_KIND) or ()


def read_programs(cluster: Cluster) -> tuple[releases.Running, ...]:
    """The webhook's replicas and the sites' agents with their releases. Raises ApiError without an answer."""
    sites = [(place[0], node) for node in _nodes(cluster) if (place := place_of(node))]
    return releases.running(_replicas(cluster), sites, server_time(cluster.api))


def _print(found: Overview, *, none: str) -> None:
    for problem in (*found.problems, *releases.too_far(found.releases)):
        click.echo(f"Warning: {problem}", err=True)
    head = ("SITE", "QUEUE", "STATE", "FREE", "QUEUED", "RUNNING", "AGE", "REASON")
    _section("Queues", head, [_queue(one) for one in found.queues], none)
    leaders = [
        (one.site, one.holder or "nobody", ago(one.age), "" if one.in_force else "no agent leads")
        for one in found.leaders
    ]
    _section("Agents", ("SITE", "LEADER", "RENEWED", "REASON"), leaders, none)
    click.echo(f"\nPolicy: {sentence(found.policies)}")
    click.echo(f"Releases: {releases.sentence(found.releases)}")
    counts = [(one.site or "(cloud)", str(one.state), str(one.count)) for one in found.jobs]
    _section("Jobs", ("SITE", "STATE", "JOBS"), counts, none)
    if (one := found.oldest_waiting) is not None:
        words = f"{one.namespace}/{one.name}, in queue {one.queue} of site {one.site}"
        click.echo(f"\nOldest waiting Job: {words}, since {one.since} ({durations.show(one.age)})")
    stuck = [
        (one.kind, f"{one.namespace}/{one.name}".lstrip("/"), one.job, one.reason, one.since, one.message)
        for one in found.stuck
    ]
    _section("Stuck", ("KIND", "NAME", "JOB", "WHY", "SINCE", "WORDS"), stuck, none)


def _section(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], none: str) -> None:
    click.echo(f"\n{title}" if rows else f"\n{title}: {none}")
    if rows:
        print_table(head, rows)


def _queue(one: Queue) -> tuple[str, ...]:
    counts = (one.free_nodes, one.queued_jobs, one.running_jobs)
    shown = ("-" if count is None else str(count) for count in counts)
    return (one.site, one.queue, one.state, *shown, ago(one.age), one.reason)


def ago(age: int | None) -> str:
    """An age for a table's cell."""
    return "-" if age is None else durations.show(age)
