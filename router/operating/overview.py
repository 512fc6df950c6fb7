"""The state of sites at one moment: queues, Jobs by phase, what is stuck with reasons, leading agents.

Pure. Objects that could not be read are left out here; the caller names them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from router import names
from router.errors import InputError
from router.operating import creations, releases
from router.operating import stuck as stuck_pods
from router.operating.creations import FailedCreation
from router.operating.jobs import JobFacts, JobPhase, state
from router.operating.policies import Holder, holders
from router.operating.releases import Running
from router.operating.stuck import Stuck
from router.pod.status import PENDING, rfc3339, seconds
from router.pod.view import PodView
from router.policy.decision import QueueState
from router.policy.states import queue_states

Json = Mapping[str, Any]
Place = tuple[str, str]
NOT_READY: Final = "NotReady"
"""kubectl's status of a Node whose condition ``Ready`` does not hold."""
TOO_OLD: Final = 600
"""Seconds after which a queue's figures count as unknown to the webhook: ``settings.QUEUES_MAX_AGE``."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The objects that were read. ``queues``: the documents that agents publish, by key; ``now``: seconds since 1970.

    ``policies``: the documents by which the webhook's replicas say which policy they have in force, by key.
    ``leases``: by name; None if they were unreadable. ``failed_creations``: of Jobs whose Pods were refused.
    ``read``: when all of these but Jobs and Pods were read, if not now: by that time they are judged.
    """

    now: float
    queues: Mapping[str, str] = field(default_factory=dict)
    policies: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[Json, ...] = ()
    leases: Mapping[str, Json] | None = field(default_factory=dict)
    jobs: tuple[JobFacts, ...] = ()
    pods: tuple[PodView, ...] = ()
    failed_creations: tuple[FailedCreation, ...] = ()
    read: float | None = None

    @property
    def judged(self) -> float:
        """The moment at which queues, policies and Leases must have been recent."""
        return self.now if self.read is None else self.read


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue. ``None`` means unknown.

    ``state``: ``open``, ``closed``, ``refused`` (the site, by its last check), ``unreachable`` (the batch system),
    ``agent-away``, ``no-node`` or ``unknown``; ``reason`` says why the queue is not open. ``age``: the figures' age in
    seconds.
    """

    site: str
    queue: str
    node: str
    state: str
    reason: str
    free_nodes: int | None
    queued_jobs: int | None
    running_jobs: int | None
    age: int | None


@dataclass(frozen=True, slots=True)
class Trouble:
    """What keeps a Node's Pods from starting. ``state`` as of a :class:`Queue`; ``kind``: the condition that says so."""

    state: str
    kind: str
    message: str
    since: str


@dataclass(frozen=True, slots=True)
class JobCount:
    """The number of Jobs of a site (empty: in the cloud) in a phase."""

    site: str
    state: JobPhase
    count: int


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A Job that waits for its queue. ``since``: when its Pod that waits was created; ``age`` in seconds."""

    namespace: str
    name: str
    site: str
    queue: str
    since: str
    age: int


@dataclass(frozen=True, slots=True)
class Leader:
    """The holder of a site's Lease. ``age``: seconds since its renewal. ``in_force``: whether the Lease still lasts."""

    site: str
    holder: str
    renewed: str
    age: int | None
    in_force: bool


@dataclass(frozen=True, slots=True)
class Overview:
    """The whole overview. ``problems``: documents that could not be read."""

    time: str
    queues: tuple[Queue, ...]
    jobs: tuple[JobCount, ...]
    oldest_waiting: WaitingJob | None
    stuck: tuple[Stuck, ...]
    leaders: tuple[Leader, ...]
    problems: tuple[str, ...] = ()
    policies: tuple[Holder, ...] = ()
    releases: tuple[Running, ...] = ()


def sites_of(seen: Seen) -> list[str]:
    """Every site that has a Node, a queue document, a Job or a Pod."""
    found = {place[0] for place in map(place_of, seen.nodes) if place}
    found |= {one.site for one in seen.jobs if one.site} | {one.site for one in seen.pods if one.site}
    others = seen.queues.keys() - {names.site_key(site) for site in found}
    return sorted(found | {key.removesuffix(".json") for key in others if key.endswith(".json")})


def place_of(node: Json) -> tuple[str, str] | None:
    """Site and queue of a virtual node; None for any other Node."""
    provider = str((node.get("spec") or {}).get("providerID") or "")
    site, slash, queue = provider.removeprefix(names.NODE_PROVIDER).partition("/")
    return (site, queue) if provider.startswith(names.NODE_PROVIDER) and site and slash and queue else None


