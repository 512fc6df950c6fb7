"""The process that all of a control plane's processes are children of, so that none outlives it.

Shell: runs as ``python -m router.controlplane.keeper DESCRIPTOR PARENT``. It starts what it is told to over a socket,
and ends everything, grandchildren that changed their session included, when it is told to, when the process that
started it has ended in whatever way, or on SIGTERM. Its own end by SIGKILL ends its children too (PR_SET_PDEATHSIG).

It is a process of its own because a killed test cannot clean up, and a child subreaper because daemons detach
themselves. It imports nothing but the standard library: it starts with every plane.

Requests and answers are one line of JSON each::

    {"do": "start", "argv": [...], "env": {...}, "log": FILE, "cwd": DIR, "grace": 8}  -> {"pid": 7}
    {"do": "poll", "pid": 7}               -> {"code": null}  or the exit code
    {"do": "end", "pid": 7, "signal": 15, "seconds": 10}  -> {"code": 0}
    {"do": "at-end", "argv": [...]}        -> {}    run at the very end, whatever happens, e.g. to unmount
    {"do": "detach", "again": [7]}         -> {}    from now on only SIGTERM ends it; these are started again when they end
    {"do": "stop"}                         -> {}    end everything

``grace`` is how many seconds the child may take from SIGTERM to its end when all is ended; 0 is SIGKILL at once.
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
"""How long what children left behind may take to end after SIGTERM, before SIGKILL."""
_AT_END_SECONDS: Final = 30.0
_PAUSE: Final = 0.02
_BLOCK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Child:
    """A process that was started here, the request that did so, and how long it may take to end (seconds)."""

    process: subprocess.Popen[bytes]
    request: dict[str, Any]
    grace: float


@dataclass(slots=True)
class Keeper:
    """What the loop knows. ``children`` in the order of their start; they are ended the other way round."""

    children: dict[int, Child] = field(default_factory=dict)
    again: set[int] = field(default_factory=set)
    at_end: list[list[str]] = field(default_factory=list)
    detached: bool = False
    stopping: bool = False

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what one request says."""
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
                    preexec_fn=_die_with_keeper,  # noqa: PLW1509 - one thread only, so nothing can hold a lock
                    start_new_session=True,
                )
            except OSError as error:
                return {"error": f"cannot start {request['argv'][0]}: {error.strerror}"}
        self.children[process.pid] = Child(process, request, request["grace"])
        return {"pid": process.pid}

    def start_again(self) -> None:
        """Start those anew that were to be, as whatever keeps a program running in a cluster does."""
        for pid in [pid for pid in self.again if self.children[pid].process.poll() is not None]:
            self.again.remove(pid)
            answer = self._start(self.children.pop(pid).request)
            if "pid" in answer:
                self.again.add(answer["pid"])

    def end_all(self) -> None:
        """End what was started, then whatever of it is left, then run what was asked for at the end."""
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
    # A signal's handler must not do more than wake the loop; a descriptor that becomes readable does it.
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
    # The socket alone would do, had no fork of the parent a copy of it.
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
    if os.getppid() != pid:  # it has ended already, and its number may be another's
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _tend(keeper: Keeper, ready: set[Any]) -> None:
    _reap(keeper)
    if not ready:  # about a second after a child's end, so that one that cannot start takes no whole core
        keeper.start_again()


def _reap(keeper: Keeper) -> None:
    """Wait for orphans that became ours; our own children are waited for by their Popen."""
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
    """SIGTERM to what is left, SIGKILL to what is left then, until nothing is."""
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
    # What the keeper ignores, its children need not: an ignored signal stays ignored over exec.
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_DFL)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
