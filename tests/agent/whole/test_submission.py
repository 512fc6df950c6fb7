"""A submission that is killed, whose answer is lost or late, and a job that somebody starts once more by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from router.local.records import FINISHED
from tests.agent.whole import unreliable
from tests.agent.whole.jobs import unique
from tests.agent.whole.stack import COMMAND_SECONDS, Stack
from tests.agent.whole.waiting import until

pytestmark = pytest.mark.timeout(600)
LATER = 20
"""Seconds in which an agent that has given a submission up makes another, also on a busy machine."""


@pytest.mark.parametrize("kind", [unreliable.DIE_BEFORE, unreliable.DIE_AFTER, unreliable.LOST])
def test_a_submission_whose_answer_never_came_runs_once(stack: Stack, kind: str) -> None:
    names = [unique(kind) for _ in range(3)]
    before = len(unreliable.met(stack.site.faults))
    # Where the job is there and is found, nothing is submitted again.
    times = 4 if kind == unreliable.DIE_BEFORE else 3
    unreliable.plan(stack.site.faults, kind, times=times)

    stack.user.apply(*(stack.runs.job(name, "sleep 1") for name in names))

    assert stack.await_end(*names) == ["Complete"] * 3
    assert unreliable.met(stack.site.faults)[before:] == [kind] * times
    assert [stack.runs.started(name) for name in names] == [1, 1, 1]
    assert [len(stack.site.of(name)) for name in names] == [1, 1, 1]


def test_an_answer_that_comes_too_late_is_found_again(stack: Stack) -> None:
    """The queue takes the job at once, and says so when nobody waits any more."""
    name = unique("slow")
    before = len(unreliable.met(stack.site.faults))
    unreliable.plan(stack.site.faults, unreliable.SLOW, seconds=COMMAND_SECONDS + 3)

    stack.user.apply(stack.runs.job(name))

    assert stack.await_end(name) == ["Complete"]
    assert unreliable.met(stack.site.faults)[before:] == [unreliable.SLOW]
    assert stack.runs.started(name) == 1
    assert len(stack.site.of(name)) == 1


def test_a_submission_that_arrives_after_it_was_given_up_runs_once(stack: Stack) -> None:
    """The worst of all: nobody can see it, it cannot be called back, and the next one is on its way."""
    name = unique("late")
    before = len(unreliable.met(stack.site.faults))
    unreliable.plan(stack.site.faults, unreliable.LATE, seconds=COMMAND_SECONDS + LATER)

    stack.user.apply(stack.runs.job(name, stack.waiting(name)))
    until(lambda: stack.site.of(name), lambda jobs: len(jobs) == 2, what="for both batch jobs")
    assert unreliable.met(stack.site.faults)[before:] == [unreliable.LATE]
    until(lambda: [job for job in stack.site.of(name) if job.state == FINISHED], what="for the end of one of them")
    stack.let_go(name)

    assert stack.await_end(name) == ["Complete"]
    assert stack.runs.started(name) == 1


@pytest.mark.parametrize("when", ["running", "over"])
def test_the_same_job_started_once_more_by_hand_runs_once(stack: Stack, when: str) -> None:
    name = unique("by-hand")
    stack.user.apply(stack.runs.job(name, stack.waiting(name)))
    stack.await_started(name)
    (first,) = stack.site.of(name)
    if when == "over":
        stack.let_go(name)
        assert stack.await_end(name) == ["Complete"]

    directory = first.variables["BATCHGATE_DIR"]
    words = ["-N", first.name, "-v", f"BATCHGATE_DIR={directory}", "-o", str(stack.site.root / "hand"), "-j", "oe"]
    second = stack.site.local("qsub", *words, str(Path(directory) / "script")).strip()
    until(lambda: [job for job in stack.site.of(name) if job.job_id == second and job.state == FINISHED])
    stack.let_go(name)

    assert stack.await_end(name) == ["Complete"]
    assert (stack.runs.started(name), stack.runs.ended(name)) == (1, 1)
    assert json.dumps(stack.pod(name)["metadata"]["annotations"]).count(first.job_id) >= 1
