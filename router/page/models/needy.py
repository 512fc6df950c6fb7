"""What needs somebody: sites without agent or batch system, stuck Pods, refusals, Jobs whose Pods cannot be created.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from router.names import CONDITION_HPC_UNAVAILABLE, CONDITION_SITE_REFUSED
from router.operating.creations import without_pods
from router.operating.overview import Overview
from router.operating.stuck import Stuck
from router.operating.troubles import NO_LEADER, NOT_OPEN
from router.page.models.looking import Sight
from router.pod.status import seconds

_OF_SITES: Final = frozenset({CONDITION_HPC_UNAVAILABLE, CONDITION_SITE_REFUSED})
"""Conditions that all Nodes of a site have together."""


@dataclass(frozen=True, slots=True)
class Needy:
    """One thing that makes no progress by itself. ``since``: seconds since 1970, None if unknown.

    ``job``: the name of the Job that it belongs to, or empty; ``mine``: whether the reader made that Job.
    ``place``: ``site/queue``, ``cloud``, or empty where ``name`` says it.
    """

    kind: str
    namespace: str
    name: str
    job: str
    mine: bool
    place: str
    reason: str
    message: str
    since: int | None


def needy(sight: Sight, found: Overview) -> tuple[Needy, ...]:
    """All of them: what whole sites and queues lack, then the reader's own, each part in the order of the overview."""
    mine = {(row.facts.namespace, row.facts.name) for row in sight.jobs if row.is_of(sight.user)}
    stuck = (one for one in found.stuck if not _is_of_site(one))
    told = _needing((*_in_cloud(sight), *stuck), mine)
    return (*_of_sites(sight, found), *sorted(told, key=lambda one: not one.mine))


def _of_sites(sight: Sight, found: Overview) -> Iterator[Needy]:
    """Sites that nobody leads, queues without an agent, and what stops a site, which is told once for all its Nodes."""
    # Before the first read there are no Leases.
    leaderless = [one for one in found.leaders if sight.read and not one.in_force]
    for leader in leaderless:
        yield _of_site("agent", leader.site, NO_LEADER, "", seconds(leader.renewed))
    told = {(leader.site, "agent-away") for leader in leaderless}
    for queue in found.queues:
        if queue.state in NOT_OPEN and (queue.site, queue.state) not in told:
            yield _of_site("queue", f"{queue.site}/{queue.queue}", queue.state, queue.reason, None)
    for (site, reason), one in {(one.site, one.reason): one for one in found.stuck if _is_of_site(one)}.items():
        yield _of_site("site", site, reason, one.message, seconds(one.since))


def _of_site(kind: str, name: str, reason: str, message: str, since: int | None) -> Needy:
    return Needy(kind, "", name, "", mine=False, place="", reason=reason, message=message, since=since)


def _is_of_site(one: Stuck) -> bool:
    return one.kind == "Node" and one.reason in _OF_SITES


def _needing(found: Iterable[Stuck], mine: set[tuple[str, str]]) -> Iterator[Needy]:
    for one in found:
        own = (one.namespace, one.job) in mine
        place = f"{one.site}/{one.queue}" if one.site else "cloud"
        yield Needy(one.kind, one.namespace, one.name, one.job, own, place, one.reason, one.message, seconds(one.since))


def _in_cloud(sight: Sight) -> tuple[Stuck, ...]:
    """Jobs in the cloud without their Pods, which an overview of sites leaves out."""
    jobs = [row.facts for row in sight.jobs if not row.facts.site]
    return tuple(without_pods(jobs, sight.pods, sight.failed_creations, sight.now))
