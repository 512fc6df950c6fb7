"""``batchgate queues`` and ``images``: what sites tell everybody, for users who may not see Nodes.

Shell (the API). One ConfigMap is read, with the caller's own rights; the API server says who the caller is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import click

from router import names
from router.cli.cluster import Cluster, cluster_options
from router.cli.output import as_document, as_json
from router.cli.table import print_table
from router.errors import ConfigError
from router.kube.clock import ask_who
from router.notation import durations, quantity
from router.operating.notices import Notice, read
from router.operating.offers import ImageSource, Offer, image_sources, offers
from router.policy.decision import Requester

_OUTPUT: Final = click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
_SOURCES: Final = {
    "site": "a file of the site",
    "host": "a registry; pulled on the site before the Job is submitted",
    "job": "a registry; pulled by the batch job",
    "never": "nowhere: this site pulls no images",
    "unknown": "unknown: this site has more images than it can tell",
}
_QUEUE_HEAD: Final = (
    *("SITE", "QUEUE", "STATE", "FREE", "QUEUED", "RUNNING", "WAITS", "NODES", "CORES", "MEMORY", "GPUS", "WALLTIME"),
    "RUNS AS",
)


@click.command()
@click.argument("site", default="")
@cluster_options
@_OUTPUT
def queues(cluster: Cluster, site: str, output: str) -> None:
    """Show the queues: what a Job may ask for, how busy they are, and as whom it would run.

    NODES are the most of one Job; CORES, MEMORY and GPUS are of each node. WAITS: how long the first waiting job has
    waited. Needs no right but to read the ConfigMap batchgate-public, if the cluster's admins have made it.

    \b
    Example:  batchgate queues
              batchgate queues demo -n physics -o json
    """
    notices = _notices(cluster, site)
    who = ask_who(cluster.api)
    now = time.time() if who.time is None else who.time
    found = tuple(offers(notices, Requester(who.user, who.groups, cluster.namespace), now))
    if output == "json":
        click.echo(as_json({"namespace": cluster.namespace, "queues": as_document(found)}))
        return
    print_table(_QUEUE_HEAD, [_queue(one) for one in found])
    for sentence in dict.fromkeys(f"{one.site}: {one.reason}" for one in found if one.reason):
        click.echo(f"Note: {sentence}", err=True)
    for sentence in dict.fromkeys(f"{one.site}: {one.refusal}" for one in found if one.refusal):
        click.echo(f"Note: {sentence}", err=True)
    _say_silent(notices, [one.site for one in notices if one.queues is None], "queues")


@click.command()
@click.argument("image", default="")
@cluster_options
@_OUTPUT
def images(cluster: Cluster, image: str, output: str) -> None:
    """Show which images sites have as files, and where an IMAGE would come from.

    An image is named as in a Job: the patterns are over the text that stands there.

    \b
    Example:  batchgate images
              batchgate images ghcr.io/lab/solver:2
    """
    notices = _notices(cluster, "")
    found = tuple(image_sources(notices, image))
    if output == "json":
        click.echo(as_json({"image": image, "sources": as_document(found)}))
        return
    print_table(("SITE", "IMAGE", "COMES FROM"), [_source(one) for one in found])
    _say_silent(notices, [one.site for one in notices if one.images is None], "images")


def _notices(cluster: Cluster, site: str) -> list[Notice]:
    """The notices of all sites, or of one. Raises ConfigError without any."""
    place = f"ConfigMap {cluster.system}/{names.PUBLIC_CONFIG_MAP}"
    path = f"/api/v1/namespaces/{cluster.system}/configmaps/{names.PUBLIC_CONFIG_MAP}"
    found = cluster.one(f"what sites tell everybody ({place})", path)
    if found is None:
        why = (
            cluster.missed[0] if cluster.missed else f"there is no {place}, in which sites tell everybody of themselves"
        )
        raise ConfigError(f"{why}; an admin of the cluster can change that (docs/queues.md)")
    told, problems = read(found.get("data") or {})
    for problem in problems:
        click.echo(f"Warning: {problem}", err=True)
    chosen = [one for one in told if site in ("", one.site)]
    if not chosen:
        known = ", ".join(one.site for one in told) or "none"
        raise ConfigError(
            f"no site {site!r} tells of itself in {place}; known are: {known}"
            if site
            else f"{place} is empty: no site of the policy has the key public, or none of their agents has run since (docs/queues.md)"
        )
    return chosen


def _queue(one: Offer) -> tuple[str, ...]:
    figures = [one.free_nodes, one.queued_jobs, one.running_jobs]
    waits, most = (None if value is None else durations.show(value) for value in (one.wait_seconds, one.walltime_max))
    gpus = f"{one.gpus_per_node} {one.gpu_vendor or ''}".strip() if one.gpus_per_node else "-"
    who = " ".join([one.user, *(f"({kind} {name})" for kind, name in _billed(one))]) if one.user else "-"
    memory = "-" if one.memory_per_node is None else quantity.show_bytes(one.memory_per_node)
    limits = (str(one.nodes), str(one.cpus_per_node), memory, gpus, most or "-")
    shown = ("-" if value is None else str(value) for value in figures)
    return (one.site, one.queue, one.state, *shown, waits or "-", *limits, who)


def _billed(one: Offer) -> list[tuple[str, str]]:
    return [(kind, name) for kind, name in (("account", one.account), ("project", one.project)) if name]


def _source(one: ImageSource) -> tuple[str, ...]:
    return (one.site, "any other" if one.match == "*" and one.source != "site" else one.match, _SOURCES[one.source])


def _say_silent(notices: Sequence[Notice], silent: Sequence[str], what: str) -> None:
    if silent:
        click.echo(f"Note: without word of their {what}: {', '.join(silent)}", err=True)
    for one in notices:
        if one.left_out:
            click.echo(f"Note: {one.site} has more to tell than has room here: {one.left_out} entries.", err=True)
