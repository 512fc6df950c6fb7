"""``batchgate describe``: the story of one Job, from Kubernetes and, if the caller has access, from the site."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click

from router import names
from router.cli import sitefiles
from router.cli.cluster import Cluster, cluster_options
from router.cli.cronjob import describe_cronjob
from router.cli.output import as_document, as_json
from router.cli.sitefiles import OnSite
from router.cli.table import print_table
from router.errors import ApiError, ConfigError
from router.hpc import cluster_id
from router.kube.client import Json
from router.notation import durations
from router.operating import gonejobs
from router.operating.nodewords import NodeStory, node_story, nodes_to_ask, silent
from router.operating.story import Container, PodStory, Request, Story, is_about, story

_POD: Final = ("POD", "INDEX", "BATCH JOB", "PHASE", "CREATED", "QUEUED", "STARTED", "ENDED", "EXIT", "REASON")
_CONTAINER: Final = ("POD", "CONTAINER", "STATE", "EXIT", "SIGNAL", "RESTARTS", "STARTED", "ENDED", "REASON")
_FORBIDDEN: Final = 403
_NO_POLICY: Final = "no --policy DIR was given, which says where the site's files are"


@click.command()
@click.argument("job")
@cluster_options
@click.option(
    "--policy", envvar="BATCHGATE_POLICY", metavar="DIR", help="Also look at the Pods' directories on the site."
)
@click.option("--cluster-id", metavar="DIGITS", help="The agent's --cluster-id; by default from kube-system's uid.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def describe(cluster: Cluster, job: str, policy: str | None, cluster_id: str | None, output: str) -> None:
    """Tell the whole story of one JOB: decision, sizes, Pods, batch jobs, exit codes, Events, results.

    For cronjob/NAME: where each of its Jobs went and why; with --policy also a forecast for the next one.

    With --policy also the files in the Pods' directories on the site, if you can reach it from here with your own
    rights.

    \b
    Example:  batchgate describe large -n default
              batchgate describe large --policy policies -o json
              batchgate describe cronjob/nightly --policy policies
    """
    kind, _, name = job.rpartition("/")
    if kind in {"cronjob", "cronjobs", "cj"}:
        describe_cronjob(cluster, name, policy, output)
        return
    job = name if kind in {"job", "jobs"} else job
    found = _find(cluster, job)
    nodes = tuple(_nodes(cluster, found))
    on_site, no_pods = _files(cluster, found, policy, cluster_id)
    cluster.say_missed()
    if output == "json":
        document: Any = as_document(found)
        more = {"nodes": as_document(nodes), "onSite": as_document(on_site), "notLookedAt": cluster.missed}
        click.echo(as_json(document | more))
        return
    for part in (_head(found), _decision(found), _sizes(found), _different(found)):
        click.echo("\n".join(part), nl=bool(part))
    _print_pods(found.pods)
    click.echo("".join(f"{_plain(line)}\n" for line in _of_nodes(nodes)), nl=False)
    _print_events(found)
    for line in _where(found, on_site, no_pods):
        click.echo(_plain(line))


def _find(cluster: Cluster, name: str) -> Story:
    """The story of a Job. One that is gone is told by its Pods that are still there.

    Raises ConfigError if the caller may not read it, or if it is gone with all its Pods.
    """
    below = f"namespaces/{quote(cluster.namespace, safe='')}"
    job = cluster.one(f"Job {name}", f"/apis/batch/v1/{below}/jobs/{quote(name, safe='')}")
    if job is None:
        job, pods = _left(cluster, name, below)
    else:
        selector = f"{names.CONTROLLER_UID}={job['metadata']['uid']}"
        pods = cluster.every("the Job's Pods", f"/api/v1/{below}/pods", dict, labelSelector=selector) or ()
    uids = {pod["metadata"]["uid"] for pod in pods}

    def about(event: Json) -> Json | None:  # a namespace may have many thousands, of which few are kept
        return event if is_about(event, job, uids) else None

    events = cluster.every("Events", f"/api/v1/{below}/events", about) or ()
    return story(job, pods, [event for event in events if event is not None])


def _left(cluster: Cluster, name: str, below: str) -> tuple[Json, Sequence[Json]]:
    """What is left of a Job that is not there: as much of it as its Pods tell, and these. Raises ConfigError."""
    why = cluster.missed[-1] if cluster.missed else f"there is no Job {name!r} in namespace {cluster.namespace}"
    found: Sequence[Json] = ()
    if not cluster.missed and (selector := gonejobs.selector(name)):
        found = cluster.every("the Job's Pods", f"/api/v1/{below}/pods", dict, labelSelector=selector) or ()
    if not found:
        raise ConfigError(f"{why}; name its namespace with -n")
    pods, earlier = gonejobs.newest(found)
    cluster.missed.append(f"{why} any more: this is told by its Pods that are still there")
    if earlier:
        left_out = ", ".join(one["metadata"]["name"] for one in earlier)
        cluster.missed.append(f"Pods of an earlier Job of this name are left out: {left_out}")
    return gonejobs.job_of(name, pods), pods


def _nodes(cluster: Cluster, found: Story) -> Iterator[NodeStory]:
    """What the Nodes say of Pods that cannot say it. A missing right is told where a Pod gives no reason itself."""
    for name, pods in nodes_to_ask(found.pods).items():
        try:
            told = node_story(name, cluster.api.find(f"/api/v1/nodes/{quote(name, safe='')}"), pods)
        except ApiError as error:
            if error.status != _FORBIDDEN:
                raise
            if mute := silent(pods):
                cluster.missed.append(
                    f"Node {name} of Pod {mute[0].name} could not be looked at: {error.message}; ask for the right to "
                    "get nodes, or ask the admin of the platform whether the agent of this Node runs"
                )
            continue
        if told is not None:
            yield told


def _files(cluster: Cluster, found: Story, policy: str | None, digits: str | None) -> tuple[tuple[OnSite, ...], str]:
    """Each Pod's directory; and where logs may be if no Pod is there. A policy that cannot be used is noted."""
    of_hpc = found.decision.target == names.TARGET_HPC
    if of_hpc and digits is None:
        system: Json | None = cluster.one("the cluster's id", "/api/v1/namespaces/kube-system")
        digits = cluster_id(system["metadata"]["uid"]) if system else ""
    problem = _NO_POLICY
    if policy is not None:
        try:
            on_site = sitefiles.look(found, digits or "", Path(policy)) if of_hpc else ()
            return on_site, "" if found.pods else sitefiles.no_pods(found, Path(policy))
        except ConfigError as error:  # the rest of the story needs no policy
            problem = cluster.without_policy("the files on the site", policy, error)
    on_site = sitefiles.unseen(found, digits or "", problem) if of_hpc else ()
    return on_site, "" if found.pods else sitefiles.no_pods(found, None)


