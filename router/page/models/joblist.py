"""The list of Jobs on the first screen: the reader's own first, then the newest.

Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from router.operating.creations import without_pods
from router.operating.jobs import JobPhase, state
from router.operating.stuck import waiting
from router.page.models.filters import ROWS, Filters, values_of
from router.page.models.looking import Sight
from router.page.models.pods import begun
from router.page.models.rows import JobRow, size_words
from router.pod.status import FAILED, PENDING
from router.pod.view import PodView
from router.reconcile import starts
from router.reconcile.starts import Start

SHAPES: Final = {
    JobPhase.WAITING: "◷",
    JobPhase.RUNNING: "▶",
    JobPhase.SUSPENDED: "❚❚",
    JobPhase.DELETING: "✂",
    JobPhase.COMPLETE: "✔",
    JobPhase.FAILED: "✖",
}
"""A shape beside the word of each state, for those who see no colours."""
_IN_CLOUD: Final = ("in the cloud", "its Pods are not looked at in this list; its own page shows why they wait")
"""Clusters may have many thousands of Pods that are none of Batchgate's, so the page lists those on HPC alone."""


@dataclass(frozen=True, slots=True)
class ShownJob:
    """One line of the list. Times are seconds since 1970.

    :param place: ``site/queue``, or ``cloud``
    :param waited: seconds between creation and the first start, or until now while it waits; None if unknown
    :param ran: seconds since the first start, up to its end; None before it
    :param why: why it waits or how it failed, in a word; ``message`` in a sentence
    """

    namespace: str
    name: str
    mine: bool
    state: str
    shape: str
    place: str
    size: str
    created: int
    waited: float | None
    ran: float | None
    why: str
    message: str
    expected: Start | None
    rule: str
    requester: str


@dataclass(frozen=True, slots=True)
class JobList:
    """One page of the list.

    :param total: Jobs that fit the filters; ``all``: Jobs altogether
    :param choices: the values that there are, with the number of Jobs, by filter; a filter without values is missing
    """

    rows: tuple[ShownJob, ...]
    total: int
    all: int
    page: int
    pages: int
    choices: dict[str, tuple[tuple[str, int], ...]]


def job_list(sight: Sight, filters: Filters) -> JobList:
    """The Jobs that fit the filters."""
    of_job: defaultdict[tuple[str, str], list[PodView]] = defaultdict(list)
    for pod in sight.pods:
        of_job[pod.namespace, pod.job_uid].append(pod)  # its owner is what whoever made the Pod wrote there
    told = [(row, state(row.facts, tuple(of_job.get(_of(row), ())))) for row in sight.jobs]
    fitting = [(row, how) for row, how in told if filters.fits(row, how, sight.user)]
    fitting.sort(key=lambda one: (not one[0].is_of(sight.user), -one[0].created, one[0].key))
    pages = max(1, -(-len(fitting) // ROWS))
    page = min(filters.page, pages)
    shown = fitting[(page - 1) * ROWS : page * ROWS]
    without = without_pods([row.facts for row, _ in shown], sight.pods, sight.failed_creations, sight.now)
    refused = {(one.namespace, one.name): one.message for one in without}
    return JobList(
        rows=tuple(
            _shown(row, how, of_job.get(_of(row), ()), sight, refused.get((row.facts.namespace, row.facts.name), ""))
            for row, how in shown
        ),
        total=len(fitting),
        all=len(told),
        page=page,
        pages=pages,
        choices=_choices(told),
    )


def _of(row: JobRow) -> tuple[str, str]:
    return row.facts.namespace, row.uid


def _choices(told: Sequence[tuple[JobRow, JobPhase]]) -> dict[str, tuple[tuple[str, int], ...]]:
    counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row, how in told:
        for key, value in values_of(row, how).items():
            if value:
                counted[key][value] += 1
    return {key: tuple(sorted(values.items())) for key, values in counted.items()}


def _shown(row: JobRow, how: JobPhase, pods: Sequence[PodView], sight: Sight, refused: str) -> ShownJob:
    facts = row.facts
    start = min((start for pod in pods if (start := begun(pod)) is not None), default=None)
    end = row.ended if row.ended is not None else sight.now
    waits = how in (JobPhase.WAITING, JobPhase.SUSPENDED)
    waited = start - row.created if start is not None else (sight.now - row.created if waits else None)
    why, words = _why(row, how, pods, refused)
    message, expected = starts.read(words)
    return ShownJob(
        namespace=facts.namespace,
        name=facts.name,
        mine=row.is_of(sight.user),
        state=str(how),
        shape=SHAPES[how],
        place=row.place,
        size=size_words(row),
        created=row.created,
        waited=None if waited is None else max(0, waited),
        ran=None if start is None else max(0, end - start),
        why=why,
        message=message,
        expected=expected,
        rule=row.rule,
        requester=row.requester,
    )


def _why(row: JobRow, how: JobPhase, pods: Sequence[PodView], refused: str) -> tuple[str, str]:
    """The reason that a person would ask for: of waiting Pods that of the oldest, of a failed Job that of its Pod.

    :param refused: why the cluster refuses to create its Pods, or empty
    """
    if how is JobPhase.FAILED:
        failed = [pod.status for pod in pods if pod.status.phase == FAILED and pod.status.reason]
        return (failed[-1].reason, failed[-1].message) if failed else ("", row.message)
    if how is not JobPhase.WAITING:
        return "", ""
    pending = [pod for pod in pods if pod.status.phase == PENDING]
    if pending:
        return waiting(min(pending, key=lambda pod: (pod.created, pod.name)).status)
    if refused:
        return "FailedCreate", refused
    return ("", "") if row.facts.site else _IN_CLOUD
