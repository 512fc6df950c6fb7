"""Containers that the runtime cannot start, and batch jobs that never begin, on Slurm: what kubectl shows of them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply, end_of, job, pod_of
from tests.agent.bed.site import LAYOUT, SUDO
from tests.agent.whole.jobs import LABEL, finished
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(900)]
NOT_FOUND = '"no-such-program": executable file not found in $PATH'


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    with reached(cluster, SUDO) as found:
        yield found


def test_an_image_without_the_command(stack: Stack) -> None:
    made = job("")
    made["spec"]["template"]["spec"]["containers"][0]["command"] = ["no-such-program", "x"]
    name = apply(stack.ada, made)

    assert end_of(stack.ada, name) == "Failed"

    ended = pod_of(stack.ada, name)["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended.get("message")) == (127, "CreateContainerError", NOT_FOUND)
    described = stack.ada.ok("describe", "pods", "-l", f"job-name={name}")
    assert "CreateContainerError" in described
    assert NOT_FOUND in described


def test_a_program_that_ends_with_the_runtime_s_code(stack: Stack) -> None:
    name = apply(stack.ada, job("echo 'FATAL:   permission denied' >&2; exit 255"))

    assert end_of(stack.ada, name) == "Failed"

    ended = pod_of(stack.ada, name)["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended.get("message")) == (255, "Error", None)


@contextlib.contextmanager
def script_lost(name: str) -> Iterator[list[Path]]:
    """Within the block the first script of a Job's batch jobs is gone before slurmd starts it; the scripts that are gone.

    slurmd itself deletes one under load now and then (``_handle_stray_script``).
    """
    lost: list[Path] = []
    over = threading.Event()

    def look() -> None:
        while not (lost or over.is_set()):
            for script in LAYOUT.state.glob("slurmd/*/job*/slurm_script"):
                with contextlib.suppress(FileNotFoundError):
                    if f": default/{name} ---" in script.read_text():
                        script.unlink()
                        lost.append(script)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lost
    finally:
        over.set()
        thread.join()


def test_a_batch_job_whose_script_never_began_is_tried_again(stack: Stack) -> None:
    """Nothing of it has run, so it does not count as the one try that the Job allows."""
    made = job("echo ran", backoffLimit=0)
    name = made["metadata"]["name"]
    with script_lost(name) as lost:
        apply(stack.ada, made)
        until(lambda: lost, seconds=SECONDS, what="a script that is gone")

    assert until(lambda: finished(stack.ada.get("job", name) or {}), seconds=SECONDS) == "Complete"
    pods = sorted(stack.ada.every("pods", f"{LABEL}={name}"), key=lambda pod: pod["metadata"]["creationTimestamp"])
    assert [pod["status"]["phase"] for pod in pods] == ["Failed", "Succeeded"]
    first = pods[0]["status"]
    assert first["reason"] == "JobFailed"
    assert (
        "ended before any container had started (exit code 2): NonZeroExitCode; its output ends: " in first["message"]
    )
    assert f"{lost[0]}: No such file or directory" in first["message"]
    [condition] = [one for one in first["conditions"] if one["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["message"]) == ("True", first["message"])
