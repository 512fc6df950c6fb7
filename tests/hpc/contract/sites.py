"""The batch systems that the contract is held against: the embedded queue, and what this machine really has.

A real system is asked as a user who is not root: this one, or, for root, the one whom BATCHGATE_CONTRACT_USER names.
Jobs work in a directory of that user's which the nodes see: BATCHGATE_CONTRACT_DIR, else the user's home.
Where root names nobody and the bed is up, its Slurm is asked as the first of its users, in that user's work directory.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from router.agent.batch.commands import BatchCommands
from router.agent.batch.jobs import BatchJobs
from router.agent.metrics import Metrics
from router.host.local import LocalHost
from router.hpc import BatchSystem, Commands, JobReport, Submission, job_name, openpbs, slurm, torque
from tests.local.queue import until

REAL: dict[str, BatchSystem] = {"slurm": slurm, "openpbs": openpbs, "torque": torque}
HOLD = {"slurm": (("scontrol", "hold"), ("scontrol", "release"))}
SECONDS = 90.0


@dataclass(frozen=True)
class Site:
    """One batch system, asked as one user."""

    name: str
    system: BatchSystem
    commands: Commands
    user: str
    work: Path

    unreachable: Callable[[], Commands]
    """Commands that reach no server."""

    def batch(self, commands: Commands | None = None) -> BatchCommands:
        """The agent's own way to tell and ask."""
        return BatchCommands(LocalHost(self.work), self.system, commands or self.commands, self.user, 60, Metrics())

    def seen(self, job_id: str, holds: Callable[[JobReport], bool]) -> JobReport:
        """The job's report once it is so; asked anew each time."""
        jobs = BatchJobs(self.batch())
        reports = until(
            lambda: jobs.details([job_id]), lambda found: job_id in found and holds(found[job_id]), seconds=SECONDS
        )
        return reports[job_id]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command that the Protocol has no need of."""
        argv = self.commands.argv(*words)
        return subprocess.run(argv, cwd=self.work, capture_output=True, text=True, timeout=60, check=False)

    def hold(self, job_id: str) -> None:
        self._ok(*HOLD.get(self.name, (("qhold",), ("qrls",)))[0], job_id)

    def release(self, job_id: str) -> None:
        self._ok(*HOLD.get(self.name, (("qhold",), ("qrls",)))[1], job_id)

    def _ok(self, *words: str) -> None:
        done = self.run(*words)
        assert done.returncode == 0, done

    def submission(self, script: str, *, directives: Sequence[str] = ()) -> Submission:
        """A script in a directory of its own, as the agent would submit it."""
        directory = self.work / uuid.uuid4().hex[:12]
        directory.mkdir()
        path = directory / "script"
        path.touch(mode=0o755)
        mark = "#SBATCH" if self.name == "slurm" else "#PBS"
        head = "".join(f"{mark} {one}\n" for one in (*self._limits(), *directives))
        path.write_text(f"#!/bin/bash\n{head}cd ${{1:-$BATCHGATE_DIR}} || exit 99\n{script}")
        if os.getuid() == 0 and self.name != "local":
            entry = pwd.getpwnam(self.user)
            for one in (directory, path):
                os.chown(one, entry.pw_uid, entry.pw_gid)
        name = job_name("contract", "0123abcd", str(uuid.uuid4()), self.system.NAME_LIMIT)
        return Submission(name, str(path), str(directory), str(directory / "output"))

    def _limits(self) -> tuple[str, ...]:
        return ("--time=5",) if self.name == "slurm" else ("-l walltime=00:05:00",)

    def bad_queue(self) -> tuple[str, ...]:
        return ("--partition=nosuchq",) if self.name == "slurm" else ("-q nosuchq",)
