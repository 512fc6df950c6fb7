"""kubectl exec and cp into containers that a real Slurm runs, in each way in which users' accounts are reached."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply, is_running, job, job_id, pod_of, processes
from tests.agent.bed.site import ADA, LOCAL, LOCAL_SUDO, OWN_KEYS, SUDO, BedSite
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(1200)]


class Open(BedSite):
    """The bed, whose containers users may enter."""

    def documents(self) -> dict[str, Any]:
        found = super().documents()
        found["sites.yaml"]["sites"][0]["exec"] = True
        return found


@pytest.fixture(scope="module", params=[OWN_KEYS, SUDO, LOCAL_SUDO, LOCAL])
def stack(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Stack]:
    with reached(cluster, request.param, kind=Open) as found:
        yield found


@pytest.fixture
def pod(stack: Stack) -> Iterator[str]:
    name = apply(stack.ada, job("trap 'exit 0' TERM; while :; do sleep 1; done"))
    until(lambda: is_running(stack.ada, name), seconds=SECONDS, what="for the container to run")
    yield pod_of(stack.ada, name)["metadata"]["name"]
    stack.ada.ok("delete", "job", name)


def test_commands_and_files(stack: Stack, pod: str, tmp_path: Path) -> None:
    ran = stack.ada.run("exec", pod, "--", "sh", "-c", "id -un; hostname; echo wrong >&2; exit 7")
    assert (ran.rc, ran.out.splitlines(), ran.err) == (
        7, [ADA, pod], "wrong\ncommand terminated with exit code 7\n"
    )  # fmt: skip
    assert stack.ada.ok("exec", "-i", pod, "--", "wc", "-c", stdin="x" * 3_000_000).strip() == "3000000"

    there, back = tmp_path / "there", tmp_path / "back"
    there.write_bytes(os.urandom(20 << 20))
    stack.ada.ok("cp", str(there), f"{pod}:/tmp/copy")
    stack.ada.ok("cp", f"{pod}:/tmp/copy", str(back))
    assert hashlib.sha256(back.read_bytes()).digest() == hashlib.sha256(there.read_bytes()).digest()


def test_a_client_that_leaves_leaves_nothing(stack: Stack, pod: str) -> None:
    with stack.ada.start("exec", pod, "--", "sh", "-c", "trap '' HUP; sleep 98765"):
        until(lambda: [line for line in processes(ADA, "98765") if "srun" not in line], seconds=60)

    until(lambda: not processes(ADA, "98765"), seconds=60, what="for the end of the command")
    until(lambda: not processes(ADA, "srun"), seconds=60, what="for the end of srun")
    assert stack.ada.ok("exec", pod, "--", "echo", "again") == "again\n"


def test_a_command_ends_with_its_job(stack: Stack, pod: str) -> None:
    with stack.ada.start("exec", pod, "--", "sleep", "98764") as command:
        until(lambda: [line for line in processes(ADA, "98764") if "srun" not in line], seconds=60)
        subprocess.run(["scancel", job_id(stack.ada, pod.rpartition("-")[0])], check=True)

        command.communicate(timeout=120)
    assert command.returncode != 0
    until(lambda: not processes(ADA, "98764"), seconds=60, what="for the end of the command")
