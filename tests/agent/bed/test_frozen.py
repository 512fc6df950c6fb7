"""Nodes of which Slurm says that they are lost, and that come back: what they ran may wake up, and runs nothing twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.faults import Process, frozen, hung, lost, processes_of
from tests.agent.bed.jobs import SECONDS, apply, job_id, pod_of
from tests.agent.bed.site import ADA, SUDO, files_of, slurm
from tests.agent.bed.tally import await_empty, await_ends, await_started, counted, let_go, lines, queued, told, waiting
from tests.agent.bed.test_nodes import conditions, state
from tests.agent.whole.jobs import LABEL
from tests.agent.whole.waiting import stays, until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(1500)]
SILENCE = 180.0
"""Seconds after which a script that has given no sign of life is taken to run nothing any more."""
PATIENCE = 60.0
"""Seconds after which a script that cannot reach its directory ends its containers; sleep does not count."""


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    with reached(cluster, SUDO) as found:
        yield found


@pytest.fixture
def running(stack: Stack) -> tuple[str, str, str, Path]:
    """A Job whose container runs: its name, its batch job, the node, and the Pod's directory."""
    name = apply(stack.ada, waiting(counted(backoffLimit=0)))
    await_started(name)
    batch_job = job_id(stack.ada, name)
    uid = pod_of(stack.ada, name)["metadata"]["uid"]
    (directory,) = [path for path in files_of(ADA) if path.name == uid]
    return name, batch_job, slurm("squeue", "-h", "-j", batch_job, "-o", "%N").strip(), directory


def age(directory: Path) -> float:
    """Seconds since a script's last sign of life."""
    return time.time() - (directory / "alive").stat().st_mtime


def await_lost(stack: Stack, name: str, batch_job: str) -> None:
    """Until Slurm has given a job up, and its Pod says so."""
    until(lambda: state(batch_job), lambda word: word == "NODE_FAIL", seconds=SECONDS, what="for Slurm to lose it")
    until(lambda: conditions(stack, name).get("NodeLost"), lambda holds: holds == "True", seconds=SECONDS)


def once(stack: Stack, name: str) -> bool:
    """Whether a Job has one Pod, which runs, and had one start, and waits for no other."""
    return (queued([name]), told(name, "start"), pod_of(stack.ada, name)["status"]["phase"]) == ([], 1, "Running")


def living(processes: list[Process]) -> list[Process]:
    """Those that are not gone."""
    return [one for one in processes if one.state != "Z"]


def await_gone(processes: list[Process]) -> None:
    """Until all of them have ended."""
    until(lambda: living(processes), lambda left: not left, seconds=SECONDS, what="for the first run to end itself")


def await_silence(directory: Path, happens: Callable[[], bool]) -> None:
    """Until something happens that may happen only when a script has been silent for long enough."""
    until(happens, seconds=SILENCE + SECONDS, what="for what silence allows")
    assert age(directory) >= SILENCE


def test_what_wakes_up_on_a_lost_node_goes_on_or_ends_itself(stack: Stack, running: tuple[str, str, str, Path]) -> None:
    """It goes on while no other run may have begun. Later it is another's turn, and it finds its claim taken."""
    name, batch_job, node, directory = running
    first = directory.name

    with lost(node):
        with frozen(batch_job):
            await_lost(stack, name, batch_job)
            seconds = max(1.0, PATIENCE + 15 - age(directory))
            stays(lambda: once(stack, name), bool, seconds=seconds, what="running once")
        until(lambda: age(directory), lambda seconds: seconds < PATIENCE / 2, what="for a sign of life")
        stays(lambda: once(stack, name), bool, seconds=PATIENCE / 2, what="running once when it has woken")

        with frozen(batch_job) as processes:
            await_silence(directory, lambda: told(name, "start") == 2)
            assert {one.state for one in processes} == {"T"}
            assert (directory / "claim").read_text() == "cancelled\n"
        await_gone(processes)
        assert "the claim of this Pod is another's: ending at once" in (directory / "output").read_text()
        assert list((directory / "exit").iterdir()) == []
        assert told(name, "start") == 2
        let_go(name)
        assert await_ends(stack.ada, [name]) == {name: "Complete"}

    assert [(line.event, line.pod == first) for line in lines(name)] == [
        ("start", True),
        ("start", False),
        ("end", False),
    ]
    await_empty(name)


def test_a_node_that_comes_back_runs_a_job_again_when_the_first_run_is_gone(
    stack: Stack, running: tuple[str, str, str, Path]
) -> None:
    """Slurm itself ends what it had given up, as soon as the node answers again."""
    name, batch_job, node, directory = running
    first = directory.name
    before = processes_of(batch_job)

    with hung(node, batch_job) as come_back:
        await_lost(stack, name, batch_job)
        stays(lambda: once(stack, name), bool, seconds=45, what="running once")
        assert age(directory) < PATIENCE
        come_back()
        seen = until(
            lambda: (told(name, "start"), living(before)),
            lambda seen: seen[0] == 2,
            seconds=SILENCE + SECONDS,
            what="for a second run",
        )
        assert seen == (2, [])

    let_go(name)
    assert await_ends(stack.ada, [name]) == {name: "Complete"}
    assert [(line.event, line.pod == first) for line in lines(name)] == [
        ("start", True),
        ("start", False),
        ("end", False),
    ]
    await_empty(name)


def test_a_job_that_is_deleted_while_its_node_is_lost_is_gone_when_it_wakes(
    stack: Stack, running: tuple[str, str, str, Path]
) -> None:
    """Nobody can be signalled there: the Pod goes when its script has been silent for so long, and the claim is taken."""
    name, batch_job, node, directory = running

    with lost(node):
        with frozen(batch_job) as processes:
            await_lost(stack, name, batch_job)
            stack.ada.ok("delete", "job", name, "--wait=false")
            await_silence(directory, lambda: not stack.ada.every("pods", f"{LABEL}={name}"))
        await_gone(processes)
    let_go(name)

    assert [line.event for line in lines(name)] == ["start"]
    assert stack.ada.get("job", name) is None
    await_empty(name)