def overview(seen: Seen, site: str = "") -> Overview:
    """The state of one site; without ``site``, of all sites and of Jobs in the cloud."""
    chosen = [one for one in sites_of(seen) if site in ("", one)]
    figures, times, problems = _figures(seen, chosen)
    nodes = {place: node for node in seen.nodes if (place := place_of(node)) and place[0] in chosen}
    places = sorted({*figures, *nodes})
    jobs = tuple(one for one in seen.jobs if site in ("", one.site))
    pods = tuple(one for one in seen.pods if site in ("", one.site))
    told = [(one, state(one, of_it), of_it) for one, of_it in _with_pods(jobs, pods)]
    counted = Counter((one.site, how) for one, how, _ in told)
    return Overview(
        time=rfc3339(seen.now),
        queues=tuple(_queue(place, nodes.get(place), figures.get(place), times.get(place), seen) for place in places),
        jobs=tuple(
            JobCount(where, how, counted[where, how])
            for where in sorted({where for where, _ in counted})
            for how in JobPhase
            if counted[where, how]
        ),
        oldest_waiting=_oldest(((one, of_it) for one, how, of_it in told if how is JobPhase.WAITING), seen.now),
        stuck=(
            *_stuck_nodes(nodes),
            *creations.without_pods([one for one in jobs if one.site], pods, seen.failed_creations, seen.now),
            *stuck_pods.pods(pods, {one.uid: one for one in jobs}, seen.now, _away(nodes)),
        ),
        leaders=_leaders(chosen, seen),
        problems=problems,
        policies=holders(seen.policies, _by_site(nodes), seen.judged),
        releases=releases.running(seen.policies, _by_site(nodes), seen.judged),
    )


def _by_site(nodes: Mapping[Place, Json]) -> list[tuple[str, Json]]:
    return [(place[0], node) for place, node in nodes.items()]


def _with_pods(jobs: Iterable[JobFacts], pods: Iterable[PodView]) -> Iterator[tuple[JobFacts, tuple[PodView, ...]]]:
    of_job: defaultdict[tuple[str, str], list[PodView]] = defaultdict(list)
    for pod in pods:
        of_job[pod.namespace, pod.job_uid].append(pod)  # its owner is what whoever made the Pod wrote there
    return ((job, tuple(of_job[job.namespace, job.uid])) for job in jobs)


def _figures(
    seen: Seen, sites: list[str]
) -> tuple[dict[Place, QueueState], dict[Place, float | None], tuple[str, ...]]:
    """The published state of the queues, its times, and the problems of unreadable documents."""
    found: dict[Place, QueueState] = {}
    times: dict[Place, float | None] = {}
    problems = []
    for site in sites:
        key = names.site_key(site)
        try:
            read = queue_states(seen.queues.get(key, ""), f"ConfigMap {names.QUEUES_CONFIG_MAP}, {key}")
        except InputError as error:
            problems.append(str(error))
            continue
        own = {place: state for place, state in read.states.items() if place[0] == site}
        found |= own
        times |= dict.fromkeys(own, read.time)
    return found, times, tuple(problems)


def _queue(place: Place, node: Json | None, figures: QueueState | None, moment: float | None, seen: Seen) -> Queue:
    age = None if moment is None else max(0, int(seen.now - moment))
    word, reason = _standing(node, figures)
    if moment is not None and int(seen.judged - moment) > TOO_OLD:
        reason = f"{reason}; " * bool(reason) + "the figures are too old for rules to go by"
    return Queue(
        site=place[0],
        queue=place[1],
        node=names.node_name(*place),
        state=word,
        reason=reason,
        free_nodes=figures.free_nodes if figures else None,
        queued_jobs=figures.queued_jobs if figures else None,
        running_jobs=figures.running_jobs if figures else None,
        age=age,
    )


_TROUBLES: Final = (
    (names.CONDITION_HPC_UNAVAILABLE, "unreachable", "the batch system does not answer"),
    (names.CONDITION_SITE_REFUSED, "refused", "the last check of the site has failed"),
    (names.CONDITION_QUEUE_CLOSED, "closed", ""),
)
"""Conditions of a Node that keep Jobs from starting, the worst first."""


