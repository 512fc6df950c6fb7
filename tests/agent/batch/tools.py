"""The commands of a batch system as little programs: they note how they were called and print what they are told to."""

from __future__ import annotations

from pathlib import Path

from router.agent.batch.commands import BatchCommands
from router.agent.batch.jobs import BatchJobs
from router.agent.metrics import Metrics
from router.host.local import LocalHost
from router.hpc import BatchSystem, Commands

INVALID = "slurm_load_jobs error: Invalid job id specified"


class Tools:
    """Programs of one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.words = ""
        """All that was called until ``called`` was last asked."""
        self._answers: dict[tuple[str, str], str] = {}
        self._count = 0
        self.commands = Commands((("PATH", f"{directory}:/usr/bin:/bin"),))

    def says(self, name: str, stdout: str = "", *, stderr: str = "", rc: int = 0, option: str = "") -> None:
        """What a program answers; with an option, only where that is among its words."""
        self._count += 1  # a program that runs goes on with the answer that it has begun
        output = self.directory / f"{name}.{self._count}.out"
        output.write_text(stdout)
        answer = f"cat '{output}'; printf %s '{stderr}' >&2; exit {rc}"
        self._answers[name, option] = answer
        cases = [
            f'case " $* " in *" {word} "*) {told};; esac'
            for (of, word), told in self._answers.items()
            if of == name and word
        ]
        usual = self._answers.get((name, ""), "exit 99")
        new = self.directory / f"{name}.new"
        new.write_text("\n".join(["#!/bin/sh", f'echo "{name} $*" >>"{self.log}"', *cases, usual, ""]))
        new.chmod(0o755)
        new.replace(self.directory / name)

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def called(self) -> list[str]:
        """The programs that were called since the last time, in their order."""
        text = self.log.read_text() if self.log.exists() else ""
        self.log.unlink(missing_ok=True)
        self.words += text
        return [line.split()[0] for line in text.split("\n")[:-1]]

    def batch(
        self,
        system: BatchSystem,
        *,
        user: str = "ada",
        metrics: Metrics | None = None,
        observes: bool = False,
    ) -> BatchCommands:
        host = LocalHost(self.directory)
        return BatchCommands(host, system, self.commands, user, 30, metrics or Metrics(), observes)

    def jobs(
        self,
        system: BatchSystem,
        *,
        user: str = "ada",
        metrics: Metrics | None = None,
        observes: bool = False,
    ) -> BatchJobs:
        return BatchJobs(self.batch(system, user=user, metrics=metrics, observes=observes))
