"""Words why a job waits in its queue: the batch system's reason, and when the job is expected to start.

Pure. A scheduler plans anew every minute, each time a little differently. An expected start that was already reported
is kept while it is nearly right, so that thousands of Pod statuses are not rewritten for a minute's difference.
"""

from __future__ import annotations

import re
from typing import Final

from router.hpc import JobReport
from router.names import REASON_HELD, REASON_QUEUED
from router.pod.status import PENDING, PodStatus, rfc3339, seconds
from router.reconcile.model import NORMAL, WARNING, Facts, Tell, Terms

WAITS: Final = frozenset({REASON_QUEUED, REASON_HELD})
_EXPECTED: Final = "expected to start about "
_SAID: Final = re.compile(rf"(?:^|; ){_EXPECTED}(\S+)$")
_NEARLY: Final = 300.0
"""Seconds by which a reported start may be wrong before it is reported anew; or a tenth of the time left, if more."""


def words(report: JobReport, said: str, now: float) -> str:
    """The batch system's reason, what it means, and the expected start, in one line; empty if it gives none of them.

    :param said: the message in the Pod's stored status
    """
    reason = " ".join(report.reason.split()) + (f" ({report.plain})" if report.plain else "")
    if report.expected is None:
        return reason
    expected, before = report.expected.timestamp(), split(said)[1]
    if before is not None and before > now and abs(expected - before) < max(_NEARLY, (before - now) / 10):
        expected = before
    if expected <= now:  # the job did not start as expected
        return reason
    start = f"{_EXPECTED}{rfc3339(int(expected))}"
    return f"{reason}; {start}" if reason else start


def split(message: str) -> tuple[str, int | None]:
    """A message of ``words`` without its end, and the expected start that the end tells (seconds since 1970)."""
    found = _SAID.search(message)
    moment = seconds(found[1]) if found else None
    return (message, None) if found is None or moment is None else (message[: found.start()], moment)


def gist(reason: str, message: str) -> str:
    """The text of an Event without its figures, which change while the reason stays the same."""
    return f"{reason}: {re.sub('[0-9]+', '#', _SAID.sub('', message))}"


def tells(facts: Facts, found: PodStatus, terms: Terms, now: float) -> tuple[Tell, ...]:
    """The Event with the reason why the job waits: the first reason at once, a changed one only from time to time.

    The Event about the submission already tells that the Pod waits in the queue.
    """
    message = found.message or (found.reason if found.reason == REASON_HELD else "")
    if found.phase != PENDING or found.reason not in WAITS or not message:
        return ()
    kind = NORMAL if found.reason == REASON_QUEUED else WARNING
    new, stored = gist(found.reason, found.message), facts.pod.status
    told = facts.words_told
    if told is None:  # an earlier agent may have told the reason that is in the stored status
        before = gist(stored.reason, stored.message) if stored.message or stored.reason == REASON_HELD else ""
        return () if new == before else (Tell(kind, found.reason, message),)
    same_state = told.gist.partition(":")[0] == found.reason
    if new == told.gist or (same_state and now - told.at < terms.event_interval):
        return ()
    return (Tell(kind, found.reason, message),)
