"""``batchgate explain``: shows a Job's requests, each rule up to the deciding one, the decision, the script."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

import click

from router import names
from router.cli.judging import LEFT_ALONE, Asked, Judged, complain, judge_all, judging_options, open_gate, say_if_none
from router.gate.judging import Job, Judgement
from router.hpc.requests import Chunk
from router.notation import durations, quantity
from router.policy import Policy
from router.policy.decision import Considered, Decision, Route
from router.policy.sentences import each_of_pods
from router.policy.sizes import counted_by
from router.reference import telling
from router.site import profiles
from router.site.allocation import is_mpi
from router.site.credentials import brought
from router.site.schema import Runtime, Site
from router.site.volumes import EMPTY, STAGED, SitePath, place_of
from router.workload.inside import started_by, starts_ranks
from router.workload.launchfigures import largest, show_ranks
from router.workload.model import Container, Figure, Known, Launch, Workload

_NOTHING = "nothing asked for"
_NO_GRACE = (
    "kept by the script at the deadline and at a deletion; none where the batch system itself kills the job, "
    "which takes an image away that a process of the job has mounted (FUSE)"
)


@click.command()
@judging_options
@click.option("--no-script", is_flag=True, help="Leave the script out.")
@click.option("--fields", is_flag=True, help="Name every field that is translated or harmless on HPC.")
def explain(asked: Asked, *, no_script: bool, fields: bool) -> None:
    """Say what a Job asks for, where it goes, and why.

    A Job from the cluster (kubectl get job NAME -o yaml) is explained for the user who made it, unless you give --user.

    \b
    Example:  batchgate explain -f job.yaml --policy policies --user ada
    """
    refused = False
    jobs = 0
    gate = open_gate(asked)
    for judged in judge_all(asked, gate, explain=True):
        if judged.judgement is not None:
            shown = _lines(judged, judged.judgement, gate.policy, no_script=no_script, fields=fields)
            click.echo("\n".join(shown) + "\n")
        refused |= complain(judged, warnings=False)
        jobs += judged.judgement is not None or judged.error is not None
    say_if_none(jobs)
    sys.exit(1 if refused else 0)


def _lines(judged: Judged, judgement: Judgement, policy: Policy, *, no_script: bool, fields: bool) -> Iterator[str]:
    yield f"{judged.name}  ({judged.manifest.place})"
    if judged.maker:
        yield f"  for {judged.maker}, who made it (annotation {names.KEY_REQUESTER}); --user and --group name others"
    if judgement.workload is None or judgement.decision is None:
        yield f"  {LEFT_ALONE}: it is not judged"
        return
    if judged.asker:
        yield from _section("asked by", [judged.asker])
    yield from _section("asks for", _figures(_counted(judgement.workload, judgement.decision, policy)))
    yield from _section("rules, in order", _rules(judgement.decision))
    yield from _section("decision", _decision(judgement.decision))
    yield from _launches(judgement.workload, judgement.decision.route)
    if judgement.decision.route is not None:
        each = f" for {pods}" if (pods := each_of_pods(judgement.workload)) else ""
        yield from _section(f"asked of the batch system{each}", _route(judgement.decision.route, judgement.workload))
    for site in _sites_tried(judgement.workload, judgement.decision, policy):
        lines = profiles.reasons(judgement.workload, site)
        yield from _section(f"MPI profiles of site {site.name}, in order", lines or ["none"])
    yield from _by_field(judged, judgement.stripped.job, judgement.workload, judgement.decision, whole=fields)
    if judgement.differences:
        yield from _section("different there, as for every such Job", judgement.differences)
    # One warning repeats the decision, which is shown above.
    if warnings := [text for text in judgement.warnings if judgement.decision.reason not in text]:
        yield from _section("warnings", warnings)
    if judgement.script is not None and not no_script:
        yield "  script, the Job's own part (batchgate script prints it complete)"
        yield ""
        yield judgement.script.own.rstrip("\n")


def _by_field(judged: Judged, own: Job, workload: Workload, decision: Decision, *, whole: bool) -> Iterator[str]:
    """The fields that keep a Job in the cloud, and those that are not what they are in the cloud."""
    found = decision.in_the_way or [str(one) for one in workload.obstacles]
    if found:
        yield from _section("keeps it in the cloud", found)
    if whole or decision.wanted:
        changed = telling.lines(own["spec"], f"{judged.root}spec", found, whole=whole)
        yield from _section("fields that are translated or have no effect there", changed or ["none"])


def _counted(workload: Workload, decision: Decision, policy: Policy) -> Workload:
    """The Workload with the figures that the rule which decided counts by."""
    rules = [one.rule for one in policy.rules if one.name == decision.rule]
    return counted_by(workload, rules[0].figures) if rules else workload


def _sites_tried(workload: Workload, decision: Decision, policy: Policy) -> tuple[Site, ...]:
    """The sites whose MPI profiles count: the route's, or for an MPI Job that stays, all candidates of the rule."""
    if decision.route is not None:
        return (decision.route.site,) if workload.mpi or decision.route.profile else ()
    if not workload.mpi or not decision.wanted:
        return ()
    chosen = [rule.candidates for rule in policy.rules if rule.name == decision.rule]
    return tuple({one.site.name: one.site for found in chosen for one in found}.values())


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    yield f"  {title}"
    for line in lines:
        yield f"    {line}"


