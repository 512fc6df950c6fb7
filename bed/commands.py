"""Running a command of the machine, and the one error of the bed.

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
"""The bed's own: a Python of pyenv or of a virtual environment that stands first must not run Debian's scripts."""

_SECONDS: Final = 900
"""Long: a busy machine unpacks packages slowly, and what hangs shows sooner in its log."""
_PAUSE: Final = 0.1
_LAST_LINES: Final = 15


class BedError(Exception):
    """The bed cannot be made, or not ended. One or a few sentences: what is wrong, where, what to do."""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a command of the bed gets: nothing of the caller's but what it needs."""
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
    :raises BedError: it failed, is not there, or has not ended within 900 s; with the last lines of what it said
    """
    done = attempt(argv, stdin=stdin, cwd=cwd, extra=extra)
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-_LAST_LINES:])
        raise BedError(f"{' '.join(map(str, argv))}: exit code {done.returncode}: {said or 'it said nothing'}")
    return done.stdout


def attempt(
    argv: Sequence[str | Path], *, stdin: str = "", cwd: Path | None = None, extra: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """As ``run``, but a failure is the caller's to judge.

    :raises BedError: the command is not there, or has not ended in time
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
        # What this process ignores, a daemon would too.
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
    """Return as soon as ``holds`` does.

    :raises BedError: it does not within ``seconds``; with what ``problem`` says then
    """
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            raise BedError(f"{problem()} (waited {seconds:.0f} s)")
        time.sleep(_PAUSE)


def is_root() -> bool:
    """Whether this process may do what the bed needs."""
    return os.geteuid() == 0
