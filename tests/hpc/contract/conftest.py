"""One site a test: the embedded queue always, a real batch system where its commands answer."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bed import daemons, standing
from bed.commands import BedError
from bed.layout import USERS
from router.agent.batch.jobs import BatchJobs
from router.hpc import Commands, local
from tests.hpc.contract.sites import REAL, Site
from tests.local.queue import EmbeddedQueue

VERSIONS = {"slurm": ("sbatch", "Slurm|slurm"), "openpbs": ("qstat", "pbs_version"), "torque": ("qstat", "Version:")}


@pytest.fixture(
    params=[
        "local",
        pytest.param("slurm", marks=pytest.mark.slurm),
        pytest.param("openpbs", marks=pytest.mark.pbs),
        pytest.param("torque", marks=pytest.mark.pbs),
    ]
)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    name: str = request.param
    yield from embedded(tmp_path) if name == "local" else real(name)


def embedded(directory: Path) -> Iterator[Site]:
    queue = EmbeddedQueue(directory / "queue", directory / "work")
    queue.work.mkdir()
    queue.define({"name": "workq", "nodes": 2, "cpusPerNode": 4, "memory": "8gb"})
    commands = local.commands_of(str(queue.directory), (sys.executable, "-m", "router.local"))

    def unreachable() -> Commands:
        queue.ok("faults", "unreachable=on")
        return commands

    user = pwd.getpwuid(os.getuid()).pw_name
    yield Site("local", local, commands, user, queue.work, unreachable)
    ignoring = replace(queue, environment={"BATCHGATE_LOCAL_FAULTS": "ignore"})
    ignoring.run("faults", "none")
    ignoring.run("stop", "--delete")


def real(name: str) -> Iterator[Site]:
    system = REAL[name]
    user, place = asking(name)
    program, word = VERSIONS[name]
    if not answers(system.DEFAULT, program, word):
        pytest.skip(f"no {name} here: {program} --version")
    if not user:
        pytest.skip(f"{name}: as root, name a user in BATCHGATE_CONTRACT_USER")
    prefix = ("/usr/sbin/runuser", "-u", user, "--") if os.getuid() == 0 else ()
    commands = replace(system.DEFAULT, prefix=prefix)
    work = (place or Path(pwd.getpwnam(user).pw_dir)) / f"contract-{uuid.uuid4().hex[:8]}"
    work.mkdir()
    if os.getuid() == 0:
        shutil.chown(work, user)

    def unreachable() -> Commands:
        if name != "slurm":
            # A job's id names its server, so that another default server would change nothing for it.
            if os.getuid() != 0:
                pytest.skip(f"{name}: only root can take the network from a command")
            return replace(commands, prefix=("/usr/bin/unshare", "-n", *prefix))
        configuration = work / "slurm.conf"
        configuration.write_text(
            "ClusterName=nowhere\nSlurmctldHost=localhost\nSlurmctldPort=1\nMessageTimeout=2\nSlurmctldTimeout=2\n"
        )
        configuration.chmod(0o644)
        return replace(commands, environment=(*commands.environment, ("SLURM_CONF", str(configuration))))

    found = Site(name, system, commands, user, work, unreachable)
    yield found
    batch = found.batch()
    batch.cancel(list(BatchJobs(batch).listed().states))
    shutil.rmtree(work, ignore_errors=True)


def asking(name: str) -> tuple[str, Path | None]:
    """Who asks a real system, and in which directory; None for the home. Empty where root is to say it and did not."""
    place = os.environ.get("BATCHGATE_CONTRACT_DIR")
    if os.getuid() != 0:
        return pwd.getpwuid(os.getuid()).pw_name, Path(place) if place else None
    if user := os.environ.get("BATCHGATE_CONTRACT_USER"):
        return user, Path(place) if place else None
    found = standing.layout()
    with contextlib.suppress(BedError):
        standing.variant(found)
        if name == "slurm" and daemons.running(found, daemons.controller()):
            return USERS[0], found.work / USERS[0]
    return "", None


def answers(commands: Commands, program: str, word: str) -> bool:
    """Whether a program says that it is of this batch system. Debian's qstat over Slurm says nothing of the kind."""
    path = dict(commands.environment)["PATH"]
    if shutil.which(program, path=path) is None:
        return False
    done = subprocess.run(commands.argv(program, "--version"), capture_output=True, text=True, timeout=60, check=False)
    return any(one in done.stdout + done.stderr for one in word.split("|"))