_NODE_TROUBLES: Final = (
    names.CONDITION_HPC_UNAVAILABLE,
    names.CONDITION_ORPHAN_LIMIT,
    names.CONDITION_SITE_REFUSED,
    names.CONDITION_MPI_REFUSED,
    names.CONDITION_POLICY_DIFFERS,
    names.CONDITION_CREDENTIAL_ENDING,
    names.CONDITION_SOURCE_BROKEN,
)


def _standing(node: Json | None, figures: QueueState | None) -> tuple[str, str]:
    if node is None:
        return "no-node", "it has no Node; does an agent of its site run?"
    found = trouble(node)
    if found is not None:
        return found.state, found.message
    if figures is not None and figures.up is False:
        return "closed", "the batch system says that it is down"
    told = condition(node, names.CONDITION_QUEUE_CLOSED).get("status") == "False"
    known = told or (figures is not None and figures.up)
    return ("open", "") if known else ("unknown", "the agent has not told yet")


def trouble(node: Json) -> Trouble | None:
    """The worst of what keeps a Node's Pods from starting."""
    ready = condition(node, "Ready")
    if ready.get("status") != "True":
        return _trouble("agent-away", NOT_READY, ready, "the agent has not reported yet")
    for kind, word, default in _TROUBLES:
        found = condition(node, kind)
        if found.get("status") == "True":
            return _trouble(word, kind, found, default)
    return None


def _trouble(state: str, kind: str, found: Json, default: str) -> Trouble:
    return Trouble(state, kind, str(found.get("message") or default), str(found.get("lastTransitionTime") or ""))


def condition(node: Json, kind: str) -> Json:
    """The condition of that type, or empty."""
    found: list[Json] = (node.get("status") or {}).get("conditions") or []
    return next((one for one in found if one.get("type") == kind), {})


def _stuck_nodes(nodes: Mapping[Place, Json]) -> Iterator[Stuck]:
    for (site, queue), node in sorted(nodes.items()):
        for kind in _NODE_TROUBLES:
            found = condition(node, kind)
            if found.get("status") == "True":
                yield Stuck(
                    kind="Node",
                    namespace="",
                    name=node["metadata"]["name"],
                    job="",
                    site=site,
                    queue=queue,
                    reason=kind,
                    since=str(found.get("lastTransitionTime") or ""),
                    message=str(found.get("message") or ""),
                )


def _away(nodes: Mapping[Place, Json]) -> dict[Place, str]:
    """The words of the Nodes whose batch system does not answer."""
    told = {place: condition(node, names.CONDITION_HPC_UNAVAILABLE) for place, node in nodes.items()}
    return {
        place: str(one.get("message") or "it does not answer")
        for place, one in told.items()
        if one.get("status") == "True"
    }


def _oldest(waiting: Iterable[tuple[JobFacts, tuple[PodView, ...]]], now: float) -> WaitingJob | None:
    """Of Jobs without a running Pod, the one that has waited longest for its queue."""
    found = [(_queues_since(job, pods), job) for job, pods in waiting if job.site]
    known = [(since, job) for since, job in found if since is not None]
    if not known:
        return None
    since, one = min(known, key=lambda told: (told[0], told[1].namespace, told[1].name))
    return WaitingJob(one.namespace, one.name, one.site, one.queue, rfc3339(since), max(0, int(now - since)))


def _queues_since(job: JobFacts, pods: tuple[PodView, ...]) -> int | None:
    """When its oldest Pod that waits was created; without any Pod so far, when the Job began to wait for one.

    None between two tries: then the queues lack a Pod of the Job.
    """
    if not pods:
        return None if job.ended else job.since
    waits = (one for one in pods if one.status.phase == PENDING and one.status.started is None and not one.deleting)
    return min((one.created for one in waits), default=None)


def _leaders(sites: Iterable[str], seen: Seen) -> tuple[Leader, ...]:
    if seen.leases is None:
        return ()
    return tuple(leader(one, seen.leases.get(names.lease_name(one)), seen.now, seen.judged) for one in sites)


def leader(site: str, lease: Json | None, now: float, read: float) -> Leader:
    """The holder of a site's Lease, and how old the last renewal is ``now``; in force if it was when it was ``read``."""
    spec = (lease or {}).get("spec") or {}
    renewed = seconds(spec.get("renewTime"))
    age = None if renewed is None else max(0, int(now - renewed))
    holder = str(spec.get("holderIdentity") or "")
    lasts = spec.get("leaseDurationSeconds") or 0
    return Leader(
        site=site,
        holder=holder,
        renewed="" if renewed is None else rfc3339(renewed),
        age=age,
        in_force=bool(holder) and renewed is not None and int(read - renewed) <= lasts,
    )
