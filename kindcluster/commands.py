"""Runs commands of the machine, times the steps that they are part of, and defines this package's error.

Shell: starts processes and waits for them. They have the caller's environment, as Docker's contexts and proxies are in it.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

Tell = Callable[[str], None]

SECONDS: Final = 1200.0
"""Time limit of a command: long, as a busy machine unpacks packages slowly."""
_LAST_LINES: Final = 15


class KindError(Exception):
    """The cluster cannot be made, used or ended. What is wrong, where, and what to do."""


def run(
    argv: Sequence[str | Path],
    *,
    stdin: str = "",
    extra: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
) -> str:
    """Run a command to its end.

    :param extra: variables beside those of this process
    :return: its standard output
    :raises KindError: it failed, is missing, or ran longer than ``seconds``; with the last lines of its output
    """
    done = attempt(argv, stdin=stdin, extra=extra, seconds=seconds)
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-_LAST_LINES:])
        raise KindError(f"{' '.join(map(str, argv))}: exit code {done.returncode}: {said or 'it said nothing'}")
    return done.stdout


def attempt(
    argv: Sequence[str | Path],
    *,
    stdin: str = "",
    extra: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; the caller judges its exit code.

    :raises KindError: the command is missing, or has not ended in time
    """
    words = [str(word) for word in argv]
    try:
        return subprocess.run(
            words,
            input=stdin,
            env={**os.environ, **(extra or {})},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=seconds,
        )
    except FileNotFoundError as error:
        raise KindError(f"{words[0]} is not there: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise KindError(f"{' '.join(words)} has not ended within {seconds:.0f} s") from None


@contextmanager
def step(tell: Tell, sentence: str) -> Iterator[None]:
    """Tell what begins, and at its end how many seconds it took; a step that fails is ended by its error alone."""
    began = time.monotonic()
    tell(sentence)
    yield
    tell(f"  {time.monotonic() - began:.0f} s")