def _figures(workload: Workload) -> list[str]:
    """Each figure with its origin, aligned."""
    walltime = workload.walltime_asked
    rows = [
        ("CPUs per Pod", _show(workload.cpu, quantity.show_cpu)),
        ("memory per Pod", _show(workload.memory, quantity.show_bytes)),
        ("GPUs per Pod", _show(workload.gpus, str)),
        *[
            (f"{one.name} per Pod", (str(one.amount), ", ".join([path for path, _ in one.fields])))
            for one in workload.extended
            if not one.is_gpu
        ],
        ("Pods at once", _show(workload.parallelism, str)),
        ("completions", _show(workload.completions, str)),
        ("walltime", _show(walltime, durations.show)),
    ]
    if workload.mpi:
        rows += [
            ("MPI container", (workload.mpi, "")),
            ("ranks", _show(workload.ranks, str)),
            ("ranks per node", _show(workload.ranks_per_node, str)),
            ("nodes", _show(workload.nodes, str)),
        ]
    wide = max(len(title) for title, _ in rows)
    broad = max(len(value) for _, (value, _) in rows)
    return [f"{title:{wide}}  {value:{broad}}  {origin}".rstrip() for title, (value, origin) in rows]


def _launches(workload: Workload, route: Route | None) -> Iterator[str]:
    """Each launcher with its place, the ranks of the container that holds it, and what is not looked into."""
    implied = route is not None and route.profile is not None and route.profile.implies_mpi
    how = _how(workload, route) if route is not None else ""
    lines = [line for one in workload.main_containers for line in _started(one, how, implied=implied)]
    if lines:
        yield from _section("MPI launchers found", lines)


def _how(workload: Workload, route: Route) -> str:
    """How the launchers inside a container start ranks; empty if it has none."""
    if not is_mpi(workload, route.profile):
        return ""
    if route.allocation.nodes == 1:
        return "runs once; what it launches starts ranks in the container, on one node"
    return "runs once; the site's launcher starts the ranks that it launches, over all nodes"


def _started(container: Container, how: str, *, implied: bool) -> Iterator[str]:
    if lifted := container.launcher:
        limit = f", at most {durations.show(lifted.time_limit)}" if lifted.time_limit else ""
        yield f"{lifted.source}: {lifted.program}{_ranks(lifted.ranks)}{limit}; the site's own takes its place"
    started = started_by(container) if implied and container.launcher is None else container.started
    if started is None:
        return
    if how and starts_ranks(container):
        yield f"{container.path}: {how}"
    yield from (_launch(launch) for launch in started.launches)
    if started.launches:
        _, most = largest(started.launches, container.cpu)
        yield f"together {show_ranks(most.value)}: {most.origin}"
    yield from (f"{unread.place}: not read, as the text {unread.what}" for unread in started.unread)
    yield from (f"{script.place}: {script.what}: its text is not looked into" for script in started.scripts)


