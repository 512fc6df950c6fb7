"""From a command to the embedded queue's daemon, which is started when none answers.

Shell: one request, one answer over a unix socket.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from router.errors import ConfigError
from router.local.state import State

_START_SECONDS: Final = 20.0
_PAUSE: Final = 0.01
_BLOCK: Final = 1 << 16


class NotServed(Exception):
    """No daemon serves the directory."""


def ask(state: State, request: dict[str, Any]) -> dict[str, Any]:
    """The daemon's answer; a daemon is started where there is none. ConfigError where none can be."""
    state.make()
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return ask_running(state, request)
        except NotServed:
            _start(state)
        if time.monotonic() > deadline:
            raise ConfigError(f"{state.root}: the embedded queue does not answer; see {state.log}")
        time.sleep(_PAUSE)  # only while another command's daemon is about to serve, or one is about to end


def ask_running(state: State, request: dict[str, Any]) -> dict[str, Any]:
    """The answer of a daemon that serves already. NotServed where there is none, or it ended meanwhile."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            with _short_path(state.socket) as path:
                connection.connect(path)
            connection.sendall(json.dumps(request).encode() + b"\n")
        except (FileNotFoundError, ConnectionError) as error:
            raise NotServed from error
        received = bytearray()
        while block := connection.recv(_BLOCK):
            received += block
    if not received.endswith(b"\n"):
        raise NotServed
    answer: dict[str, Any] = json.loads(received)
    return answer


@contextlib.contextmanager
def _short_path(path: Path) -> Iterator[str]:
    """A name for a socket in a directory whose own name is too long for sun_path (108 bytes)."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def _start(state: State) -> None:
    """Start a daemon and wait until it serves, or has seen that another one does. ConfigError with its words."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as words, state.log.open("a") as log:
        subprocess.Popen(
            [sys.executable, "-m", "router.local", "serve", str(state.root), str(writing)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[writing], start_new_session=True,
            cwd=Path(__file__).parent.parent.parent,
        )  # fmt: skip
        os.close(writing)
        said = words.read().strip()
    if said not in {"", "ready"}:
        raise ConfigError(said)


def wait_for_end(state: State) -> None:
    """Return when no daemon holds the directory any more."""
    with contextlib.suppress(FileNotFoundError), state.lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
