"""The judgement of a Job as a document, for ``batchgate explain -o json``.

Pure. ``docs/judging.md`` describes the keys, which are the fields below in Kubernetes' spelling. Figures are whole
numbers of the unit that ``Figures`` names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from router.cli.explained import counted, launch_lines, sites_tried
from router.cli.judging import Judged
from router.gate.judging import Judgement
from router.hpc.requests import Allocation, Chunk
from router.policy import Policy
from router.policy.decision import Considered, Decision, Requester, Route
from router.reference import telling
from router.site import profiles
from router.site.credentials import brought
from router.site.schema import Site
from router.site.volumes import EMPTY, STAGED, SitePath, place_of
from router.workload.model import Figure, Workload


@dataclass(frozen=True, slots=True)
class Asker:
    """For whom a Job was judged. ``why``: a clause if somebody else was meant by the options; else empty."""

    user: str
    groups: tuple[str, ...]
    namespace: str
    why: str


@dataclass(frozen=True, slots=True)
class Amount:
    """A figure, the field or default that it comes from, and what its limit or request is if that is another amount."""

    value: int
    origin: str
    beside: str


@dataclass(frozen=True, slots=True)
class Resource:
    """A further resource of each Pod. ``amount`` in whole units, bytes for huge pages."""

    name: str
    amount: int
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """What a Job asks for; None is left open by it.

    ``millicores``, ``memory_bytes``, ``gpus`` and ``resources`` are of each Pod; ``parallelism`` and ``completions``
    are numbers of Pods.
    """

    millicores: Amount | None
    memory_bytes: Amount | None
    gpus: Amount | None
    resources: tuple[Resource, ...]
    parallelism: Amount | None
    completions: Amount | None
    walltime_seconds: Amount | None
    mpi_container: str
    ranks: Amount | None
    ranks_per_node: Amount | None
    nodes: Amount | None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule that was looked at. ``held`` is None if its condition failed. ``place``: ``file:line``.

    ``target``, ``queue`` (``site/queue``) and ``outcome`` are what it does, or as an audit rule would do.
    """

    name: str
    place: str
    held: bool | None
    audit: bool
    why: str
    target: str | None
    queue: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The decision. ``rule`` is empty for a Job that no rule was asked about."""

    target: str
    rule: str
    reason: str
    in_the_way: tuple[str, ...]
    refused_hints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """``count`` equal parts of the batch job, each on one node. ``memory_bytes``: None leaves it to the queue."""

    count: int
    cores: int
    ranks: int
    memory_bytes: int | None
    gpus: int


@dataclass(frozen=True, slots=True)
class Path:
    """A volume whose data lie on the site."""

    volume: str
    path: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence about something."""

    about: str
    says: str


@dataclass(frozen=True, slots=True)
class NodeLabels:
    """How the Job's demands on nodes are met. ``directives`` are those that choose nodes."""

    met: tuple[str, ...]
    ignored: tuple[str, ...]
    directives: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """What the batch system is asked for, of each Pod."""

    site: str
    queue: str
    user: str
    account: str | None
    project: str | None
    chunks: tuple[Share, ...]
    deadline_seconds: int
    walltime_seconds: int
    grace_seconds: int
    mpi_profile: str
    volumes: tuple[Path, ...]
    credentials: tuple[Note, ...]
    notes: tuple[Note, ...]
    node_labels: NodeLabels


@dataclass(frozen=True, slots=True)
class Field:
    """What becomes on HPC of one field that is not what it is in the cloud."""

    path: str
    outcome: str
    says: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """All of one Job. What a Job lacks that stays in the cloud, or is left alone, is None or empty.

    :param outcome: ``untouched`` is left to another controller, ``invalid`` has an ``error``
    :param profiles: why each MPI profile of a site that was tried fits or not, by site
    """

    name: str
    kind: str
    file: str
    line: int
    outcome: Literal["judged", "untouched", "invalid"]
    error: str
    asker: Asker | None = None
    asks: Figures | None = None
    rules: tuple[Rule, ...] = ()
    not_looked_at: tuple[str, ...] = ()
    decision: Choice | None = None
    launchers: tuple[str, ...] = ()
    route: Place | None = None
    profiles: tuple[Note, ...] = ()
    fields: tuple[Field, ...] = ()
    differences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    script: str | None = None


