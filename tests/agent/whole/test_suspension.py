"""A Job that is suspended and resumed again and again, as Kueue does when it preempts one Job for another."""

from __future__ import annotations

import json
import time

import pytest

from tests.agent.whole.jobs import unique
from tests.agent.whole.stack import Stack
from tests.agent.whole.waiting import until

pytestmark = pytest.mark.timeout(600)
PODS = 4
ROUNDS = 4
SOON = 90.0
"""Seconds in which all Pods of a resumed Job run, on a busy machine. What would wait for an older run waits for minutes."""


def suspend(stack: Stack, name: str, *, suspended: bool) -> None:
    stack.user.ok("patch", "job", name, "--type=merge", "-p", json.dumps({"spec": {"suspend": suspended}}))


def await_starts(stack: Stack, name: str, wanted: int) -> None:
    """Until so many containers have started in all, which must be soon."""
    began = time.monotonic()
    until(lambda: stack.runs.started(name), lambda count: count >= wanted, what="for starts")
    took = time.monotonic() - began
    stack.notes.append(f"{wanted} starts after {took:.1f} s")
    assert took < SOON, stack.notes


@pytest.mark.parametrize("restarts", [False, True], ids=["the same agent", "another agent, which remembers nothing"])
def test_a_job_resumed_as_soon_as_its_pods_are_gone_runs_at_once(stack: Stack, restarts: bool) -> None:
    name = unique("preempted")
    stack.user.apply(stack.runs.job(name, stack.waiting(name), parallelism=PODS, completions=PODS))

    for number in range(1, ROUNDS + 1):
        await_starts(stack, name, number * PODS)
        if number < ROUNDS:
            suspend(stack, name, suspended=True)
            until(lambda: stack.pods(name), lambda pods: not pods, what="for no Pods")
            if restarts:
                stack.agent.kill()
                stack.agent.start()
            suspend(stack, name, suspended=False)
    stack.let_go(name)

    assert stack.await_end(name) == ["Complete"]
    assert (stack.runs.started(name), stack.runs.ended(name), stack.runs.twice(name)) == (ROUNDS * PODS, PODS, [])
