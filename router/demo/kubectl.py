"""Runs kubectl as a user would type it, and shows its output.

Shell: one process per command.
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
    """Runs kubectl with one user's credentials. Relative paths in its words refer to the working directory."""

    program: str
    kubeconfig: Path

    def run(self, *words: str, stdin: str = "", seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
        """Run one command; any exit code is accepted. Raises ConfigError if it does not end in time."""
        argv = [self.program, f"--kubeconfig={self.kubeconfig}", *words]
        try:
            return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=seconds)
        except subprocess.TimeoutExpired as error:
            raise ConfigError(f"kubectl {' '.join(words)}: gave no answer within {seconds:g} seconds") from error

    def show(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command and show what a user would see: its words, and both outputs."""
        click.echo(f"$ kubectl {' '.join(words)}")
        done = self.run(*words)
        click.echo("".join(f"  {line}\n" for line in _lines(done)), nl=False)
        return done

    def demand(self, *words: str, stdin: str = "", seconds: float = SECONDS) -> str:
        """Standard output of a command that must succeed. Raises ConfigError with its error if it fails."""
        done = self.run(*words, stdin=stdin, seconds=seconds)
        if done.returncode:
            raise ConfigError(f"kubectl {' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def items(self, kind: str, *words: str) -> list[dict[str, Any]]:
        """The objects of a kind. Raises ConfigError as ``demand`` does."""
        found: list[dict[str, Any]] = json.loads(self.demand("get", kind, "-o", "json", *words))["items"]
        return found


def _lines(done: subprocess.CompletedProcess[str]) -> Iterator[str]:
    # kubectl writes warnings to stderr; here they come before the objects that they are about.
    yield from done.stderr.splitlines()
    yield from done.stdout.splitlines()
