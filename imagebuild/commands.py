"""Runs commands of the machine, and defines the error of a build.

Shell: starts processes and waits for them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

SECONDS: Final = 3600
"""Time limit of a command: a busy machine with a slow network takes half an hour for the first build."""
_LAST_LINES: Final = 15


class BuildError(Exception):
    """The image cannot be built. One or a few sentences: what is wrong, where, what to do."""


def run(argv: Sequence[str | Path], *, stdin: str = "", seconds: float = SECONDS) -> str:
    """Run a command to its end.

    :return: its standard output
    :raises BuildError: it failed, is missing, or ran longer; with the last lines of its output
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, input=stdin, capture_output=True, text=True, errors="replace", check=False, timeout=seconds
        )
    except FileNotFoundError as error:
        raise BuildError(f"{words[0]} is not there: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise BuildError(f"{' '.join(words)} has not ended within {seconds:.0f} s") from None
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-_LAST_LINES:])
        raise BuildError(f"{' '.join(words)}: exit code {done.returncode}: {said or 'it said nothing'}")
    return done.stdout


def succeeds(argv: Sequence[str | Path], seconds: float = SECONDS) -> bool:
    """Whether a command is there and ends with exit code 0."""
    try:
        run(argv, seconds=seconds)
    except BuildError:
        return False
    return True
