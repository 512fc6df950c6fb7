"""A limit on jobs that are submitted: those beyond it wait in Kubernetes, and all of them run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bed.accounts import LIMITED, MOST_QUEUED
from bed.standing import variant
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply
from tests.agent.bed.site import LAYOUT, SUDO
from tests.agent.bed.tally import await_empty, await_ends, counted, let_go, lines, queued, waiting
from tests.agent.whole.jobs import LABEL
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(1200)]
JOBS = 20


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    """Every Job is charged to the account with a limit."""
    if not variant(LAYOUT).accounting:
        pytest.skip("a Slurm without accounting has no submit limits")
    with reached(cluster, SUDO, charge=LIMITED) as found:
        yield found


def test_20_jobs_run_where_5_may_be_submitted(stack: Stack) -> None:
    names = [apply(stack.ada, waiting(counted())) for _ in range(JOBS)]

    def full() -> list[str]:
        """The words of each of these Jobs' containers that wait for room."""
        pods = [pod for pod in stack.ada.every("pods") if pod["metadata"]["labels"].get(LABEL) in names]
        states = [one["state"] for pod in pods for one in pod["status"].get("containerStatuses", ())]
        return [one["waiting"]["message"] for one in states if one.get("waiting", {}).get("reason") == "QueueFull"]

    words = until(full, lambda found: len(found) == JOBS - MOST_QUEUED, seconds=SECONDS, what="for a full queue")
    assert [one for one in words if "AssocMaxSubmitJobLimit" not in one] == []
    assert len(queued(names)) == MOST_QUEUED
    let_go(*names)

    assert await_ends(stack.ada, names, seconds=2 * SECONDS) == dict.fromkeys(names, "Complete")
    assert {name: [line.event for line in lines(name)] for name in names} == {name: ["start", "end"] for name in names}
    await_empty(*names)
