"""Starts and ends a plane's processes through the keeper.

Shell: one socket to ``router.controlplane.keeper``, files of log lines.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from router.errors import ConfigError

TAIL_LINES: Final = 15
END_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 60.0


class Keeper:
    """The owner's end of the keeper's socket; safe to use from several threads."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self._process = process
        self._connection = connection
        self._stream = connection.makefile("rb")
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """The keeper's own process id."""
        return self._process.pid

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send one request; returns the answer. Raises ConfigError if the keeper has ended or refuses."""
        with self._lock:
            try:
                self._connection.sendall(json.dumps(request).encode() + b"\n")
                line = self._stream.readline()
            except OSError:
                line = b""
        if not line:
            raise ConfigError("the control plane's keeper has ended, and with it the whole plane")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ConfigError(answer["error"])
        return answer

    def close(self) -> None:
        """End everything and wait for the end; has no effect on a detached keeper."""
        self._stream.close()
        self._connection.close()
        self._process.wait(_STOP_SECONDS)

    def leave(self, again: Sequence[Component] = ()) -> None:
        """Let the keeper go on without this process, until SIGTERM.

        :param again: components that it restarts about a second after they have ended
        """
        self.ask(do="detach", again=[component.pid for component in again])
        self._stream.close()
        self._connection.close()
        # This process no longer waits for the keeper; without a return code Popen would warn.
        self._process.returncode = 0


def start_keeper(log: Path) -> Keeper:
    """Start a keeper for this process, in a session of its own so that a terminal's Ctrl-C does not reach it."""
    ours, theirs = socket.socketpair()
    with theirs, log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "router.controlplane.keeper", str(theirs.fileno()), str(os.getpid())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
        )
    return Keeper(process, ours)


@dataclass(slots=True)
class Component:
    """One program with its arguments; ``pid`` is 0 while it does not run."""

    name: str
    argv: Sequence[str]
    directory: Path
    env: Mapping[str, str]
    keeper: Keeper
    grace: float = 0.0
    """Seconds from SIGTERM to its end when everything ends; 0 if SIGKILL does no harm."""
    pid: int = 0

    @property
    def log(self) -> Path:
        """The file of its output; a second start appends."""
        return self.directory / f"{self.name}.log"

    @property
    def running(self) -> bool:
        """Whether it has been started and has not ended."""
        return bool(self.pid) and self.exit_code() is None

    def start(self) -> None:
        """Start the component. Raises ConfigError if the program cannot be run."""
        if self.running:
            raise ConfigError(f"{self.name} runs already")
        answer = self.keeper.ask(
            do="start",
            argv=list(self.argv),
            env=dict(self.env),
            log=str(self.log),
            cwd=str(self.directory),
            grace=self.grace,
        )
        self.pid = answer["pid"]

    def exit_code(self) -> int | None:
        """The exit code: None while it runs, minus the signal's number if a signal ended it."""
        code: int | None = self.keeper.ask(do="poll", pid=self.pid)["code"]
        return code

    def end(self, number: int = signal.SIGTERM, seconds: float = END_SECONDS) -> int:
        """Send a signal and wait, then SIGKILL if needed. Returns the exit code, or minus the signal's number."""
        code: int = self.keeper.ask(do="end", pid=self.pid, signal=int(number), seconds=seconds)["code"]
        return code

    def tail(self) -> str:
        """The last lines of its log, for an error message."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            lines = []
        return "\n".join(f"  {line}" for line in lines[-TAIL_LINES:]) or "  (nothing)"
