"""kubectl as a user types it, with its own output shown.

Shell: one process a command.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from router.errors import ConfigError

SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with somebody's credentials. Relative paths in its words are those of the working directory."""

    program: str
    kubeconfig: Path

    def run(self, *words: str, stdin: str = "", seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
        """One command, whatever its exit code. ConfigError where it did not end in time."""
        argv = [self.program, f"--kubeconfig={self.kubeconfig}", *words]
        try:
            return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=seconds)
        except subprocess.TimeoutExpired as error:
            raise ConfigError(f"kubectl {' '.join(words)}: gave no answer within {seconds:g} seconds") from error

    def show(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command with what a user would see of it: the words, and both outputs."""
        click.echo(f"$ kubectl {' '.join(words)}")
        done = self.run(*words)
        click.echo("".join(f"  {line}\n" for line in _lines(done)), nl=False)
        return done

    def demand(self, *words: str, stdin: str = "", seconds: float = SECONDS) -> str:
        """Standard output of a command that must succeed. ConfigError with its words where it does not."""
        done = self.run(*words, stdin=stdin, seconds=seconds)
        if done.returncode:
            raise ConfigError(f"kubectl {' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def items(self, kind: str, *words: str) -> list[dict[str, Any]]:
        """Objects of a kind. ConfigError as for ``demand``."""
        found: list[dict[str, Any]] = json.loads(self.demand("get", kind, "-o", "json", *words))["items"]
        return found


def _lines(done: subprocess.CompletedProcess[str]) -> Iterator[str]:
    # Warnings come before what they are about; kubectl writes the two to different outputs.
    yield from done.stderr.splitlines()
    yield from done.stdout.splitlines()
