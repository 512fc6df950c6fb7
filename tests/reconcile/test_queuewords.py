"""Why a job waits, as it stands on its Pod and in Events."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.hpc import JobReport, JobState
from router.names import CONDITION_QUEUED
from router.pod.status import Condition, PodStatus
from router.pod.view import PodView
from router.reconcile import outcomes
from router.reconcile.model import Counted, Facts, Line, Plan, Tell
from router.reconcile.planning import plan
from router.reconcile.queuewords import words
from router.reconcile.starts import PLANS, Start, read
from tests.reconcile.given import PLAIN, TERMS, T, began, facts, job, life, pod, report

NOW = T + 100
ALL, SEEN = Counted.ALL, Counted.SEEN
QUEUED, HELD, RUNNING = JobState.QUEUED, JobState.HELD, JobState.RUNNING
FULL = "Not Running: Not enough free nodes available"


def at(seconds: float) -> datetime:
    """So long after now."""
    return datetime.fromtimestamp(NOW + seconds, UTC)


PLANNED = ", by the batch system's plans of the last hour"


def said(seconds: int, reason: str = "Priority") -> str:
    """What stands on the Pod where the start was planned so long after now."""
    return f"{reason}; expected to start about {moment(seconds)}{PLANNED}"


def moment(seconds: float) -> str:
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def waits(message: str, found: JobReport, line: Line | None = None) -> Facts:
    """A Pod with this message, and one report of its job."""
    view = replace(PLAIN, job_id="7.pbs", status=PodStatus(message=message))
    return replace(outcomes.reported(facts(view, job(report(QUEUED))), found, NOW), line=line)


def words_of(known: Facts, now: float = NOW) -> str:
    (one,) = known.jobs
    assert one.report is not None
    return words(known, one, one.report, now)


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
        # What somebody else has written there is no time; what an earlier release said gets its basis.
        ("Priority", 3600, "Priority; expected to start about noon", said(3600)),
        ("Priority", 3600, said(3600).removesuffix(PLANNED), said(3600)),
    ],
)
def test_the_words(reason: str, expected: int | None, before: str, shown: str) -> None:
    found = report(QUEUED, reason=reason, expected=None if expected is None else at(expected))

    assert words_of(waits(before, found)) == shown


def test_what_a_reason_means_stands_behind_it() -> None:
    plain = "jobs of higher priority come first"
    found = report(QUEUED, reason="Priority", plain=plain, expected=at(3600))

    shown = words_of(waits("", found))

    assert shown == said(3600, f"Priority ({plain})")
    assert words_of(waits(shown, replace(found, expected=at(3601)))) == shown, "a start that is nearly right stands"


@pytest.mark.parametrize(
    ("line", "before", "shown"),
    [
        (Line({"6.pbs": 1, "7.pbs": 2}, counted=ALL), "", "Priority; number 2 of the 2 jobs in line"),
        (Line({"6.pbs": 1, "7.pbs": 2}), "", "Priority; number 2 of this cluster's 2 jobs in line"),
        (Line({"6.pbs": 1, "7.pbs": 2}, counted=SEEN), "", "Priority; number 2 of the 2 jobs in line that the agent may see"),
        (Line({"6.pbs": 1}, counted=ALL), "", "Priority"),
        # Another way to count is told at once, however near its figures are.
        (
            Line({"7.pbs": 1, "8.pbs": 2}),
            "Priority; number 1 of the 3 jobs in line that the agent may see",
            "Priority; number 1 of this cluster's 2 jobs in line",
        ),
        (
            Line({"7.pbs": 1, "8.pbs": 2}, counted=SEEN),
            "Priority; number 1 of the 3 jobs in line that the agent may see",
            "Priority; number 1 of the 3 jobs in line that the agent may see",
        ),
        # The first places are told one by one, later ones when they are wrong by a tenth.
        (Line({"7.pbs": 1}, counted=ALL), "Priority; number 2 of the 2 jobs in line", "Priority; number 1 of the 1 jobs in line"),
        (
            Line({**dict.fromkeys(map(str, range(200)), 0), "7.pbs": 91}, counted=ALL),
            f"Priority; number 100 of the 300 jobs in line; expected to start before {moment(60)}{PLANNED}",
            "Priority; number 100 of the 300 jobs in line",
        ),
        (
            Line({**dict.fromkeys(map(str, range(200)), 0), "7.pbs": 90}, counted=ALL),
            "Priority; number 100 of the 300 jobs in line",
            "Priority; number 90 of the 201 jobs in line",
        ),
        # With enough waits that were longer than this one, a range; the Pod has waited 100 s.
        (Line({"7.pbs": 1}, counted=ALL, waits=(100.0, *range(200, 1100, 100))), "", "Priority; number 1 of the 1 jobs in line"),
        (
            Line({"7.pbs": 1}, counted=ALL, waits=(50.0, *range(1000, 11_000, 1000))),
            "",
            (
                f"Priority; number 1 of the 1 jobs in line; expected to start between {moment(900)} and {moment(8900)}"
                ", by the waits of 10 Pods in this queue within a day"
            ),
        ),
    ],
)  # fmt: skip
def test_the_place_in_the_line_and_the_waits_of_others(line: Line, before: str, shown: str) -> None:
    assert words_of(waits(before, report(QUEUED, reason="Priority"), line)) == shown


def test_a_held_job_has_neither_place_nor_start() -> None:
    known = waits(said(60), report(HELD, reason="JobHeldUser"), Line({"7.pbs": 1}, counted=ALL, waits=(900.0,) * 20))

    assert words_of(known) == "JobHeldUser"


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (report(QUEUED, reason="Dependency", aside=True), "Dependency"),
        # Its date is no place in a line, but it is a start that Slurm plans.
        (report(QUEUED, reason="BeginTime", aside=True, expected=at(3600)), said(3600, "BeginTime")),
        # Slurm had planned a start before the partition's limit was lowered.
        (report(QUEUED, reason="PartitionTimeLimit", aside=True, expected=at(3600)), "PartitionTimeLimit"),
        (report(QUEUED, reason="Can Never Run: too much", aside=True, expected=at(3600)), "Can Never Run: too much"),
    ],
)
def test_a_job_that_waits_for_something_else_than_its_turn_has_no_place_and_no_start_by_waits(
    found: JobReport, shown: str
) -> None:
    line = Line({"6.pbs": 1, "7.pbs": 2}, waits=(900.0,) * 20)

    assert words_of(waits(said(3600), found, line)) == shown


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        (said(3600), ("Priority", Start(NOW + 3600, NOW + 3600, PLANS))),
        (said(3600, "x").removeprefix("x; "), ("", Start(NOW + 3600, NOW + 3600, PLANS))),
        (said(3600).removesuffix(PLANNED), ("Priority", Start(NOW + 3600, NOW + 3600))),
        (f"x; expected to start before {moment(60)}{PLANNED}", ("x", Start(None, NOW + 60, PLANS))),
        (f"x; expected to start between {moment(60)} and {moment(90)}", ("x", Start(NOW + 60, NOW + 90))),
        (f"x; expected to start between {moment(90)} and {moment(60)}", None),
        (f"{said(60)}; or so", None),
        ("Priority; expected to start about noon", None),
        (FULL, None),
        ("", None),
    ],
)
def test_the_words_are_read_again(message: str, parts: tuple[str, Start] | None) -> None:
    assert read(message) == (parts or (message, None))


@given(st.lists(st.tuples(st.integers(1, 4000), st.integers(-4000, 1_000_000)), min_size=1, max_size=20))
def test_what_is_said_of_the_start_covers_the_plan_and_stands_while_it_does(steps: list[tuple[int, int]]) -> None:
    known, now = waits("", report(QUEUED)), float(NOW)
    for pause, ahead in steps:
        now += pause
        planned = datetime.fromtimestamp(now + ahead, UTC)
        known = outcomes.reported(known, report(QUEUED, expected=planned), now)
        before = words_of(known, now)
        known = outcomes.with_pod(known, replace(known.pod, status=PodStatus(message=before)))
        assert words_of(known, now) == before
        start = read(before)[1]
        if start is None:
            assert ahead <= 300
            continue
        assert start.latest > now
        assert start.earliest is None or now < start.earliest <= start.latest
        low, high = start.earliest or now, start.latest
        slack = max(300, (high - now) / 9)
        assert ahead <= 0 or low - slack <= now + ahead <= high + slack
        assert len(before) < 160


def test_a_plan_that_moves_becomes_a_range_and_an_hour_later_another_start() -> None:
    known, shown = waits("", report(QUEUED, expected=at(7200))), []
    for minutes, ahead in ((0, 7200), (10, 9000), (50, 9000), (80, 9000)):
        known = outcomes.reported(known, report(QUEUED, expected=at(ahead)), NOW + minutes * 60)
        text = words_of(known, NOW + minutes * 60)
        known = outcomes.with_pod(known, replace(known.pod, status=PodStatus(message=text)))
        shown.append(text.removeprefix("expected to start ").removesuffix(PLANNED))

    both = f"between {moment(7200)} and {moment(9000)}"
    assert shown == [f"about {moment(7200)}", both, both, f"about {moment(9000)}"]


def test_an_agent_that_has_just_begun_keeps_the_range_of_the_last_one_for_an_hour() -> None:
    text = f"expected to start between {moment(9000)} and {moment(18_000)}{PLANNED}"
    known = waits(text, report(QUEUED, expected=at(10_800)))
    later = outcomes.reported(known, report(QUEUED, expected=at(10_800)), NOW + 3600)

    assert words_of(known) == text
    assert words_of(later, NOW + 3600) == f"expected to start about {moment(10_800)}{PLANNED}"


def test_a_start_that_moves_for_good_is_told_and_told_ever_more_rarely() -> None:
    """In a week a plan slips by two hours each hour: no Pod fills its namespace with Events of it."""
    view = replace(PLAIN, job_id="7.pbs")
    known, events = facts(view, job(report(QUEUED))), list[tuple[float, Tell]]()
    week = 7 * 24 * 3600
    for passed in range(0, week, 900):
        now = NOW + passed
        found = report(QUEUED, reason="Priority", expected=at(passed + 7200 + 2 * (passed // 3600) * 3600))
        known = outcomes.reported(known, found, now)
        made = plan(known, TERMS, now)
        events += [(passed, one) for one in told(made)]
        known = go_on(known, made, now)

    assert events[0][1] == Tell("Normal", "Queued", said(7200))
    pauses = [later - before for (before, _), (later, _) in itertools.pairwise(events)]
    assert 4 <= len(events) <= 12
    assert pauses == sorted(pauses)


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
