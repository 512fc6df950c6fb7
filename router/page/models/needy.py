"""What needs somebody: stuck Pods and Nodes, refusals, Jobs whose Pods cannot be created.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from router.operating.jobs import JobPhase, state
from router.operating.overview import Overview
from router.page.models.looking import Sight
from router.pod.status import seconds


@dataclass(frozen=True, slots=True)
class Needy:
    """One thing that makes no progress by itself. ``since``: seconds since 1970, None if unknown.

    ``job``: the name of the Job that it belongs to, or empty; ``mine``: whether the reader made that Job.
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
    """All of them: the reader's own first, each part in the order of the overview."""
    mine = {(row.facts.namespace, row.facts.name) for row in sight.jobs if row.is_of(sight.user)}
    told = [*_without_pods(sight, mine), *_stuck(found, mine)]
    return tuple(sorted(told, key=lambda one: not one.mine))


def _stuck(found: Overview, mine: set[tuple[str, str]]) -> Iterator[Needy]:
    for one in found.stuck:
        own = (one.namespace, one.job) in mine
        place = f"{one.site}/{one.queue}"
        yield Needy(one.kind, one.namespace, one.name, one.job, own, place, one.reason, one.message, seconds(one.since))


def _without_pods(sight: Sight, mine: set[tuple[str, str]]) -> Iterator[Needy]:
    """Jobs that wait and whose controller was refused a Pod: for a quota, a limit, a missing account."""
    rows = {row.uid: row for row in sight.jobs}
    told = {one.uid: one for one in sorted(sight.failed_creations, key=lambda one: one.since)}
    with_pods = {(pod.namespace, pod.job_uid) for pod in sight.pods if not pod.status.terminal}
    for one in told.values():
        row = rows.get(one.uid)
        if row is None or (one.namespace, one.uid) in with_pods or state(row.facts, ()) is not JobPhase.WAITING:
            continue
        own = (one.namespace, one.job) in mine
        yield Needy("Job", one.namespace, one.job, one.job, own, row.place, "FailedCreate", one.message, row.created)
