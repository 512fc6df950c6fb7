"""Sends a command's request to the embedded queue's daemon, and starts the daemon if none answers.

Shell: one request and one answer over a unix socket. Each ``qsub`` is a process of its own, so this module has few
imports; slow ones are made where they are used.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

VARIABLE = "BATCHGATE_LOCAL"
_START_SECONDS = 20.0
_PAUSE = 0.01
_BLOCK = 1 << 16
_PRIVATE = 0o700


class NotServed(Exception):
    """No daemon serves the directory."""


class Unusable(Exception):
    """No daemon can be started for the directory; the text says why."""


def default_directory() -> str:
    """``$BATCHGATE_LOCAL``, else ``batchgate/local`` in the user's state directory (XDG base directories)."""
    named = os.environ.get(VARIABLE)
    if named:
        return os.path.abspath(named)  # noqa: PTH100 - pathlib takes longer to import than all of this module
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - as above
    return f"{base}/batchgate/local"


def program() -> tuple[str, ...]:
    """The fastest command to put before ``qsub``: runs OpenPBS' commands and the daemon without site-packages."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - as above
    return (sys.executable, "-I", "-S", f"{here}/pbs.py")


def ask(root: str, request: dict[str, object]) -> dict[str, object]:
    """The daemon's answer; starts a daemon if there is none. Raises Unusable if that fails."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return ask_running(root, request)
        except NotServed:
            _start(root)
        if time.monotonic() > deadline:
            raise Unusable(f"{root}: the embedded queue does not answer; see {root}/log")
        time.sleep(_PAUSE)  # only while a daemon of another command is starting, or one is ending


def ask_running(root: str, request: dict[str, object]) -> dict[str, object]:
    """The answer of a running daemon. Raises NotServed if there is none, or if it ends meanwhile."""
    received = bytearray()
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            _connect(connection, root)
            connection.sendall(json.dumps(request).encode() + b"\n")
            while block := connection.recv(_BLOCK):
                received += block
        except (FileNotFoundError, NotADirectoryError, ConnectionError) as error:
            raise NotServed from error
    if not received.endswith(b"\n"):
        raise NotServed
    answer: dict[str, object] = json.loads(received)
    return answer


def _connect(connection: socket.socket, root: str) -> None:
    """Connect by a short path, as the directory's path may be too long for sun_path (108 bytes)."""
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        connection.connect(f"/proc/self/fd/{directory}/socket")
    finally:
        os.close(directory)


def _start(root: str) -> None:
    """Start a daemon and wait until it serves or finds another one serving. Raises Unusable with its error."""
    try:
        os.makedirs(root, mode=_PRIVATE, exist_ok=True)  # noqa: PTH103 - see default_directory
        os.makedirs(f"{root}/jobs", mode=_PRIVATE, exist_ok=True)  # noqa: PTH103
        log = os.open(f"{root}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise Unusable(f"{root}: cannot be the embedded queue's directory: {error.strerror}") from error
    reading, writing = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, log, 1),
        (os.POSIX_SPAWN_DUP2, log, 2),
    ]
    os.set_inheritable(writing, True)  # noqa: FBT003 - the function's own signature
    argv = [*program(), "serve", root, str(writing)]
    os.posix_spawn(argv[0], argv, os.environ, file_actions=actions, setsid=True)
    os.close(log)
    os.close(writing)
    with os.fdopen(reading) as words:
        said = words.read().strip()
    if said not in {"", "ready"}:
        raise Unusable(said)


def wait_for_end(root: str) -> None:
    """Return when no daemon holds the directory any more."""
    import fcntl  # noqa: PLC0415 - only one command needs it

    try:
        with open(f"{root}/lock") as file:  # noqa: PTH123
            fcntl.flock(file, fcntl.LOCK_EX)
    except FileNotFoundError:
        return
