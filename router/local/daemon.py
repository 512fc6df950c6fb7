"""The embedded queue's one process per directory: answers commands on a unix socket, starts jobs, sees them end.

Shell. One thread that sleeps until a command arrives, a job ends (pidfd) or a time comes; nothing is polled. Started by
the first command (``router.local.client``), it ends on ``stop`` or when it has been idle for the configured time; jobs
go on without it.
"""

from __future__ import annotations

import contextlib
import fcntl
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
from typing import Final

from router.errors import BatchgateError
from router.local import ledger as ledgers
from router.local import running
from router.local.ledger import Ledger
from router.local.records import Job
from router.local.state import State

_LARGEST_REQUEST: Final = 64 << 20
_BLOCK: Final = 1 << 16
_TICK: Final = 3600.0


@dataclass(slots=True)
class _Conversation:
    """One command's connection: one line in, one line out."""

    connection: socket.socket
    received: bytearray = field(default_factory=bytearray)
    reply: bytes = b""


@dataclass(slots=True)
class _Watch:
    """A job whose shepherd's end makes ``descriptor`` readable."""

    job: Job
    descriptor: int
    process: subprocess.Popen[str] | None


@dataclass(slots=True)
class Daemon:
    """What the one loop knows. ``busy`` is when something last happened (monotonic)."""

    ledger: Ledger
    selector: selectors.BaseSelector
    listener: socket.socket
    busy: float
    stopping: bool = False
    draining: bool = False


def serve(state: State, ready: int) -> None:
    """Serve a directory until it is stopped or idle. ``ready`` is a descriptor that is told once commands may come."""
    with _locked(state) as alone:
        if not alone:
            return
        ledger = Ledger(state, state.config(), state.jobs())
        with _listening(state) as listener, selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ, None)
            daemon = Daemon(ledger, selector, listener, time.monotonic())
            ledgers.recover(ledger)
            _settle(daemon)
            with contextlib.suppress(BrokenPipeError):  # the command that waits for it may have been killed
                os.write(ready, b"ready\n")
            os.close(ready)
            while not _is_over(daemon):
                _turn(daemon)


@contextlib.contextmanager
def _locked(state: State) -> Iterator[bool]:
    """Hold the directory's lock; False where another daemon has it."""
    with state.lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield True


@contextlib.contextmanager
def _listening(state: State) -> Iterator[socket.socket]:
    """The unix socket, there while it is served. Its path is taken relative: sun_path holds 108 bytes only."""
    os.chdir(state.root)
    state.socket.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(state.socket.name)
        listener.listen(128)
        listener.setblocking(False)  # noqa: FBT003 - the socket's own signature
        try:
            yield listener
        finally:
            state.socket.unlink(missing_ok=True)


def _is_over(daemon: Daemon) -> bool:
    talking = any(isinstance(key.data, _Conversation) for key in daemon.selector.get_map().values())
    if daemon.stopping:
        return not talking and not (daemon.draining and daemon.ledger.active())
    idle = time.monotonic() - daemon.busy >= daemon.ledger.config.idle
    return idle and not talking and not daemon.ledger.active()


def _turn(daemon: Daemon) -> None:
    """Sleep until something happens, and do it."""
    now = time.time()
    kill_at = ledgers.kill_overdue(daemon.ledger, now)
    until_idle = daemon.busy + daemon.ledger.config.idle - time.monotonic()
    waits = [_TICK, _TICK if kill_at is None else kill_at - now]
    waits.append(_TICK if daemon.ledger.active() else until_idle)
    for key, _ in daemon.selector.select(max(0.0, min(waits))):
        daemon.busy = time.monotonic()
        if key.data is None:
            _accept(daemon)
        elif isinstance(key.data, _Watch):
            _ended(daemon, key.data)
        else:
            _converse(daemon, key.data)


def _accept(daemon: Daemon) -> None:
    with contextlib.suppress(BlockingIOError, ConnectionError):
        connection, _ = daemon.listener.accept()
        connection.setblocking(False)  # noqa: FBT003 - the socket's own signature
        daemon.selector.register(connection, selectors.EVENT_READ, _Conversation(connection))


def _ended(daemon: Daemon, watch: _Watch) -> None:
    daemon.selector.unregister(watch.descriptor)
    os.close(watch.descriptor)
    if watch.process is not None:
        watch.process.wait()
    ledgers.end(daemon.ledger, watch.job)
    _settle(daemon)


def _settle(daemon: Daemon) -> None:
    """Start what can start now, and watch what was started; a shepherd that is gone already has ended its job."""
    while True:
        if not daemon.stopping:
            ledgers.schedule(daemon.ledger)
        if not daemon.ledger.started:
            return
        started, daemon.ledger.started = daemon.ledger.started, []
        for job, process in started:
            descriptor = _pidfd(job)
            if descriptor is not None:
                daemon.selector.register(descriptor, selectors.EVENT_READ, _Watch(job, descriptor, process))
                continue
            if process is not None:
                process.wait()
            ledgers.end(daemon.ledger, job)


def _pidfd(job: Job) -> int | None:
    """A descriptor of the job's shepherd; None where that process is gone (or its number is another's now)."""
    if not job.shepherd:
        return None
    try:
        descriptor = os.pidfd_open(job.shepherd[0])
    except ProcessLookupError:
        return None
    if running.is_watched(job):
        return descriptor
    os.close(descriptor)
    return None


def _converse(daemon: Daemon, talk: _Conversation) -> None:
    try:
        if talk.reply:
            talk.reply = talk.reply[talk.connection.send(talk.reply) :]
            done = not talk.reply
        else:
            done = _receive(daemon, talk)
    except BlockingIOError:
        return
    except ConnectionError:  # the command was killed; what it asked for is done all the same
        done = True
    if done:
        daemon.selector.unregister(talk.connection)
        talk.connection.close()
        _settle(daemon)


def _receive(daemon: Daemon, talk: _Conversation) -> bool:
    """Read on; True where the conversation is over without an answer."""
    block = talk.connection.recv(_BLOCK)
    talk.received += block
    if not block or len(talk.received) > _LARGEST_REQUEST:
        return True
    if not talk.received.endswith(b"\n"):
        return False
    answer = ledgers.handle(daemon.ledger, json.loads(talk.received))
    if answer.get("stop"):
        daemon.stopping, daemon.draining = True, answer["delete"]
    talk.reply = json.dumps(answer).encode() + b"\n"
    with contextlib.suppress(BlockingIOError):
        talk.reply = talk.reply[talk.connection.send(talk.reply) :]
    if talk.reply:
        daemon.selector.modify(talk.connection, selectors.EVENT_WRITE, talk)
    return not talk.reply


def main(directory: str, ready: int) -> None:
    """The process that ``router.local.client`` starts."""
    os.umask(0o077)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        serve(State(Path(directory)), ready)
    except (BatchgateError, OSError) as error:
        with contextlib.suppress(OSError):
            os.write(ready, f"{error}\n".encode())
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
