"""What needs somebody: stuck Pods and Nodes, refusals, Jobs whose Pods cannot be created.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from router.operating.creations import without_pods
from router.operating.overview import Overview
from router.operating.stuck import Stuck
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
    told = _needing((*_in_cloud(sight), *found.stuck), mine)
    return tuple(sorted(told, key=lambda one: not one.mine))


def _needing(found: Iterable[Stuck], mine: set[tuple[str, str]]) -> Iterator[Needy]:
    for one in found:
        own = (one.namespace, one.job) in mine
        place = f"{one.site}/{one.queue}" if one.site else "cloud"
        yield Needy(one.kind, one.namespace, one.name, one.job, own, place, one.reason, one.message, seconds(one.since))


def _in_cloud(sight: Sight) -> tuple[Stuck, ...]:
    """Jobs in the cloud without their Pods, which an overview of sites leaves out."""
    jobs = [row.facts for row in sight.jobs if not row.facts.site]
    return tuple(without_pods(jobs, sight.pods, sight.failed_creations, sight.now))