def _launch(launch: Launch) -> str:
    how = f" ({launch.known})" if launch.known is Known.VALUES else ""
    unknown = f"; it {launch.unknown}" if launch.unknown else ""
    return f"{launch.place}: {launch.program}{_ranks(launch.ranks)}{how}{unknown}"


def _ranks(figure: Figure | None) -> str:
    return f", {show_ranks(figure.value)}" if figure else ""


def _show(figure: Figure | None, form: Callable[[int], str]) -> tuple[str, str]:
    return (_NOTHING, "") if figure is None else (form(figure.value), f"{figure.origin}{figure.aside}")


def _rules(decision: Decision) -> list[str]:
    lines = [line for rule in decision.considered for line in _rule(rule)]
    return [*lines, f"not looked at: {', '.join(decision.not_looked_at)}"] if decision.not_looked_at else lines


def _rule(rule: Considered) -> list[str]:
    word = {True: "holds", False: "does not hold", None: "cannot be evaluated"}[rule.held]
    if rule.audit and rule.held:
        word = "holds, but only records it (mode: audit)"
    line = f"{rule.rule}: {word}: {rule.why}"
    would = "would be " if rule.audit else ""
    return [line, f"  -> {would}{rule.outcome}"] if rule.outcome else [line]


def _decision(decision: Decision) -> list[str]:
    return [f"{decision.target}, by rule {decision.rule}: {decision.reason}"]


def _volumes(workload: Workload, site: Site) -> Iterator[tuple[str, str]]:
    """Volumes whose data lie on the site, each with its path there."""
    for volume in workload.volumes:
        if volume.kind in EMPTY | STAGED:
            continue
        place = place_of(workload, volume, site)
        if isinstance(place, SitePath):
            path = "/".join([part for part in (place.path, place.below) if part])
            yield f"volume {volume.name}", f"{path}{', read-only' if place.read_only else ''}"


def _route(route: Route, workload: Workload) -> list[str]:
    allocation = route.allocation
    rows = [
        ("site and queue", f"{route.site.name}, {route.queue.name}"),
        ("runs as", ", ".join(_identity(route))),
        *(("chunks", _chunk(chunk)) for chunk in allocation.chunks),
        ("deadline", f"the containers end after {durations.show(allocation.deadline)}"),
        ("walltime", durations.show(allocation.walltime)),
    ]
    if route.site.runtime is not Runtime.HOST:
        rows.append(("grace period", f"{durations.show(allocation.grace)}, {_NO_GRACE}"))
    if route.profile is not None:
        rows.append(("MPI profile", f"{route.profile.name} ({route.profile.launcher})"))
    rows += _volumes(workload, route.site)
    rows += brought(workload, route.site)
    rows += [(f"why {title}", note) for title, note in allocation.notes]
    rows += [("node labels", f"{note}: met by the queue's nodes") for note in route.nodes.met]
    rows += [("node labels", f"{note}: ignored on this site") for note in route.nodes.ignored]
    rows += [
        ("node labels", f"chosen by the directive {key} {value}".rstrip()) for key, value in route.nodes.directives
    ]
    wide = max(len(title) for title, _ in rows)
    return [f"{title:{wide}}  {value}" for title, value in rows]


def _chunk(chunk: Chunk) -> str:
    parts = [f"{chunk.ncpus} cores"]
    if chunk.ranks > 1:
        parts.append(f"{chunk.ranks} ranks")
    if chunk.memory is not None:
        parts.append(quantity.show_bytes(chunk.memory))
    if chunk.gpus:
        parts.append(f"{chunk.gpus} GPUs")
    return f"{chunk.count} x ({', '.join(parts)})"


def _identity(route: Route) -> Iterator[str]:
    yield route.identity.user
    if route.identity.account:
        yield f"account {route.identity.account}"
    if route.identity.project:
        yield f"project {route.identity.project}"
