"""``batchgate explain``: shows a Job's requests, each rule up to the deciding one, the decision, the script."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

import click

from router import names
from router.cli.explaindocument import explanation
from router.cli.explained import counted, launch_lines, sites_tried
from router.cli.judging import LEFT_ALONE, Asked, Judged, complain, judge_all, judging_options, open_gate, say_if_none
from router.cli.output import as_document, as_json
from router.gate.judging import Job, Judgement
from router.hpc.requests import Chunk
from router.notation import durations, quantity
from router.policy import Policy
from router.policy.decision import Considered, Decision, Route
from router.policy.sentences import each_of_pods
from router.reference import telling
from router.site import profiles
from router.site.credentials import brought
from router.site.schema import Runtime, Site
from router.site.volumes import EMPTY, STAGED, SitePath, place_of
from router.workload.model import Figure, Workload

_NOTHING = "nothing asked for"
_NO_GRACE = (
    "kept by the script at the deadline and at a deletion; none where the batch system itself kills the job, "
    "which takes an image away that a process of the job has mounted (FUSE)"
)


@click.command()
@judging_options
@click.option("--no-script", is_flag=True, help="Leave the script out.")
@click.option("--fields", is_flag=True, help="Name every field that is translated or harmless on HPC.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def explain(asked: Asked, *, no_script: bool, fields: bool, output: str) -> None:
    """Say what a Job asks for, where it goes, and why.

    -o json is the same as a document, with a list of all Jobs (docs/judging.md).

    A Job from the cluster (kubectl get job NAME -o yaml) is explained for the user who made it, unless you give --user.

    \b
    Example:  batchgate explain -f job.yaml --policy policies --user ada
    """
    refused = False
    jobs = 0
    documents = []
    gate = open_gate(asked)
    for judged in judge_all(asked, gate, explain=True):
        if output == "json" and (judged.judgement or judged.error):
            documents.append(explanation(judged, gate.policy, script=not no_script, fields=fields))
        elif judged.judgement is not None:
            shown = _lines(judged, judged.judgement, gate.policy, no_script=no_script, fields=fields)
            click.echo("\n".join(shown) + "\n")
        refused |= complain(judged, warnings=False)
        jobs += judged.judgement is not None or judged.error is not None
    if output == "json":
        click.echo(as_json({"policy": gate.policy.digest, "jobs": as_document(documents)}))
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
    yield from _section("asks for", _figures(counted(judgement.workload, judgement.decision, policy)))
    yield from _section("rules, in order", _rules(judgement.decision))
    yield from _section("decision", _decision(judgement.decision))
    if launchers := launch_lines(judgement.workload, judgement.decision.route):
        yield from _section("MPI launchers found", launchers)
    if judgement.decision.route is not None:
        each = f" for {pods}" if (pods := each_of_pods(judgement.workload)) else ""
        yield from _section(f"asked of the batch system{each}", _route(judgement.decision.route, judgement.workload))
    for site in sites_tried(judgement.workload, judgement.decision, policy):
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
