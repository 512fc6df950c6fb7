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
from router.page.models.pods import ended, endings, waited_and_ran
from router.page.models.rows import JobRow, size_words
from router.pod.status import FAILED, PENDING
from router.pod.view import PodView
from router.reconcile import queuewords
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
    :param waited: seconds in which none of its Pods ran, up to its latest start, or until now while it waits; None if
        unknown
    :param ran: seconds in which at least one of its Pods ran; None before the first start
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
    until = row.ended if row.ended is not None else sight.now
    waits = how in (JobPhase.WAITING, JobPhase.SUSPENDED)
    waited, ran = waited_and_ran(row.created, pods, until, waits=waits)
    why, words = _why(row, how, pods, refused)
    message, expected, _ = queuewords.told(why, words)
    return ShownJob(
        namespace=facts.namespace,
        name=facts.name,
        mine=row.is_of(sight.user),
        state=str(how),
        shape=SHAPES[how],
        place=row.place,
        size=size_words(row),
        created=row.created,
        waited=waited,
        ran=ran,
        why=why,
        message=message,
        expected=expected,
        rule=row.rule,
        requester=row.requester,
    )


def _why(row: JobRow, how: JobPhase, pods: Sequence[PodView], refused: str) -> tuple[str, str]:
    """The reason that a person would ask for: of waiting Pods that of the oldest, of a failed Job that of its last Pod.

    :param refused: why the cluster refuses to create its Pods, or empty
    """
    if how is JobPhase.FAILED:
        return _failure(row, [pod for pod in pods if pod.status.phase == FAILED])
    if how is not JobPhase.WAITING:
        return "", ""
    pending = [pod for pod in pods if pod.status.phase == PENDING]
    if pending:
        return waiting(min(pending, key=lambda pod: (pod.created, pod.name)).status)
    if refused:
        return "FailedCreate", refused
    return ("", "") if row.facts.site else _IN_CLOUD


def _failure(row: JobRow, failed: Sequence[PodView]) -> tuple[str, str]:
    if not failed:
        return "", row.message
    last = max(failed, key=lambda pod: (ended(pod) or pod.created, pod.created, pod.name))
    return last.status.reason, "; ".join(one for one in (last.status.message, *endings(last), row.message) if one)
