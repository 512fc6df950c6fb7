"""Jobs whose text starts ranks over two nodes, and what is seen of their launches from outside."""

from __future__ import annotations

import os
import pwd
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bed.daemons import node_tmp
from bed.layout import NODES
from tests.agent.bed.conftest import Stack
from tests.agent.bed.jobs import SECONDS, apply, job_id
from tests.agent.bed.site import BEN, LAYOUT, TALLY
from tests.agent.bed.tally import await_empty
from tests.agent.bed.test_mpi import commands_of, mpi, work_of
from tests.agent.whole.waiting import until

RANKS = 4
WAIT = "ranks -w /no/such/file"
"""Ranks that wait until they are ended."""
COVER, LAUNCHER, RANK, DAEMON = (
    r"^/bin/sh /usr/bin/\S*(mpirun|orterun) ",
    r"^/usr/bin/mpirun .*launches/\d+/rank$",
    r"^(/usr/local/bin/)?(ranks|ring)\b",
    r"orted -mca",
)
"""What the command lines of a launch's parts look like."""


@dataclass(frozen=True)
class Launching:
    """A Job that was applied, with the file that its text and its ranks write to."""

    stack: Stack
    name: str

    @property
    def lines(self) -> list[str]:
        file = TALLY / self.name
        return file.read_text().splitlines() if file.exists() else []

    def count(self, pattern: str) -> int:
        """Lines that this pattern matches at their start."""
        return sum(re.match(pattern, line) is not None for line in self.lines)

    def awaits(self, pattern: str, count: int = 1) -> None:
        until(lambda: self.count(pattern), lambda found: found >= count, seconds=SECONDS, what=f"for {pattern}")

    def awaits_ranks(self) -> None:
        self.awaits(r"rank=\d size", RANKS)

    @property
    def batch_job(self) -> str:
        return job_id(self.stack.ben, self.name)

    def directory(self) -> Path:
        """The Pod's, while Slurm knows the job."""
        return work_of(self.batch_job)

    def kill(self, pattern: str) -> None:
        """SIGKILL for one of the processes that look so."""
        found = those(pattern)
        assert found, f"no process is like {pattern}: {commands_of(BEN)}"
        os.kill(found[0], signal.SIGKILL)

    def await_nothing_left(self) -> None:
        """Until no process of the user, and nothing in a node's /tmp, is left."""
        self.await_no_process()
        assert scratch() == []

    def await_no_process(self) -> None:
        """Until Slurm has no job and no process of the user is left on any node."""
        await_empty(self.name)
        until(lambda: commands_of(BEN), lambda found: not found, seconds=SECONDS, what="for the end of processes")


def launching(stack: Stack, text: str, *, grace: int = 30, spec: Mapping[str, Any] | None = None) -> Launching:
    """Apply a Job with this text over two nodes, all of whose output goes to the tally."""
    made = mpi("mpirun", "", cpus=RANKS, nodes=2, terminationGracePeriodSeconds=grace)
    made["spec"].update(spec or {})
    made["metadata"]["annotations"]["batchgate.dev/ranks"] = str(RANKS)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["command"] = ["bash", "-c", f"exec >>{TALLY / made['metadata']['name']} 2>&1\n{text}"]
    container["resources"]["requests"]["memory"] = f"{RANKS * 300}Mi"
    return Launching(stack, apply(stack.ben, made))


def those(pattern: str) -> list[int]:
    """The user's processes whose command lines look so."""
    return [
        pid for pid, words in commands_of(BEN).items() if re.search(pattern, words) and not words.startswith("srun")
    ]


def scratch() -> list[Path]:
    """What the user's scripts and ranks have made in the /tmp of the nodes and not removed."""
    uid = pwd.getpwnam(BEN).pw_uid
    found = [path for node in NODES for path in node_tmp(LAYOUT, node).glob("batchgate.*")]
    return [path for path in found if path.exists() and path.stat().st_uid == uid]
