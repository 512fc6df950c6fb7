"""Why a job waits, as it stands on its Pod and in Events."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.hpc import JobState
from router.names import CONDITION_QUEUED
from router.pod.status import Condition, PodStatus
from router.pod.view import PodView
from router.reconcile import outcomes
from router.reconcile.model import Facts, Plan, Tell
from router.reconcile.planning import plan
from router.reconcile.queuewords import split, words
from tests.reconcile.given import PLAIN, TERMS, T, began, facts, job, life, pod, report

NOW = T + 100
QUEUED, HELD, RUNNING = JobState.QUEUED, JobState.HELD, JobState.RUNNING
FULL = "Not Running: Not enough free nodes available"


def at(seconds: float) -> datetime:
    """So long after now."""
    return datetime.fromtimestamp(NOW + seconds, UTC)


def said(seconds: int, reason: str = "Priority") -> str:
    """What stands on the Pod where the start was expected so long after now."""
    return f"{reason}; expected to start about {at(seconds).strftime('%Y-%m-%dT%H:%M:%SZ')}"


@pytest.mark.parametrize(
    ("reason", "expected", "before", "shown"),
    [
        ("", None, "", ""),
        (f" {FULL}\n", None, "", FULL),
        ("Priority", 3600, "", said(3600)),
        ("", 3600, "", said(3600, "x").removeprefix("x; ")),
        # A plan that has not come true, and one that is past.
        ("Priority", -60, said(-60), "Priority"),
        ("Priority", 0, "", "Priority"),
        ("Priority", 300, said(-60), said(300)),
        # A minute more or less is not worth a write; half an hour is.
        ("Priority", 1000 + 299, said(1000), said(1000)),
        ("Priority", 1000 - 300, said(1000), said(1000 - 300)),
        ("Resources", 1000 + 299, said(1000), said(1000, "Resources")),
        ("Priority", 36_000 + 3599, said(36_000), said(36_000)),
        ("Priority", 36_000 + 3600, said(36_000), said(36_000 + 3600)),
        # What somebody else has written there is no time.
        ("Priority", 3600, "Priority; expected to start about noon", said(3600)),
    ],
)
def test_the_words(reason: str, expected: int | None, before: str, shown: str) -> None:
    found = report(QUEUED, reason=reason, expected=None if expected is None else at(expected))

    assert words(found, before, NOW) == shown


def test_what_a_reason_means_stands_behind_it() -> None:
    plain = "jobs of higher priority come first"
    found = report(QUEUED, reason="Priority", plain=plain, expected=at(3600))

    shown = words(found, "", NOW)

    assert shown == said(3600, f"Priority ({plain})")
    assert words(replace(found, expected=at(3601)), shown, NOW) == shown, "a start that is nearly right stands"


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        (said(3600), ("Priority", NOW + 3600)),
        (said(3600, "x").removeprefix("x; "), ("", NOW + 3600)),
        (f"{said(60)} or so", (f"{said(60)} or so", None)),
        ("Priority; expected to start about noon", ("Priority; expected to start about noon", None)),
        (FULL, (FULL, None)),
        ("", ("", None)),
    ],
)
def test_the_words_are_read_again(message: str, parts: tuple[str, int | None]) -> None:
    assert split(message) == parts


@given(st.lists(st.integers(-100_000, 1_000_000), min_size=1, max_size=20))
def test_what_is_said_of_the_start_is_nearly_right_and_stands_while_it_is(starts: list[int]) -> None:
    before = ""
    for start in starts:
        before = words(report(QUEUED, expected=at(start)), before, NOW)
        assert words(report(QUEUED, expected=at(start)), before, NOW) == before
        if start <= 0 and not before:
            continue
        shown = datetime.fromisoformat(before.rpartition(" ")[2]).timestamp() - NOW
        assert shown > 0
        assert abs(shown - start) < max(300, shown / 10)


def shown(view: PodView, made: Plan) -> PodView:
    return replace(view, status=made.status or view.status)


def told(made: Plan) -> list[Tell]:
    return [one for one in made.actions if isinstance(one, Tell)]


def go_on(known: Facts, made: Plan, now: float) -> Facts:
    """What is known when the plan was performed."""
    for one in told(made):
        known = outcomes.told(known, one, now)
    return outcomes.wrote(known, shown(known.pod, made), now) if made.status else known


def test_the_first_words_are_told_at_once_and_stand_in_the_condition() -> None:
    """A scheduler says why a second after the job was submitted, when ``Queued`` alone stands there already."""
    view = replace(PLAIN, job_id="7.pbs", queue_now="")
    first = plan(facts(view, job(report(QUEUED))), TERMS, NOW)
    assert first.status is not None
    assert told(first) == []
    known = go_on(facts(view, job(report(QUEUED))), first, NOW)

    known = outcomes.reported(known, report(QUEUED, reason=FULL), NOW + 1)
    then = plan(known, TERMS, NOW + 1)

    assert then.status is not None
    assert (then.status.reason, then.status.message) == ("Queued", FULL)
    assert then.status.condition(CONDITION_QUEUED) == Condition(CONDITION_QUEUED, "True", NOW, "Queued", FULL)
    assert told(then) == [Tell("Normal", "Queued", FULL)]
    assert plan(go_on(known, then, NOW + 1), TERMS, NOW + 1) == Plan()


def test_words_that_flicker_are_written_twice_a_minute_and_told_every_ten() -> None:
    view = replace(PLAIN, job_id="7.pbs")
    known, writes, events = facts(view, job(report(QUEUED))), 0, []
    for second in range(0, 3600, 5):
        words = ("Priority", "Resources")[second // 5 % 2]
        known = outcomes.reported(known, report(QUEUED, reason=words), NOW + second)
        made = plan(known, TERMS, NOW + second)
        writes += made.status is not None
        events += told(made)
        known = go_on(known, made, NOW + second)

    assert writes <= 3600 / TERMS.words_interval + 1
    assert 2 <= len(events) <= 3600 / TERMS.event_interval + 1


def test_figures_that_change_are_shown_and_not_told() -> None:
    view = replace(PLAIN, job_id="7.pbs")
    free = "Not Running: Insufficient amount of resource: ncpus (R: 8 A: {} T: 16)"
    known = facts(view, job(report(QUEUED, reason=free.format(2))))
    first = plan(known, TERMS, NOW)
    known = outcomes.reported(go_on(known, first, NOW), report(QUEUED, reason=free.format(4)), NOW + 1000)

    then = plan(known, TERMS, NOW + 1000)

    assert told(first) == [Tell("Normal", "Queued", free.format(2))]
    assert then.status is not None
    assert (then.status.message, told(then)) == (free.format(4), [])


def test_an_agent_that_has_just_begun_tells_nothing_twice() -> None:
    view = replace(PLAIN, job_id="7.pbs")
    first = plan(facts(view, job(report(QUEUED, reason=FULL))), TERMS, NOW)
    seen = shown(view, first)

    same = plan(facts(seen, job(report(QUEUED, reason=FULL))), TERMS, NOW + 50)
    other = plan(facts(seen, job(report(QUEUED, reason="Job is too long"))), TERMS, NOW + 50)

    assert (told(same), told(other)) == ([], [Tell("Normal", "Queued", "Job is too long")])


def test_a_hold_is_told_at_once_and_so_is_its_end() -> None:
    view = replace(PLAIN, job_id="7.pbs")
    known = facts(view, job(report(QUEUED, reason="Priority")))
    events = []
    for number, (state, reason) in enumerate([(QUEUED, "Priority"), (HELD, ""), (HELD, ""), (QUEUED, "Priority")]):
        known = outcomes.reported(known, report(state, reason=reason), NOW + number)
        made = plan(known, TERMS, NOW + number)
        events += told(made)
        known = go_on(known, made, NOW + number)

    priority = Tell("Normal", "Queued", "Priority")
    assert events == [priority, Tell("Warning", "Held", "Held"), priority]


def test_the_condition_says_when_the_job_has_left_the_queue() -> None:
    view = replace(PLAIN, job_id="7.pbs")
    queued = plan(facts(view, job(report(QUEUED, reason=FULL))), TERMS, NOW)
    running = facts(shown(view, queued), job(report(RUNNING, started=NOW + 5)), life=life(began()))

    made = plan(running, TERMS, NOW + 10)

    assert made.status is not None
    assert made.status.condition(CONDITION_QUEUED) == Condition(CONDITION_QUEUED, "False", NOW + 10, "LeftQueue")
    assert (made.status.reason, made.status.message) == ("", "")


def test_a_job_that_never_waited_has_no_such_condition() -> None:
    made = plan(facts(pod(job_id="7.pbs"), job(report(RUNNING, started=T + 10)), life=life(began())), TERMS, NOW)

    assert isinstance(made.status, PodStatus)
    assert made.status.condition(CONDITION_QUEUED) is None