def explanation(judged: Judged, policy: Policy, *, script: bool, fields: bool) -> Explanation:
    """The document of a Job.

    :param judged: a Job or CronJob, or one with an error
    :param script: with the Job's own part of the script
    :param fields: with each field that is translated or harmless, also if its value says nothing
    """
    judgement = judged.judgement
    value = judged.manifest.value
    file, _, line = judged.manifest.place.rpartition(":")
    bare = Explanation(
        name=judged.name,
        kind=str(value.get("kind", "")) if isinstance(value, dict) else "",
        file=file,
        line=int(line),
        outcome="invalid" if judgement is None else "untouched",
        error="" if judged.error is None else str(judged.error),
        asker=_asker(judged, judged.requester) if judged.requester else None,
    )
    if judgement is None or judgement.workload is None or judgement.decision is None:
        return bare
    workload, decision = judgement.workload, judgement.decision
    return Explanation(
        **{name: getattr(bare, name) for name in ("name", "kind", "file", "line", "error", "asker")},
        outcome="judged",
        asks=_figures(counted(workload, decision, policy)),
        rules=tuple(_rule(one, policy) for one in decision.considered),
        not_looked_at=decision.not_looked_at,
        decision=_choice(decision, workload),
        launchers=tuple(launch_lines(workload, decision.route)),
        route=_place(decision.route, workload) if decision.route else None,
        profiles=_profiles(workload, decision, policy),
        fields=_fields(judged, judgement, decision, whole=fields),
        differences=judgement.differences,
        warnings=judgement.warnings,
        script=judgement.script.own if judgement.script is not None and script else None,
    )


def _asker(judged: Judged, requester: Requester) -> Asker:
    why = "it made this Job, by the Job's own annotation" if judged.maker else judged.asker
    return Asker(requester.user, requester.groups, requester.namespace, why)


def _figures(workload: Workload) -> Figures:
    return Figures(
        millicores=_amount(workload.cpu),
        memory_bytes=_amount(workload.memory),
        gpus=_amount(workload.gpus),
        resources=tuple(
            Resource(one.name, one.amount, tuple(path for path, _ in one.fields))
            for one in workload.extended
            if not one.is_gpu
        ),
        parallelism=_amount(workload.parallelism),
        completions=_amount(workload.completions),
        walltime_seconds=_amount(workload.walltime_asked),
        mpi_container=workload.mpi,
        ranks=_amount(workload.ranks),
        ranks_per_node=_amount(workload.ranks_per_node),
        nodes=_amount(workload.nodes),
    )


def _amount(figure: Figure | None) -> Amount | None:
    return None if figure is None else Amount(figure.value, figure.origin, figure.beside)


def _rule(one: Considered, policy: Policy) -> Rule:
    place = next((rule.place for rule in policy.rules if rule.name == one.rule), "")
    return Rule(one.rule, place, one.held, one.audit, one.why, one.target, one.queue, one.outcome)


def _choice(decision: Decision, workload: Workload) -> Choice:
    found = decision.in_the_way or tuple(str(one) for one in workload.obstacles)
    return Choice(decision.target, decision.rule, decision.reason, found, decision.refused_hints)


def _place(route: Route, workload: Workload) -> Place:
    allocation: Allocation = route.allocation
    return Place(
        site=route.site.name,
        queue=route.queue.name,
        user=route.identity.user,
        account=route.identity.account,
        project=route.identity.project,
        chunks=tuple(map(_share, allocation.chunks)),
        deadline_seconds=allocation.deadline,
        walltime_seconds=allocation.walltime,
        grace_seconds=allocation.grace,
        mpi_profile=route.profile.name if route.profile else "",
        volumes=_volumes(workload, route.site),
        credentials=_notes(brought(workload, route.site)),
        notes=_notes(allocation.notes),
        node_labels=NodeLabels(route.nodes.met, route.nodes.ignored, _notes(route.nodes.directives)),
    )


def _share(chunk: Chunk) -> Share:
    return Share(chunk.count, chunk.ncpus, chunk.ranks, chunk.memory, chunk.gpus)


def _volumes(workload: Workload, site: Site) -> tuple[Path, ...]:
    found = [(one.name, place_of(workload, one, site)) for one in workload.volumes if one.kind not in EMPTY | STAGED]
    return tuple(
        Path(name, "/".join([part for part in (place.path, place.below) if part]), place.read_only)
        for name, place in found
        if isinstance(place, SitePath)
    )


def _notes(pairs: Iterable[tuple[str, str]]) -> tuple[Note, ...]:
    return tuple(Note(about, says) for about, says in pairs)


def _profiles(workload: Workload, decision: Decision, policy: Policy) -> tuple[Note, ...]:
    sites = sites_tried(workload, decision, policy)
    return tuple(Note(site.name, line) for site in sites for line in profiles.reasons(workload, site))


def _fields(judged: Judged, judgement: Judgement, decision: Decision, *, whole: bool) -> tuple[Field, ...]:
    if not (whole or decision.wanted):
        return ()
    found = telling.rows(judgement.stripped.job["spec"], f"{judged.root}spec", decision.in_the_way, whole=whole)
    return tuple(Field(place, str(row.outcome), row.says) for place, row in found)
