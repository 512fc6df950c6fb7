"""How launches that a text starts over two nodes end: as those of a lifted launcher do, and then the text."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.agent.bed import faults
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, end_of, exit_code, pod_of
from tests.agent.bed.launching import COVER, DAEMON, LAUNCHER, RANK, RANKS, WAIT, Launching, launching, scratch
from tests.agent.bed.site import SUDO, slurm
from tests.agent.bed.test_mpi import EAT, MpiSite, nodes_of
from tests.agent.whole.jobs import LABEL, finished
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.mpi, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    with reached(cluster, SUDO, kind=MpiSite) as found:
        yield found


TRAPPED = f"""
trap 'echo the text is asked; exit 7' TERM
mpirun -np {RANKS} {WAIT} -g 5 -s 6
mpirun -np {RANKS} echo another
while :; do sleep 0.2; done
"""
"""Ranks that take their time, a launcher that must not start any more, and a text that does something last."""


def asked(job: Launching) -> tuple[int, ...]:
    """How many ranks were asked and became ready, how often the text was, and how many ranks started after that."""
    return tuple(job.count(pattern) for pattern in (r"rank=\d asked", r"rank=\d ready", "the text is asked", "another"))


def reason(stack: Stack, job: Launching) -> str:
    return str(pod_of(stack.ben, job.name)["status"].get("reason", ""))


def test_a_job_that_is_deleted_gives_ranks_their_time_and_then_the_text(stack: Stack) -> None:
    job = launching(stack, TRAPPED, grace=60)
    job.awaits_ranks()
    directory = job.directory()

    stack.ben.ok("delete", "job", job.name, "--wait=false")

    gone = f"{LABEL}={job.name}"
    until(lambda: stack.ben.every("pods", gone), lambda pods: not pods, seconds=SECONDS, what="for its end")
    assert asked(job) == (RANKS, RANKS, 1, 0), job.lines
    assert json.loads((directory / "exit" / "main.0").read_text())["code"] == 7
    assert not (directory / "launches").exists()
    job.await_nothing_left()


def test_the_deadline_gives_ranks_their_time_and_then_the_text(stack: Stack) -> None:
    job = launching(stack, TRAPPED, grace=60, spec={"activeDeadlineSeconds": 30})

    assert end_of(stack.ben, job.name) == "Failed"
    assert (exit_code(stack.ben, job.name), reason(stack, job)) == (7, "DeadlineExceeded")
    assert asked(job) == (RANKS, RANKS, 1, 0), job.lines
    job.await_nothing_left()


def test_what_does_not_end_is_killed_after_the_grace_period(stack: Stack) -> None:
    job = launching(stack, f"trap '' TERM; mpirun -np {RANKS} {WAIT} -g 600; sleep 600", grace=5)
    job.awaits_ranks()

    stack.ben.ok("delete", "pod", pod_of(stack.ben, job.name)["metadata"]["name"], "--wait=false")

    assert end_of(stack.ben, job.name) == "Failed"
    job.await_nothing_left()
    assert asked(job) == (RANKS, 0, 0, 0), job.lines


def test_a_job_that_an_admin_cancels(stack: Stack) -> None:
    job = launching(stack, TRAPPED, grace=60)
    job.awaits_ranks()

    slurm("scancel", job.batch_job)

    assert end_of(stack.ben, job.name) == "Failed"
    assert reason(stack, job) == "JobDeleted"
    job.await_nothing_left()
    assert job.count("another") == 0


AFTER = f"; echo status $?; mpirun -np {RANKS} echo another; exit 3"
"""What the text does when its first launch has ended."""


@dataclass(frozen=True)
class Killed:
    """What is done to a launch while its text goes on, and which exit code the text sees; any but 0 if there is none."""

    text: str
    status: int | None
    act: Callable[[Launching], None] = lambda _: None


def kill(pattern: str) -> Callable[[Launching], None]:
    return lambda job: job.kill(pattern)


KILLED = {
    "timeout": Killed(f"timeout -s TERM 8 mpirun -np {RANKS} {WAIT} -g 1", 124),
    "timeout that kills": Killed(f"timeout -k 1 8 mpirun -np {RANKS} {WAIT} -g 600", 137),
    "cover": Killed(f"mpirun -np {RANKS} {WAIT}", 137, kill(COVER)),
    "launcher": Killed(f"mpirun -np {RANKS} {WAIT}", 137, kill(LAUNCHER)),
    "rank": Killed(f"mpirun -np {RANKS} {WAIT}", 137, kill(RANK)),
    "daemon": Killed(f"mpirun -np {RANKS} {WAIT}", None, kill(DAEMON)),
}


@pytest.mark.parametrize("row", KILLED)
def test_the_text_goes_on_after_what_ends_a_launch(stack: Stack, row: str) -> None:
    case = KILLED[row]
    job = launching(stack, case.text + AFTER)
    job.awaits_ranks()

    case.act(job)

    assert end_of(stack.ben, job.name) == "Failed"
    assert exit_code(stack.ben, job.name) == 3
    found = [int(line.split()[1]) for line in job.lines if re.fullmatch(r"status \d+", line)]
    assert found == [case.status] or (case.status is None and len(found) == 1 and found != [0])
    assert job.count("another") == RANKS
    job.await_nothing_left()


def test_a_rank_that_fails_ends_its_launch_with_its_code(stack: Stack) -> None:
    job = launching(stack, f"mpirun -np {RANKS} {WAIT} -f 2 -s 9")

    assert end_of(stack.ben, job.name) == "Failed"
    assert exit_code(stack.ben, job.name) == 9
    job.await_nothing_left()


def test_a_text_that_ends_takes_its_launches_along(stack: Stack) -> None:
    job = launching(
        stack, f"mpirun -np 2 {WAIT} & mpirun -np 2 {WAIT} & until [ -e /tmp/go ]; do sleep 0.1; done; exit 4"
    )
    job.awaits_ranks()

    (job.directory() / "main.tmp" / "go").touch()

    assert end_of(stack.ben, job.name) == "Failed"
    assert exit_code(stack.ben, job.name) == 4
    job.await_nothing_left()


def test_a_rank_that_takes_too_much_memory_on_another_node_ends_the_job(stack: Stack) -> None:
    text = f"if [ $PMIX_RANK = 3 ]; then exec python3 -c '{EAT}'; else exec {WAIT}; fi"
    job = launching(stack, f"cat >/tmp/eat <<'E'\n{text}\nE\nmpirun -np {RANKS} sh /tmp/eat; exit")

    assert end_of(stack.ben, job.name) == "Failed"
    assert exit_code(stack.ben, job.name) == 137
    job.await_nothing_left()


def test_a_text_that_takes_too_much_memory_ends_the_job(stack: Stack) -> None:
    job = launching(stack, f"mpirun -np {RANKS} {WAIT} & python3 -c '{EAT}'; exit")

    assert end_of(stack.ben, job.name) == "Failed"
    assert (exit_code(stack.ben, job.name), reason(stack, job)) == (137, "OOMKilled")
    job.await_nothing_left()


def test_a_launch_does_not_need_the_agent(stack: Stack) -> None:
    job = launching(stack, f"mpirun -np {RANKS} ranks -w /tmp/go{AFTER}")
    job.awaits_ranks()
    go = job.directory() / "main.tmp" / "go"

    stack.agent.kill()
    go.touch()
    job.awaits("another", RANKS)
    stack.agent.start()

    assert end_of(stack.ben, job.name) == "Failed"
    assert exit_code(stack.ben, job.name) == 3
    job.await_nothing_left()


def test_a_batch_script_that_is_killed_takes_all_along(stack: Stack) -> None:
    job = launching(stack, f"mpirun -np {RANKS} {WAIT}{AFTER}")
    job.awaits_ranks()

    job.kill(r"^/bin/bash \S+/slurm_script")

    assert end_of(stack.ben, job.name) == "Failed"
    job.await_no_process()
    assert job.count("another") == 0
    for left in scratch():  # Slurm kills at once what would take it away
        shutil.rmtree(left)


def test_a_node_that_is_lost_ends_the_launch_and_the_batch_job_but_counts_as_no_failure(stack: Stack) -> None:
    job = launching(stack, f"mpirun -np {RANKS} {WAIT}{AFTER}", spec={"backoffLimit": 0})
    job.awaits_ranks()
    last, pod = nodes_of(job.batch_job)[-1], pod_of(stack.ben, job.name)["metadata"]["name"]

    with faults.lost(last):
        until(
            lambda: slurm("squeue", "-h", "-j", job.batch_job, "-o", "%T"),
            lambda state: not state.strip(),
            seconds=SECONDS,
        )

    until(lambda: phase_and_reason(stack, pod), lambda found: found == ("Failed", "NodeFailed"), seconds=SECONDS)
    assert not finished(stack.ben.get("job", job.name) or {}), "it is tried again"
    stack.ben.ok("delete", "job", job.name)
    job.await_nothing_left()


def phase_and_reason(stack: Stack, pod: str) -> tuple[str, str]:
    status = (stack.ben.get("pod", pod) or {}).get("status", {})
    return status.get("phase", ""), status.get("reason", "")
