"""Two people's jobs seen by one account, on a Slurm that shows nobody else's jobs (``PrivateData=jobs``)."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator

import pytest

from bed.layout import OPERATOR
from bed.standing import variant
from router import names
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply, end_of, exit_code, job, pod_of, printed
from tests.agent.bed.site import ADA, BEN, LAYOUT, LOCAL_SUDO, OWN_KEYS, SUDO, living
from tests.agent.whole.kubectl import Kubectl
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(900)]

_COUNT = re.compile(r'^batchgate_agent_commands_total\{kind="([a-z-]+)",outcome="\w+"\} (\S+)$', re.MULTILINE)
_CYCLES = re.compile(r"^batchgate_agent_cycle_seconds_count (\S+)$", re.MULTILINE)
AS_USERS = ("list", "details", "find")


@pytest.fixture(scope="module", params=[OWN_KEYS, SUDO, LOCAL_SUDO])
def stack(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """The operator with a key of its own and a forced command; through sudo, over ssh and on the login node."""
    if not variant(LAYOUT).accounting:
        pytest.skip("a Slurm without accounting has no operators")
    with reached(cluster, request.param, OPERATOR) as found:
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


def runs(who: Kubectl, name: str, words: str) -> None:
    """Wait until a program has printed this."""
    until(lambda: who.run("logs", f"job/{name}").out, lambda out: words in out, seconds=SECONDS, what=name)


def batch_id(who: Kubectl, name: str) -> str:
    """The number of a Job's batch job."""
    annotations = until(
        lambda: pod_of(who, name)["metadata"].get("annotations", {}), lambda found: names.KEY_JOB_ID in found
    )
    return str(annotations[names.KEY_JOB_ID])


def test_two_peoples_jobs_are_followed_with_two_commands_a_cycle(stack: Stack) -> None:
    people = ((stack.ada, ADA), (stack.ben, BEN))
    jobs = [(who, user, apply(who, job("echo runs; sleep 30; echo over; exit 3"))) for who, user in people]
    for who, user, name in jobs:
        runs(who, name, "runs")
        assert batch_id(who, name) in living(user)
    until(lambda: commands(metrics(stack)).get("observer-list", 0), what="for the observer to look")

    before = metrics(stack)
    after = until(lambda: metrics(stack), lambda text: cycles(text) >= cycles(before) + 4, seconds=SECONDS)

    looked, earlier = commands(after), commands(before)
    asked = sum(looked.get(kind, 0) - earlier.get(kind, 0) for kind in ("observer-list", "observer-details"))
    # One cycle may be under way at each of the two moments.
    assert asked <= 2 * (cycles(after) - cycles(before) + 2)
    assert looked["observer-list"] > earlier["observer-list"]
    for who, _, name in jobs:
        assert end_of(who, name) == "Failed"
        assert exit_code(who, name) == 3
        assert printed(who, name) == ["runs", "over"]
    ended = commands(metrics(stack))
    assert {kind: ended.get(kind, 0) - earlier.get(kind, 0) for kind in AS_USERS} == dict.fromkeys(AS_USERS, 0)


def test_a_job_that_is_deleted_is_cancelled_by_its_owner(stack: Stack) -> None:
    """The observer may do nothing but look: sudo and the forced command would refuse it."""
    name = apply(stack.ada, job("echo runs; sleep 600"))
    runs(stack.ada, name, "runs")
    job_id = batch_id(stack.ada, name)

    stack.ada.ok("delete", "job", name, "--wait=false")

    until(lambda: living(ADA), lambda ids: job_id not in ids, seconds=SECONDS, what="for the batch job to go")
