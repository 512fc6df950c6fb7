"""The cards of sites and their queues on the first screen.

Pure. Figures that are too old, or of a site that does not answer, are left out, so that people plan by the others alone.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from router import names
from router.notation.quantiles import quantile
from router.operating.overview import TOO_OLD, Leader, Overview, Queue, condition, place_of
from router.operating.stuck import waiting
from router.page.models.looking import Sight
from router.page.models.pods import begun
from router.pod.status import PENDING, RUNNING, seconds
from router.pod.view import PodView
from router.reconcile import queuewords
from router.reconcile.starts import Start

Json = Mapping[str, Any]
Place = tuple[str, str]
DAY: Final = 86400.0
_WITHOUT_FIGURES: Final = frozenset({"unreachable", "agent-away", "no-node"})
_WORST: Final = ("no-node", "agent-away", "unreachable", "refused", "closed", "unknown", "open")


@dataclass(frozen=True, slots=True)
class FirstInLine:
    """The Pod that comes first in a queue, by the places that Pods say, or the one that has waited longest.

    :param expected: when it may start, None if unknown
    :param place: its place among all jobs in line, None if unknown
    """

    namespace: str
    job: str
    pod: str
    since: int
    reason: str
    message: str
    expected: Start | None
    place: int | None = None


@dataclass(frozen=True, slots=True)
class QueueCard:
    """One queue. None means unknown. ``since``: when its state began, seconds since 1970.

    :param nodes: all healthy nodes; ``free_nodes`` of them take jobs now
    :param running: jobs of everybody; ``ours``: Pods of this cluster that run; the same for ``queued``
    :param median: of the waits in seconds of this cluster's Pods that began within a day; ``most`` their 90th
        percentile; ``counted`` their number
    """

    queue: str
    node: str
    state: str
    reason: str
    since: int | None
    age: int | None
    nodes: int | None
    free_nodes: int | None
    running: int | None
    queued: int | None
    ours_running: int
    ours_queued: int
    median: float | None
    most: float | None
    counted: int
    first: FirstInLine | None
    limits: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SiteCard:
    """One site: the worst state of its queues, since when, its leading agent and its last check, in their words."""

    site: str
    state: str
    since: int | None
    leader: Leader | None
    check: str
    age: int | None
    queues: tuple[QueueCard, ...]


def site_cards(sight: Sight, found: Overview) -> tuple[SiteCard, ...]:
    """A card for each site that has a queue, by name."""
    nodes = {place: node for node in sight.nodes if (place := place_of(node))}
    pods: defaultdict[Place, list[PodView]] = defaultdict(list)
    for pod in sight.pods:
        if pod.owner != "DaemonSet":
            pods[pod.site, pod.queue].append(pod)
    of_site: defaultdict[str, list[QueueCard]] = defaultdict(list)
    for one in found.queues:
        place = (one.site, one.queue)
        of_site[one.site].append(_queue(one, nodes.get(place), pods[place], sight))
    leaders = {one.site: one for one in found.leaders}
    return tuple(
        _site(site, cards, leaders.get(site), [nodes[site, one.queue] for one in cards if (site, one.queue) in nodes])
        for site, cards in sorted(of_site.items())
    )


def _site(site: str, cards: Sequence[QueueCard], leader: Leader | None, nodes: Sequence[Json]) -> SiteCard:
    worst = min(cards, key=lambda one: _WORST.index(one.state) if one.state in _WORST else 0)
    whole = worst.state if worst.state in (*_WITHOUT_FIGURES, "refused") else "reachable"
    told = [str(condition(one, names.CONDITION_SITE_REFUSED).get("message") or "") for one in nodes]
    answers = [seconds(condition(one, names.CONDITION_HPC_UNAVAILABLE).get("lastTransitionTime")) for one in nodes]
    since = worst.since if whole != "reachable" else max((one for one in answers if one is not None), default=None)
    ages = [one.age for one in cards if one.age is not None]
    return SiteCard(
        site, whole, since, leader, next((one for one in told if one), ""), max(ages, default=None), tuple(cards)
    )


def _queue(one: Queue, node: Json | None, pods: Sequence[PodView], sight: Sight) -> QueueCard:
    old = one.state in _WITHOUT_FIGURES or (one.age is not None and one.age - sight.unread_for > TOO_OLD)
    waits = sorted(_waits(pods, sight.now))
    labels = ((node or {}).get("metadata") or {}).get("labels") or {}
    nodes = str(labels.get(names.LABEL_NODES) or "")
    return QueueCard(
        queue=one.queue,
        node=one.node,
        state=one.state,
        reason=one.reason,
        since=_since(one.state, node),
        age=one.age,
        nodes=int(nodes) if nodes.isdecimal() else None,
        free_nodes=None if old else one.free_nodes,
        running=None if old else one.running_jobs,
        queued=None if old else one.queued_jobs,
        ours_running=sum(pod.status.phase == RUNNING for pod in pods),
        ours_queued=sum(pod.status.phase == PENDING for pod in pods),
        median=statistics.median(waits) if waits else None,
        most=quantile(waits, 0.9),
        counted=len(waits),
        first=_first(pods),
        limits=tuple((title, str(labels[key])) for key, title in _LIMITS if labels.get(key)),
    )


_LIMITS: Final = (
    (names.LABEL_NCPUS, "cores a node"),
    (names.LABEL_MEMORY, "memory a node"),
    (names.LABEL_WALLTIME, "walltime at most"),
)
_KINDS: Final = {
    "agent-away": "Ready",
    "unreachable": names.CONDITION_HPC_UNAVAILABLE,
    "refused": names.CONDITION_SITE_REFUSED,
    "closed": names.CONDITION_QUEUE_CLOSED,
    "open": names.CONDITION_QUEUE_CLOSED,
}


def _since(state: str, node: Json | None) -> int | None:
    kind = _KINDS.get(state)
    return None if node is None or kind is None else seconds(condition(node, kind).get("lastTransitionTime"))


def _waits(pods: Iterable[PodView], now: float) -> Iterable[float]:
    for pod in pods:
        start = begun(pod)
        if start is not None and start > now - DAY:
            yield max(0, start - pod.created)


def _first(pods: Iterable[PodView]) -> FirstInLine | None:
    """The first of those that wait for their turn, or of the rest: one that is held, say, has none.

    Where Pods were created at one moment, only the places that they say tell the first one.
    """
    pending = [(pod, *waiting(pod.status)) for pod in pods if pod.status.phase == PENDING and not pod.deleting]
    told = [(pod, reason, *queuewords.told(reason, words)) for pod, reason, words in pending]
    if not told:
        return None
    pod, reason, message, expected, place = min(
        told, key=lambda one: (one[1] != names.REASON_QUEUED, one[4] or math.inf, one[0].created, one[0].key)
    )
    return FirstInLine(pod.namespace, pod.job, pod.name, pod.created, reason, message, expected, place)