def _head(found: Story) -> list[str]:
    words = ": ".join(text for text in (found.reason, found.message) if text)
    rows = [
        ("state", f"{found.state}{f' ({words})' if words else ''}"),
        ("created", found.created),
        ("started", found.started),
        ("ended", found.ended),
        ("Pods", f"{found.succeeded} succeeded, {found.failed} failed, {len(found.pods)} there"),
    ]
    return [f"{found.namespace}/{found.name}", *_aligned(rows)]


def _decision(found: Story) -> list[str]:
    one = found.decision
    if one.manager:
        return ["", "Decision", f"  none: it is left to the controller {_plain(one.manager)}, which the policy lists"]
    if not one.target:
        return ["", "Decision", "  none: Batchgate has not judged this Job"]
    rows = [
        ("target", one.target),
        ("rule", one.rule),
        ("reason", one.reason),
        ("requester", one.requester),
        ("runs as", one.user),
        ("account", one.account),
        ("project", one.project),
        ("site", one.site),
        ("queue", one.queue),
        ("trace", one.trace),
    ]
    return ["", "Decision", *_aligned(rows)]


def _sizes(found: Story) -> list[str]:
    sizes = found.sizes
    numbers = [("completions", sizes.completions), ("parallelism", sizes.parallelism), ("retries", sizes.retries)]
    rows = [(title, "" if value is None else str(value)) for title, value in numbers]
    rows.append(("time", "" if sizes.deadline is None else durations.show(sizes.deadline)))
    for one in sizes.containers:
        asked = ", ".join(_asked(key, one) for key in {**one.requests, **one.limits})
        rows.append((f"container {one.name}", f"{one.image}{f': {asked}' if asked else ''}"))
    rows += [(key, value) for key, value in sizes.hints.items()]
    rows += [("directive", text) for text in sizes.directives]
    return ["", "Asks for", *_aligned(rows)]


