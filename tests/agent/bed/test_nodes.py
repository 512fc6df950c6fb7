"""A node that is lost while its processes live on, and a job that somebody starts again: nothing runs twice at once."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.faults import lost
from tests.agent.bed.jobs import SECONDS, apply, job_id, pod_of
from tests.agent.bed.site import SUDO, slurm
from tests.agent.bed.tally import await_empty, await_ends, await_started, counted, let_go, lines, queued, told, waiting
from tests.agent.whole.waiting import stays, until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    with reached(cluster, SUDO) as found:
        yield found


def state(batch_job: str) -> str:
    """A job's state in Slurm's word."""
    return slurm("squeue", "-h", "-t", "all", "-j", batch_job, "-o", "%T").strip()


def conditions(stack: Stack, name: str) -> dict[str, str]:
    """The conditions of a Job's one Pod."""
    return {one["type"]: one["status"] for one in pod_of(stack.ada, name)["status"].get("conditions", ())}


def test_a_job_of_a_lost_node_runs_again_only_when_its_processes_are_gone(stack: Stack) -> None:
    name = apply(stack.ada, waiting(counted(backoffLimit=0)))
    await_started(name)
    batch_job = job_id(stack.ada, name)
    node = slurm("squeue", "-h", "-j", batch_job, "-o", "%N").strip()
    first = pod_of(stack.ada, name)["metadata"]["uid"]

    with lost(node):
        until(lambda: state(batch_job), lambda word: word == "NODE_FAIL", seconds=SECONDS, what="for Slurm to lose it")
        until(lambda: conditions(stack, name).get("NodeLost"), lambda holds: holds == "True", seconds=SECONDS)
        stays(
            lambda: (queued([name]), told(name, "start"), pod_of(stack.ada, name)["status"]["phase"]),
            lambda seen: seen == ([], 1, "Running"),
            seconds=45,
            what="running once",
        )
        let_go(name)
        assert await_ends(stack.ada, [name]) == {name: "Complete"}

    seen = lines(name)
    assert [line.event for line in seen] == ["start", "end"] * 2
    assert [line.pod == first for line in seen] == [True, True, False, False]
    await_empty(name)


def test_a_job_that_somebody_starts_again_runs_once(stack: Stack) -> None:
    name = apply(stack.ada, waiting(counted()))
    await_started(name)
    batch_job = job_id(stack.ada, name)

    refused = subprocess.run(["scontrol", "requeue", batch_job], capture_output=True, text=True, check=False)

    assert (refused.returncode, state(batch_job)) == (1, "RUNNING"), refused
    let_go(name)
    assert await_ends(stack.ada, [name]) == {name: "Complete"}
    assert [line.event for line in lines(name)] == ["start", "end"]


def test_a_job_that_an_admin_makes_start_again_runs_once(stack: Stack) -> None:
    """The second start finds the claim of the first, which is the same batch job."""
    name = apply(stack.ada, waiting(counted()))
    await_started(name)
    batch_job = job_id(stack.ada, name)

    slurm("scontrol", "update", f"JobId={batch_job}", "Requeue=1")
    slurm("scontrol", "requeue", batch_job)

    assert await_ends(stack.ada, [name], seconds=2 * SECONDS) == {name: "Failed"}
    assert told(name, "start") == 1
    await_empty(name)
