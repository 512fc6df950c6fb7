"""Words why a job waits in its queue: the batch system's reason, its place in the line, and when it may start.

Pure. A scheduler plans anew every minute, each time a little differently. What was said is kept while it is nearly
right, so that thousands of Pod statuses are not rewritten for a small difference.
"""

from __future__ import annotations

import re
from typing import Final

from router.hpc import JobReport, JobState, waiting
from router.names import REASON_HELD, REASON_QUEUED
from router.pod.status import PENDING, PodStatus
from router.reconcile import starts
from router.reconcile.model import NORMAL, WARNING, Counted, Facts, Job, Line, Tell, Terms
from router.reconcile.starts import Start

WAITS: Final = frozenset({REASON_QUEUED, REASON_HELD})
_IN_LINE: Final = {
    Counted.OWN: "number {} of this cluster's {} jobs in line",
    Counted.SEEN: "number {} of the {} jobs in line that the agent may see",
    Counted.ALL: "number {} of the {} jobs in line",
}
_FIGURE: Final = r"(\d{1,9})"
_PLACES: Final = {one: re.compile(f"(?:^|; ){text.format(_FIGURE, _FIGURE)}$") for one, text in _IN_LINE.items()}


def words(facts: Facts, job: Job, report: JobReport, now: float) -> str:
    """The batch system's reason, what it means, the place in the line, and when the job may start, in one line.

    Empty if none of them is known. The message in the Pod's stored status has what was said before.
    """
    rest, said = starts.read(facts.pod.status.message)
    reason = " ".join(report.reason.split()) + (f" ({report.plain})" if report.plain else "")
    if report.state is not JobState.QUEUED:
        return reason
    line = None if report.aside else facts.line
    start = starts.kept(said, _start(facts, job, report, line, now), job.plans, now)
    parts = (reason, _place(line, job.job_id, rest), starts.words(start) if start else "")
    return "; ".join(part for part in parts if part)


def _start(facts: Facts, job: Job, report: JobReport, line: Line | None, now: float) -> Start | None:
    """The range by the scheduler's plans, or else by the waits of others where the job stands in a line.

    Plans of the last hour do not count for a job whose reason by now is a final one.
    """
    if waiting.never_starts(report.reason):
        return None
    found = starts.by_plans(job.plans, now)
    if found is not None or line is None or job.job_id not in line.places:
        return found
    return starts.by_waits(line.waits, facts.pod.created, now)


def _place(line: Line | None, job_id: str, said: str) -> str:
    """The job's place in the line. One that was said stands while it is wrong by less than a tenth."""
    place = line.places.get(job_id) if line is not None else None
    if line is None or place is None:
        return ""
    total, before = len(line.places), _PLACES[line.counted].search(said)
    if before is not None:
        number, of = int(before[1]), int(before[2])
        if abs(place - number) < max(1, number / 10) and number <= of and of / 2 <= total <= of * 2:
            place, total = number, of
    return _IN_LINE[line.counted].format(place, total)


def place(message: str) -> int | None:
    """The place in the line that a Pod's message says; 1 is the first."""
    rest = starts.read(message)[0]
    return next((int(found[1]) for one in _PLACES.values() if (found := one.search(rest))), None)


def told(reason: str, message: str) -> tuple[str, Start | None, int | None]:
    """What a waiting Pod says: the message without the clause of its start, the range, the place in the line.

    The agent writes the last two while the job is queued. With any other reason the words may be a user's, or a registry's.
    """
    return (*starts.read(message), place(message)) if reason == REASON_QUEUED else (message, None, None)


def gist(reason: str, message: str) -> str:
    """The text of an Event without its figures, which change while the reason stays the same."""
    rest = starts.read(message)[0]
    for one in _PLACES.values():
        rest = one.sub("", rest)
    return f"{reason}: {re.sub('[0-9]+', '#', rest)}"


def tells(facts: Facts, found: PodStatus, terms: Terms, now: float) -> tuple[Tell, ...]:
    """The Event with the reason why the job waits: the first reason at once, a changed one only from time to time.

    The Event about the submission already tells that the Pod waits in the queue.
    """
    message = found.message or (found.reason if found.reason == REASON_HELD else "")
    if found.phase != PENDING or found.reason not in WAITS or not message:
        return ()
    tell = Tell(NORMAL if found.reason == REASON_QUEUED else WARNING, found.reason, message)
    new, stored, start = gist(found.reason, found.message), facts.pod.status, starts.read(message)[1]
    told = facts.words_told
    if told is None:  # an earlier agent may have told what is in the stored status
        before = gist(stored.reason, stored.message) if stored.message or stored.reason == REASON_HELD else ""
        said = starts.read(stored.message)[1]
        moved = said is not None and start is not None and starts.moved(said, start, now)
        return (tell,) if new != before or moved else ()
    if new == told.gist:
        return (tell,) if _moved(facts, start, terms, now) else ()
    same_state = told.gist.partition(":")[0] == found.reason
    return () if same_state and now - told.at < terms.event_interval else (tell,)


def _moved(facts: Facts, start: Start | None, terms: Terms, now: float) -> bool:
    """Whether the expected start has changed for good since the last Event, or has become known.

    The pauses between such Events grow with the Pod's age, so that a Pod that waits for a week has about ten of them.
    """
    told = facts.words_told
    if told is None or start is None or now - told.at < max(terms.event_interval, told.at - facts.pod.created):
        return False
    return told.start is None or starts.moved(told.start, start, now)
