"""The server or the agent goes away in the middle, and comes back: nothing fails, and nothing runs twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.agent.bed.jobs import SECONDS, apply, job_id
from tests.agent.pbs import server
from tests.agent.pbs.conftest import Stack
from tests.agent.pbs.jobs import (
    await_ends,
    await_nothing_left,
    await_started,
    counted,
    let_go,
    submitted,
    told,
    waiting,
)
from tests.agent.pbs.site import ADA, NODE
from tests.agent.whole.jobs import finished
from tests.agent.whole.waiting import stays, until

pytestmark = [pytest.mark.pbs, pytest.mark.apptainer, pytest.mark.timeout(900)]
AWAY = 20.0
"""Seconds for which nothing may be said to have failed: several cycles of the agent's."""


@contextmanager
def dead(stack: Stack) -> Iterator[None]:
    stack.agent.kill()
    yield
    stack.agent.start()


def unavailable(stack: Stack) -> str:
    """The status of the Node's condition ``HPCUnavailable``."""
    node = stack.admin.get("node", NODE) or {}
    conditions = node.get("status", {}).get("conditions", ())
    return next((str(one["status"]) for one in conditions if one["type"] == "HPCUnavailable"), "")


def away(stack: Stack, what: str) -> AbstractContextManager[None]:
    return dead(stack) if what == "agent" else server.away()


@pytest.mark.parametrize(
    ("what", "history"),
    [
        pytest.param("agent", True, id="agent"),
        pytest.param("server", True, id="server"),
        pytest.param("server", False, id="server that forgets what is over, OpenPBS' default"),
    ],
)
def test_jobs_that_end_run_and_come_meanwhile_run_once(attending: Stack, what: str, history: bool) -> None:
    who = attending.ada
    end, run, fails = apply(who, waiting()), apply(who, waiting()), apply(who, waiting("exit 3"))
    await_started(end, run, fails)
    batch_jobs = {name: submitted(who, name) for name in (end, run, fails)}
    # A server that ends before it knows a job's session ends that job when it comes back, and starts it anew.
    until(
        lambda: [one for one in batch_jobs.values() if not server.attribute(one, "session_id")],
        lambda left: not left,
        seconds=SECONDS,
        what="for the server to know the sessions",
    )

    with server.history(kept=history):
        come = _go_on_without(attending, what, end, run, fails)
        assert await_ends(who, end, run, come, fails) == {
            **dict.fromkeys((end, run, come), "Complete"),
            fails: "Failed",
        }

    assert [told(name) for name in (end, run, come, fails)] == [["start", "end"]] * 4
    assert {name: job_id(who, name) for name in batch_jobs} == batch_jobs
    until(lambda: unavailable(attending), lambda status: status == "False", seconds=SECONDS)
    await_nothing_left([end, run, come, fails], ADA)


def _go_on_without(stack: Stack, what: str, end: str, run: str, fails: str) -> str:
    """While something is away two Jobs end, one runs on, and one comes, whose name is returned."""
    who = stack.ada
    with away(stack, what):
        if what == "server":
            until(lambda: unavailable(stack), lambda status: status == "True", seconds=SECONDS)
        come = apply(who, counted())
        let_go(end, fails)
        until(lambda: [told(name)[-1] for name in (end, fails)], lambda last: last == ["end"] * 2, seconds=SECONDS)
        stays(
            lambda: [one["metadata"]["name"] for one in who.every("jobs") if finished(one) == "Failed"],
            lambda failed: not {end, run, come}.intersection(failed),
            seconds=AWAY,
            what="without a failure",
        )
        assert told(come) == []
    let_go(run)
    return come
