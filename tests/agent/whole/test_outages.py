"""What the agent asks cannot be asked: nothing ends, nothing runs twice, and all is well when it is back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from router.controlplane.options import APISERVER, ETCD
from tests.agent.whole.jobs import finished, unique
from tests.agent.whole.long import LONG
from tests.agent.whole.site import ROUTE_NARROW
from tests.agent.whole.stack import NODES, Stack
from tests.agent.whole.waiting import stays, until

SECONDS = 120 if LONG else 20
pytestmark = pytest.mark.timeout(600)


def unavailable(stack: Stack) -> list[str]:
    """The status of the condition HPCUnavailable of each virtual Node."""
    nodes = [stack.admin.get("node", name) or {} for name in NODES]
    conditions = [one for node in nodes for one in node["status"]["conditions"]]
    return [one["status"] for one in conditions if one["type"] == "HPCUnavailable"]


def view(stack: Stack, *jobs: str) -> list[tuple[str, str]]:
    """Uid and phase of the Pods of Jobs."""
    pods = [pod for job in jobs for pod in stack.pods(job)]
    return [(pod["metadata"]["uid"], pod["status"]["phase"]) for pod in pods]


@contextmanager
def four_jobs(stack: Stack) -> Iterator[list[str]]:
    """Jobs of which two run, one of them ends in between, and one waits behind another in the narrow queue."""
    names = [unique(word) for word in ("runs", "ends", "ahead", "behind")]
    runs, ends, ahead, behind = names
    stack.user.apply(*(stack.runs.job(name, stack.waiting(name)) for name in (runs, ends)))
    for name in (ahead, behind):
        job = stack.runs.job(name, stack.waiting(name))
        job["metadata"]["labels"]["queue"] = ROUTE_NARROW
        stack.user.apply(job)
        stack.await_submitted(name)
    stack.await_started(runs, ends, ahead)
    for name in (runs, ends, ahead):
        stack.await_phase(name, "Running")
    yield names
    stack.let_go(*names)
    assert stack.await_end(*names) == ["Complete"] * 4
    assert [stack.runs.started(name) for name in names] == [1, 1, 1, 1]
    assert [len(stack.site.of(name)) for name in names] == [1, 1, 1, 1]


def test_the_queue_cannot_be_reached(stack: Stack) -> None:
    late = unique("late")
    with four_jobs(stack) as (runs, ends, ahead, behind):
        seen = view(stack, runs, ahead, behind)
        with stack.site.faulty("unreachable=on"):
            stack.user.apply(stack.runs.job(late))
            stack.let_go(ends)
            until(lambda: unavailable(stack), lambda words: "True" in words, what="for HPCUnavailable")
            stays(lambda: view(stack, runs, ahead, behind), lambda now: now == seen, seconds=SECONDS, what="untouched")
            assert finished(stack.job(late)) == ""
        until(lambda: unavailable(stack), lambda words: "True" not in words, what="for the end of HPCUnavailable")

    assert stack.await_end(late) == ["Complete"]
    assert stack.runs.started(late) == 1


def test_living_jobs_are_not_listed(stack: Stack) -> None:
    """A list that is empty, with exit code 0; ids that nobody knows; both. Absence proves nothing."""
    with four_jobs(stack) as (runs, _, ahead, behind):
        seen = view(stack, runs, ahead, behind)
        for faults in (("list-empty=on",), ("jobs-unknown=on",), ("list-empty=on", "jobs-unknown=on")):
            with stack.site.faulty(*faults):
                stays(
                    lambda: view(stack, runs, ahead, behind), lambda now: now == seen, seconds=SECONDS / 3, what="same"
                )


def test_a_job_that_the_queue_forgot_is_judged_by_its_files(stack: Stack) -> None:
    good, bad = unique("good"), unique("bad")
    bodies = {good: stack.waiting(good, then="echo good"), bad: stack.waiting(bad, then="echo bad; exit 3")}
    stack.user.apply(*(stack.runs.job(name, body) for name, body in bodies.items()))
    stack.await_started(good, bad)
    for name in (good, bad):
        stack.await_phase(name, "Running")

    with stack.site.faulty("history-lost=on"):
        stack.agent.kill()
        stack.let_go(good, bad)
        until(stack.runs.alive, lambda processes: not processes)
        until(lambda: [*stack.site.of(good), *stack.site.of(bad)], lambda jobs: not jobs, what="for a lost history")
        stack.agent.start()
        assert stack.await_end(good, bad) == ["Complete", "Failed"]

    (state,) = stack.pod(bad)["status"]["containerStatuses"]
    assert state["state"]["terminated"]["exitCode"] == 3
    assert [stack.runs.started(name) for name in (good, bad)] == [1, 1]
    stack.await_logs({good: "good\n", bad: "bad\n"})


def test_the_queue_itself_is_restarted(stack: Stack) -> None:
    with four_jobs(stack) as (runs, ends, _, _):
        stack.site.local("stop")
        stack.let_go(ends)
        assert stack.await_end(ends) == ["Complete"]
        assert stack.pod(runs)["status"]["phase"] == "Running"


@pytest.mark.parametrize("component", [APISERVER, ETCD])
def test_the_api_server_is_away_for_a_while(stack: Stack, component: str) -> None:
    """Killed as by a crash; a Job ends meanwhile, and nobody can be told."""
    with four_jobs(stack) as (runs, ends, _, _):
        uid = stack.pod(runs)["metadata"]["uid"]
        stack.plane.end(component)
        stack.let_go(ends)
        until(lambda: stack.runs.ended(ends))
        stays(stack.runs.alive, bool, seconds=SECONDS / 4, what="running")
        stack.plane.start(component)
        stack.plane.await_ready()

        assert stack.await_end(ends) == ["Complete"]
        after = unique("after")
        stack.user.apply(stack.runs.job(after))
        assert stack.await_end(after) == ["Complete"]
        pod = stack.pod(runs)
        assert (pod["metadata"]["uid"], pod["status"]["phase"]) == (uid, "Running")
