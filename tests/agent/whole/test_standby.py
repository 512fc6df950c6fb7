"""Two agents, one leader: the other takes over in seconds, and nothing is done twice."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from router import names
from tests.agent.whole.jobs import unique
from tests.agent.whole.long import LONG
from tests.agent.whole.stack import LEASE, LEASE_SECONDS, WAITS, Agent, Stack
from tests.agent.whole.waiting import until

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def standby(stack: Stack) -> Iterator[Agent]:
    """A second agent, which waits; ended with the test, in which the first may have ended too."""
    lead(stack, stack.agent)
    before = len(stack.standby.logged(WAITS))
    stack.standby.start()
    until(lambda: len(stack.standby.logged(WAITS)) > before, what="for the standby")
    yield stack.standby
    stack.standby.kill()


def leader(stack: Stack) -> str:
    """Who holds the Lease of the site."""
    lease = stack.admin.elsewhere(names.SYSTEM_NAMESPACE).get("lease", LEASE)
    return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")


def lead(stack: Stack, agent: Agent) -> None:
    until(lambda: leader(stack), lambda name: name.startswith(agent.name), what=f"for {agent.name} to lead")


def check_it_works(stack: Stack, *running: str) -> None:
    """What runs is followed on, and a new Job goes all the way; each once, and the logs of all can be read."""
    new = unique("new")
    stack.user.apply(stack.runs.job(new, "echo the end"))
    stack.let_go(*running)
    jobs = [*running, new]
    assert stack.await_end(*jobs) == ["Complete"] * len(jobs)
    assert [stack.runs.started(name) for name in jobs] == [1] * len(jobs)
    assert [len(stack.site.of(name)) for name in jobs] == [1] * len(jobs)
    stack.await_logs(dict.fromkeys(jobs, "the end\n"))


def test_sigterm_hands_over_within_seconds(stack: Stack, standby: Agent) -> None:
    name = unique("handed")
    stack.user.apply(stack.runs.job(name, stack.waiting(name, then="echo the end")))
    stack.await_started(name)

    assert stack.agent.terminate() == 0
    ended = time.monotonic()
    lead(stack, standby)

    assert time.monotonic() - ended < LEASE_SECONDS + 20  # a look takes seconds where the machine is busy
    check_it_works(stack, name)


def test_a_killed_leader_is_replaced(stack: Stack, standby: Agent) -> None:
    name = unique("killed")
    stack.user.apply(stack.runs.job(name, stack.waiting(name, then="echo the end")))
    stack.await_started(name)

    stack.agent.kill()
    lead(stack, standby)

    check_it_works(stack, name)


def test_a_leader_that_was_asleep_never_acts_again(stack: Stack, standby: Agent) -> None:
    """It is stopped in the middle of its work, and goes on when another leads: a claim that it has lost."""
    for _ in range(5 if LONG else 1):
        first_leads = leader(stack).startswith(stack.agent.name)
        asleep, awake = (stack.agent, standby) if first_leads else (standby, stack.agent)
        _fall_asleep(stack, asleep, awake)


def _fall_asleep(stack: Stack, asleep: Agent, awake: Agent) -> None:
    jobs = [unique("asleep") for _ in range(4)]
    stack.user.apply(*(stack.runs.job(name, stack.waiting(name)) for name in jobs))
    until(lambda: [name for name in jobs if stack.site.of(name)], pause=0.01, what="for the first submission")

    waits = len(asleep.logged(WAITS))
    asleep.pause()
    if not (claim := leader(stack)).startswith(asleep.name):  # it has lost the lead meanwhile
        asleep.resume()
        asleep, awake = awake, asleep
        waits = len(asleep.logged(WAITS))
        asleep.pause()
        claim = leader(stack)
    lead(stack, awake)
    stack.await_started(*jobs)
    more = [unique("more") for _ in range(4)]
    stack.user.apply(*(stack.runs.job(name, stack.waiting(name)) for name in more))
    asleep.resume()
    stack.await_started(*more)
    stack.let_go(*jobs, *more)

    assert stack.await_end(*jobs, *more) == ["Complete"] * 8
    assert [stack.runs.started(name) for name in (*jobs, *more)] == [1] * 8
    assert [len(stack.site.of(name)) for name in more] == [1] * 4
    # Who leads now may be the process that came after it, where a busy machine has kept the other from its Lease.
    assert leader(stack) != claim
    until(lambda: len(asleep.logged(WAITS)) > waits, what="for it to stand by again")
