"""kubectl exec, attach and cp into containers that a real OpenPBS or TORQUE runs, over ssh to the node of the job."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.bed.jobs import SECONDS, apply, is_running, job_id, pod_of, processes
from tests.agent.pbs import server
from tests.agent.pbs.conftest import Cluster, Stack, attended
from tests.agent.pbs.jobs import counted
from tests.agent.pbs.site import ADA, as_user
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.pbs, pytest.mark.apptainer, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def attending(cluster: Cluster) -> Iterator[Stack]:
    """An agent whose site lets users in over ssh."""
    for host in server.hosts():
        words = ["ssh", "-oBatchMode=yes", "-oStrictHostKeyChecking=yes", host, "true"]
        done = subprocess.run([*as_user(ADA), *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"{ADA} does not come to {host} by ssh: {done.stderr.strip()[-200:]}")
    with attended(cluster, named={"site": {"exec": "ssh"}}) as found:
        yield found


@pytest.fixture
def pod(attending: Stack) -> Iterator[str]:
    name = apply(attending.ada, counted("trap 'exit 0' TERM; while :; do echo tick; sleep 1; done"))
    until(lambda: is_running(attending.ada, name), seconds=SECONDS, what="for the container to run")
    yield pod_of(attending.ada, name)["metadata"]["name"]
    attending.ada.ok("delete", "job", name)


def test_commands_and_files(attending: Stack, pod: str, tmp_path: Path) -> None:
    ada = attending.ada
    ran = ada.run("exec", pod, "--", "sh", "-c", "id -un; hostname; echo wrong >&2; exit 7")
    assert (ran.rc, ran.out.splitlines(), ran.err) == (
        7, [ADA, pod], "wrong\ncommand terminated with exit code 7\n"
    )  # fmt: skip
    assert ada.ok("exec", "-i", pod, "--", "wc", "-c", stdin="x" * 3_000_000).strip() == "3000000"

    there, back = tmp_path / "there", tmp_path / "back"
    there.write_bytes(os.urandom(20 << 20))
    ada.ok("cp", str(there), f"{pod}:/tmp/copy")
    ada.ok("cp", f"{pod}:/tmp/copy", str(back))
    assert hashlib.sha256(back.read_bytes()).digest() == hashlib.sha256(there.read_bytes()).digest()


def test_what_a_container_prints_is_shown(attending: Stack, pod: str) -> None:
    with attending.ada.start("attach", pod) as command:
        assert command.stdout is not None
        line = next((line for line in command.stdout if line == "tick\n"), "")

    assert line


def test_a_client_that_leaves_leaves_nothing(attending: Stack, pod: str) -> None:
    with attending.ada.start("exec", pod, "--", "sh", "-c", "trap '' HUP; sleep 98765"):
        until(lambda: processes(ADA, "98765"), seconds=60)

    until(lambda: not processes(ADA, "98765"), seconds=60, what="for the end of the command")
    until(lambda: not processes(ADA, "/inside"), seconds=60, what="for the end of ssh")
    assert attending.ada.ok("exec", pod, "--", "echo", "again") == "again\n"


def test_a_command_ends_with_its_job(attending: Stack, pod: str) -> None:
    with attending.ada.start("exec", pod, "--", "sleep", "98764") as command:
        until(lambda: processes(ADA, "98764"), seconds=60)
        server.ok("qdel", job_id(attending.ada, pod.rpartition("-")[0]))

        command.communicate(timeout=120)
    assert command.returncode != 0
    until(lambda: not processes(ADA, "98764"), seconds=60, what="for the end of the command")
