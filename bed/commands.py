"""Runs commands of the machine, and defines the bed's error.

Shell: starts processes and waits for them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The bed's own search path: a Python of pyenv or of a virtual environment must not run Debian's scripts."""

_SECONDS: Final = 900
"""Time limit of a command: long, as a busy machine unpacks packages slowly. Logs show a hanging command sooner."""
_PAUSE: Final = 0.1
_LAST_LINES: Final = 15


class BedError(Exception):
    """The bed cannot be made or ended. One or a few sentences: what is wrong, where, what to do."""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a command of the bed, independent of the caller's."""
    return {
        "PATH": PATH,
        "LC_ALL": "C.UTF-8",
        "HOME": "/root",
        "DEBIAN_FRONTEND": "noninteractive",
        **(extra or {}),
    }


def run(
    argv: Sequence[str | Path], *, stdin: str = "", cwd: Path | None = None, extra: Mapping[str, str] | None = None
) -> str:
    """Run a command to its end.

    :param extra: variables beside those of ``environment``
    :return: its standard output
    :raises BedError: it failed, is missing, or ran longer than 900 s; with the last lines of its output
    """
    done = attempt(argv, stdin=stdin, cwd=cwd, extra=extra)
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-_LAST_LINES:])
        raise BedError(f"{' '.join(map(str, argv))}: exit code {done.returncode}: {said or 'it said nothing'}")
    return done.stdout


def attempt(
    argv: Sequence[str | Path], *, stdin: str = "", cwd: Path | None = None, extra: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; the caller judges its exit code.

    :raises BedError: the command is missing, or has not ended in time
    """
    words = [str(word) for word in argv]
    try:
        return subprocess.run(
            words,
            input=stdin,
            cwd=cwd,
            env=environment(extra),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_SECONDS,
        )
    except FileNotFoundError as error:
        raise BedError(f"{words[0]} is not there: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise BedError(f"{' '.join(words)} has not ended within {_SECONDS} s") from None


def start(argv: Sequence[str | Path], log: Path, extra: Mapping[str, str] | None = None) -> int:
    """Start a daemon that stays in the foreground, in a session of its own; its output is appended to ``log``.

    :return: its process id
    """
    with log.open("ab") as stream, Path(os.devnull).open("rb") as nothing:
        # Reset, as a daemon would inherit the signals that this process ignores.
        return os.posix_spawnp(
            "env",
            ["env", "--chdir=/", *(str(word) for word in argv)],
            environment(extra),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, nothing.fileno(), 0),
                (os.POSIX_SPAWN_DUP2, stream.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, stream.fileno(), 2),
            ],
            setsid=True,
            setsigdef=[signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD],
        )


def wait(holds: Callable[[], bool], seconds: float, problem: Callable[[], str]) -> None:
    """Wait until ``holds`` returns True.

    :raises BedError: it does not within ``seconds``; with the text of ``problem``
    """
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            raise BedError(f"{problem()} (waited {seconds:.0f} s)")
        time.sleep(_PAUSE)


def is_root() -> bool:
    """Whether this process runs as root, as the bed needs."""
    return os.geteuid() == 0