def _asked(key: str, one: Request) -> str:
    """``memory 5Gi (at most 60Gi)``: a request, and a limit that differs from it."""
    request, limit = one.requests.get(key), one.limits.get(key)
    return f"{key} {request or limit}{f' (at most {limit})' if request and limit and limit != request else ''}"


def _different(found: Story) -> list[str]:
    lines = [f"  {_plain(sentence)}" for sentence in found.different]
    return ["", "Different on HPC", *lines] if lines else []


def _aligned(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    rows = [(title, value) for title, value in rows if value]
    wide = max((len(title) for title, _ in rows), default=0)
    return (f"  {title:{wide}}  {_plain(value)}" for title, value in rows)


def _plain(text: str) -> str:
    """One line without control characters: a manifest's text must not control the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def _print_pods(pods: Sequence[PodStory]) -> None:
    click.echo("\nPods" if pods else "\nPods: none are there now")
    if not pods:
        return
    print_table(_POD, [_pod(one) for one in pods])
    click.echo("\nContainers")
    print_table(_CONTAINER, [_container(pod.name, one) for pod in pods for one in pod.containers])


def _pod(one: PodStory) -> tuple[str, ...]:
    words = ": ".join(text for text in (one.reason, one.message) if text)
    times = (one.created, one.queued, one.started, one.ended)
    moved = f" (now in {one.queue_now})" if one.queue_now else ""
    return (one.name, one.index, f"{one.batch_job}{moved}", one.phase, *times, one.exit, words)


def _container(pod: str, one: Container) -> tuple[str, ...]:
    numbers = ("" if value is None else str(value) for value in (one.exit_code, one.signal, one.restarts))
    words = ": ".join(text for text in (one.reason, one.message) if text)
    return (pod, one.name, one.state, *numbers, one.started, one.ended, words)


def _of_nodes(nodes: Sequence[NodeStory]) -> Iterator[str]:
    yield from ("", "Nodes") if nodes else ()
    for one in nodes:
        since, words = one.since and f" since {one.since}", one.message and f": {one.message}"
        count = len(one.pods)
        yield f"  {one.node} ({count} Pod{'s' * (count > 1)}): {one.condition}{since}{words}"
        yield f"    {one.means}"


def _print_events(found: Story) -> None:
    click.echo("\nEvents" if found.events else "\nEvents: none are kept")
    if found.events:
        rows = [(one.time, one.type, one.about, one.reason, str(one.count), one.message) for one in found.events]
        print_table(("TIME", "TYPE", "OF", "REASON", "COUNT", "MESSAGE"), rows)


def _where(found: Story, on_site: Sequence[OnSite], no_pods: str) -> Iterator[str]:
    yield ""
    yield "Logs and results"
    logs = [line for pod in found.pods for line in pod.logs]
    yield from (f"  {line}" for line in logs or [no_pods])
    yield from (f"  {line}" for line in found.results)
    for one in on_site:
        yield ""
        yield f"On the site, of Pod {one.pod}: {one.directory}"
        yield from (f"  {file.path}  {file.size} bytes  {file.modified}" for file in one.files)
        if one.problem:
            yield f"  not looked at: {one.problem}"
            yield f"  {one.advice}"
