"""What the way to the jobs is made of goes away in the middle, and comes back: nothing fails, nothing runs twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.faults import without
from tests.agent.bed.jobs import SECONDS, apply
from tests.agent.bed.site import SUDO
from tests.agent.bed.tally import await_empty, await_ends, await_started, counted, let_go, lines, told, waiting
from tests.agent.whole.jobs import finished
from tests.agent.whole.waiting import stays, until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(900)]
AWAY = 60.0


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    with reached(cluster, SUDO) as found:
        yield found


@contextmanager
def dead(stack: Stack) -> Iterator[None]:
    stack.agent.kill()
    yield
    stack.agent.start()


def away(stack: Stack, what: str) -> AbstractContextManager[None]:
    return dead(stack) if what == "agent" else without(what)


@pytest.mark.parametrize("what", ["agent", "sshd", "slurmctld"])
def test_jobs_that_end_run_and_come_meanwhile_run_once(stack: Stack, what: str) -> None:
    end, run = ([apply(stack.ada, waiting(counted())) for _ in range(2)] for _ in range(2))
    fails = apply(stack.ada, waiting(counted("tell end; exit 3")))
    await_started(*end, *run, fails)

    with away(stack, what):
        come = apply(stack.ada, counted())
        let_go(*end, fails)
        until(lambda: [name for name in (*end, fails) if not told(name, "end")], lambda left: not left, seconds=SECONDS)
        every = {*end, *run, come}
        stays(
            lambda: [one["metadata"]["name"] for one in stack.ada.every("jobs") if finished(one) == "Failed"],
            lambda failed: not every.intersection(failed),
            seconds=AWAY if what == "slurmctld" else AWAY / 4,
            what="without a failure",
        )
        assert told(come, "start") == 0
    let_go(*run)

    assert await_ends(stack.ada, [*every, fails]) == {**dict.fromkeys(every, "Complete"), fails: "Failed"}
    assert {name: [line.event for line in lines(name)] for name in (*every, fails)} == {
        name: ["start", "end"] for name in (*every, fails)
    }
    await_empty(*every, fails)
