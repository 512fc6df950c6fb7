"""Two people's jobs seen by one account, on a server that shows nobody else's jobs (``query_other_jobs`` False)."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator

import pytest

from bed.layout import OPERATOR
from tests.agent.bed.jobs import SECONDS, apply, end_of, exit_code, printed
from tests.agent.pbs import server
from tests.agent.pbs.conftest import Cluster, Stack, attended
from tests.agent.pbs.jobs import await_started, counted, let_go, submitted, waiting
from tests.agent.pbs.site import ADA, BEN, as_user
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.pbs, pytest.mark.apptainer, pytest.mark.timeout(900)]

_COUNT = re.compile(r'^batchgate_agent_commands_total\{kind="([a-z-]+)",outcome="\w+"\} (\S+)$', re.MULTILINE)
_CYCLES = re.compile(r"^batchgate_agent_cycle_seconds_count (\S+)$", re.MULTILINE)
AS_USERS = ("list", "details", "find")


@pytest.fixture
def observed(cluster: Cluster) -> Iterator[Stack]:
    """The observer is an operator."""
    with (
        server.setting("query_other_jobs", "False"),
        server.operator(OPERATOR),
        attended(cluster, OPERATOR) as found,
    ):
        yield found


def metrics(stack: Stack) -> str:
    """All that the agent counts."""
    address = str(stack.agent.logged("metrics")[-1]["address"])
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
        return str(answer.read().decode())


def commands(text: str) -> dict[str, float]:
    """Commands of the batch system by kind, however they came out."""
    found: dict[str, float] = {}
    for kind, count in _COUNT.findall(text):
        found[kind] = found.get(kind, 0) + float(count)
    return found


def cycles(text: str) -> float:
    return sum(float(count) for count in _CYCLES.findall(text))


def listed(user: str, owner: str) -> str:
    """What a user is told of another one's jobs."""
    return server.ok(*as_user(user), "qselect", "-u", owner)


def test_two_peoples_jobs_are_followed_with_two_commands_a_cycle(observed: Stack) -> None:
    people = ((observed.ada, ADA, BEN), (observed.ben, BEN, ADA))
    jobs = [(*one, apply(one[0], waiting("echo over; exit 3"))) for one in people]
    await_started(*(name for *_, name in jobs))
    for who, user, other, name in jobs:
        batch_job = submitted(who, name)
        assert batch_job in listed(OPERATOR, user)
        assert batch_job not in listed(other, user)
    until(lambda: commands(metrics(observed)).get("observer-list", 0), what="for the observer to look")

    before = metrics(observed)
    after = until(lambda: metrics(observed), lambda text: cycles(text) >= cycles(before) + 4, seconds=SECONDS)

    looked, earlier = commands(after), commands(before)
    asked = sum(looked.get(kind, 0) - earlier.get(kind, 0) for kind in ("observer-list", "observer-details"))
    # One cycle may be under way at each of the two moments.
    assert asked <= 2 * (cycles(after) - cycles(before) + 2)
    assert looked["observer-list"] > earlier["observer-list"]
    for who, _, _, name in jobs:
        let_go(name)
        assert end_of(who, name) == "Failed"
        assert exit_code(who, name) == 3
        assert printed(who, name) == ["over"]
    ended = commands(metrics(observed))
    assert {kind: ended.get(kind, 0) - earlier.get(kind, 0) for kind in AS_USERS} == dict.fromkeys(AS_USERS, 0)


def test_what_an_observer_does_not_see_is_asked_as_the_owner(cluster: Cluster) -> None:
    """An account that is no operator: OpenPBS answers it that there is nothing."""
    with server.setting("query_other_jobs", "False"), attended(cluster, OPERATOR) as stack:
        jobs = [(who, apply(who, counted("echo over"))) for who in (stack.ada, stack.ben)]
        for who, name in jobs:
            assert end_of(who, name) == "Complete"
            assert printed(who, name) == ["over"]
        assert stack.agent.logged("the observer does not see")
