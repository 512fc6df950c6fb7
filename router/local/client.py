"""From a command to the embedded queue's daemon, which is started when none answers.

Shell: one request, one answer over a unix socket. Light: a ``qsub`` is a whole process, and imports nothing that it
does not need; what is dear is imported where it is used.
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
    """No daemon can be started for the directory; the words say why."""


def default_directory() -> str:
    """``$BATCHGATE_LOCAL``, else ``batchgate/local`` in the user's state directory (XDG base directories)."""
    named = os.environ.get(VARIABLE)
    if named:
        return os.path.abspath(named)  # noqa: PTH100 - pathlib takes longer to import than all of this module
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - as above
    return f"{base}/batchgate/local"


def program() -> tuple[str, ...]:
    """The words before ``qsub`` that start fastest: OpenPBS' commands and the daemon, without site-packages."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - as above
    return (sys.executable, "-I", "-S", f"{here}/pbs.py")


def ask(root: str, request: dict[str, object]) -> dict[str, object]:
    """The daemon's answer; a daemon is started where there is none. Unusable where none can be."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return ask_running(root, request)
        except NotServed:
            _start(root)
        if time.monotonic() > deadline:
            raise Unusable(f"{root}: the embedded queue does not answer; see {root}/log")
        time.sleep(_PAUSE)  # only while another command's daemon is about to serve, or one is about to end


def ask_running(root: str, request: dict[str, object]) -> dict[str, object]:
    """The answer of a daemon that serves already. NotServed where there is none, or it ended meanwhile."""
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
    """Connect by a short name: that of the directory may be too long for sun_path (108 bytes)."""
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        connection.connect(f"/proc/self/fd/{directory}/socket")
    finally:
        os.close(directory)


def _start(root: str) -> None:
    """Start a daemon and wait until it serves, or has seen that another one does. Unusable, with its words."""
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
    import fcntl  # noqa: PLC0415 - for one command only

    try:
        with open(f"{root}/lock") as file:  # noqa: PTH123
            fcntl.flock(file, fcntl.LOCK_EX)
    except FileNotFoundError:
        return
