"""The parent of all of a control plane's processes, so that none outlives it.

Shell: runs as ``python -m router.controlplane.keeper DESCRIPTOR PARENT``. It gets requests over a socket and starts
processes. It ends all of them, also grandchildren with a new session, on request, on SIGTERM, or once the process that
started it has ended in any way. If SIGKILL ends the keeper, its children end too (PR_SET_PDEATHSIG).

It is a separate process because a killed test cannot clean up, and a child subreaper because daemons detach themselves.
It imports only the standard library, as it starts with every plane.

Requests and answers are one line of JSON each::

    {"do": "start", "argv": [...], "env": {...}, "log": FILE, "cwd": DIR, "grace": 8}  -> {"pid": 7}
    {"do": "poll", "pid": 7}               -> {"code": null}  or the exit code
    {"do": "end", "pid": 7, "signal": 15, "seconds": 10}  -> {"code": 0}
    {"do": "at-end", "argv": [...]}        -> {}    always run at the very end, e.g. to unmount
    {"do": "detach", "again": [7]}         -> {}    from now on only SIGTERM ends it; these are started again when they
    end {"do": "stop"}                         -> {}    end everything

``grace`` is how many seconds a child may take from SIGTERM to its end when everything ends; 0 is SIGKILL at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_LIBC: Final = ctypes.CDLL(None, use_errno=True)

_GRACE_SECONDS: Final = 8.0
"""How long processes that children left behind may take to end after SIGTERM, before SIGKILL."""
_AT_END_SECONDS: Final = 30.0
_PAUSE: Final = 0.02
_BLOCK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Child:
    """A started process, its request, and how long it may take to end (seconds)."""

    process: subprocess.Popen[bytes]
    request: dict[str, Any]
    grace: float


@dataclass(slots=True)
class Keeper:
    """The state of the keeper's loop. ``children`` are in the order of their start, and are ended in reverse."""

    children: dict[int, Child] = field(default_factory=dict)
    again: set[int] = field(default_factory=set)
    at_end: list[list[str]] = field(default_factory=list)
    detached: bool = False
    stopping: bool = False

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one request; returns the answer."""
        match request["do"]:
            case "start":
                return self._start(request)
            case "poll":
                return {"code": self.children[request["pid"]].process.poll()}
            case "end":
                child = self.children[request["pid"]]
                return {"code": _end(child.process, request["signal"], request["seconds"])}
            case "at-end":
                self.at_end.append(request["argv"])
            case "detach":
                self.detached = True
                self.again = set(request["again"])
            case "stop":
                self.stopping = True
            case other:
                return {"error": f"unknown request {other}"}
        return {}

    def _start(self, request: dict[str, Any]) -> dict[str, Any]:
        with Path(request["log"]).open("ab") as log:
            try:
                process = subprocess.Popen(
                    request["argv"],
                    env=request["env"],
                    cwd=request["cwd"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=_die_with_keeper,  # noqa: PLW1509 - one thread only, so no lock is held
                    start_new_session=True,
                )
            except OSError as error:
                return {"error": f"cannot start {request['argv'][0]}: {error.strerror}"}
        self.children[process.pid] = Child(process, request, request["grace"])
        return {"pid": process.pid}

    def start_again(self) -> None:
        """Restart ended children that are to keep running, as a cluster would."""
        for pid in [pid for pid in self.again if self.children[pid].process.poll() is not None]:
            self.again.remove(pid)
            answer = self._start(self.children.pop(pid).request)
            if "pid" in answer:
                self.again.add(answer["pid"])

    def end_all(self) -> None:
        """End all children, then remaining descendants, then run the ``at-end`` commands."""
        for child in reversed(self.children.values()):
            _end(child.process, signal.SIGTERM if child.grace else signal.SIGKILL, child.grace)
        _end_descendants()
        for argv in reversed(self.at_end):
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(argv, check=False, timeout=_AT_END_SECONDS, capture_output=True)


def main(descriptor: int, parent: int) -> None:
    """Serve until the other end of the socket is closed, the parent has ended, or SIGTERM."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    keeper = Keeper()
    # The signal handler must only wake the loop, which a readable descriptor does.
    wake, awake = socket.socketpair()
    awake.settimeout(0)
    signal.set_wakeup_fd(awake.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: setattr(keeper, "stopping", True))
    try:
        with socket.socket(fileno=descriptor) as connection, wake, awake:
            _serve(keeper, connection, wake, parent)
    finally:
        keeper.end_all()


def _serve(keeper: Keeper, connection: socket.socket, wake: socket.socket, parent: int) -> None:
    selector = selectors.DefaultSelector()
    selector.register(wake, selectors.EVENT_READ)
    selector.register(connection, selectors.EVENT_READ)
    # The socket's end would be enough, but a fork of the parent may have a copy of the socket.
    ended = _pidfd(parent)
    if ended is None:
        return
    selector.register(ended, selectors.EVENT_READ)
    received = b""
    while not keeper.stopping:
        ready = {key.fileobj for key, _ in selector.select(timeout=1.0)}
        _tend(keeper, ready)
        if ended in ready and not keeper.detached:
            return
        if ended in ready:
            selector.unregister(ended)
        if wake in ready:
            wake.recv(_BLOCK)
        if connection not in ready:
            continue
        block = _received(connection)
        if not block and not keeper.detached:
            return
        if not block:
            selector.unregister(connection)
            continue
        *lines, received = (received + block).split(b"\n")
        for line in lines:
            connection.sendall(json.dumps(keeper.answer(json.loads(line))).encode() + b"\n")


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(_BLOCK)
    except ConnectionError:
        return b""


def _pidfd(pid: int) -> int | None:
    if os.getppid() != pid:  # the parent has ended already, and its pid may be another process's
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _tend(keeper: Keeper, ready: set[Any]) -> None:
    _reap(keeper)
    if not ready:  # about a second after a child's end, to limit the load of a child that fails to start
        keeper.start_again()


def _reap(keeper: Keeper) -> None:
    """Collect ended orphans that became children of the keeper; Popen collects the keeper's own children."""
    for pid in _children(os.getpid()):
        if pid not in keeper.children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _end(process: subprocess.Popen[bytes], number: int, seconds: float) -> int:
    if process.poll() is None:
        process.send_signal(number)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


def _end_descendants() -> None:
    """End remaining descendants: SIGTERM first, SIGKILL after ``_GRACE_SECONDS``, until none is left."""
    until = time.monotonic() + _GRACE_SECONDS
    number = signal.SIGTERM
    signalled: set[int] = set()
    while left := list(_descendants(os.getpid())):
        if time.monotonic() > until:
            number = signal.SIGKILL
            signalled = set()
        for pid in left:
            if pid not in signalled:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                signalled.add(pid)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(_PAUSE)


def _descendants(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield from _descendants(child)
        yield child


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(word) for task in tasks for word in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _die_with_keeper() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The keeper ignores these signals; its children must not, and an ignored signal stays ignored over exec.
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_DFL)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
