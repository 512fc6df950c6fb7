"""The embedded queue's one process per directory: answers commands on a unix socket, starts jobs, sees them end.

Shell. Its one thread sleeps until a command arrives, a job ends (pidfd) or a time is due, without polling. The first
command starts it (``router.local.client``). It ends on ``stop``, or after the configured idle time; jobs go on without
it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from router.errors import BatchgateError
from router.local import answering, running, shepherd
from router.local import ledger as ledgers
from router.local.ledger import Ledger, Shepherd
from router.local.records import Job
from router.local.state import State

_LARGEST_REQUEST: Final = 64 << 20
_BLOCK: Final = 1 << 16
_SWEEP: Final = 60.0
"""Seconds between two searches for jobs that are older than the history."""


@dataclass(slots=True, eq=False)
class _Conversation:
    """One command's connection: one line in, at ``asked`` (monotonic), and one line out."""

    connection: socket.socket
    received: bytearray = field(default_factory=bytearray)
    reply: bytes = b""
    asked: float = 0.0


@dataclass(slots=True)
class _Watch:
    """A job whose shepherd's end makes ``descriptor`` readable."""

    job: Job
    descriptor: int
    process: Shepherd


@dataclass(slots=True)
class Daemon:
    """The state of the daemon's loop. ``busy``: time of the last event; ``sweep``: when to forget jobs (both
    monotonic).

    ``late``: the conversations whose answer is delayed.
    """

    ledger: Ledger
    selector: selectors.BaseSelector
    listener: socket.socket
    busy: float
    sweep: float
    late: list[_Conversation] = field(default_factory=list)
    stopping: bool = False
    draining: bool = False


def serve(state: State, ready: int) -> None:
    """Serve a directory until ``stop`` or idle. ``ready``: a descriptor to which it writes once it takes commands."""
    with _locked(state) as alone:
        if not alone:
            return
        ledger = ledgers.opened(state)
        with _listening(state) as listener, selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ, None)
            now = time.monotonic()
            daemon = Daemon(ledger, selector, listener, now, now + _SWEEP)
            _watch_started(daemon)
            with contextlib.suppress(BrokenPipeError):  # the waiting command may have been killed
                os.write(ready, b"ready\n")
            os.close(ready)
            while not _is_over(daemon):
                _turn(daemon)


@contextlib.contextmanager
def _locked(state: State) -> Iterator[bool]:
    """Hold the directory's lock; yields False if another daemon has it."""
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
    """The unix socket, which exists while it is served. Its path is relative, as sun_path holds only 108 bytes."""
    os.chdir(state.root)
    state.socket.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(state.socket.name)
        listener.listen(1024)
        listener.setblocking(False)  # noqa: FBT003 - the socket's own signature
        try:
            yield listener
        finally:
            state.socket.unlink(missing_ok=True)


def _is_over(daemon: Daemon) -> bool:
    talking = any(isinstance(key.data, _Conversation) for key in daemon.selector.get_map().values()) or daemon.late
    if daemon.stopping:
        return not talking and not (daemon.draining and daemon.ledger.runs())
    idle = time.monotonic() - daemon.busy >= daemon.ledger.config.idle
    return idle and not talking and not daemon.ledger.runs() and not daemon.ledger.changed


def _turn(daemon: Daemon) -> None:
    """Start jobs that can start, wait for events, and handle them."""
    if not daemon.stopping:
        ledgers.schedule(daemon.ledger)
        _watch_started(daemon)
    for key, _ in daemon.selector.select(_until_next(daemon)):
        daemon.busy = time.monotonic()
        if key.data is None:
            _accept(daemon)
        elif isinstance(key.data, _Watch):
            _ended(daemon, key.data)
        else:
            _converse(daemon, key.data)
    _send_late(daemon)
    if time.monotonic() >= daemon.sweep or _forgets(daemon):
        daemon.sweep = time.monotonic() + (_SWEEP if ledgers.forget_old(daemon.ledger) else 0)


def _forgets(daemon: Daemon) -> bool:
    """Whether the fault ``history-lost`` is on and finished jobs are left to forget."""
    return daemon.ledger.faults.history_lost and bool(daemon.ledger.finished)


def _until_next(daemon: Daemon) -> float:
    now = time.monotonic()
    if (daemon.ledger.changed and not daemon.stopping) or _forgets(daemon):
        return 0.0
    times = [daemon.sweep, *(_due(daemon, talk) for talk in daemon.late)]
    if not daemon.ledger.runs():
        times.append(daemon.busy + daemon.ledger.config.idle)
    return max(0.0, min(times) - now)


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


def _watch_started(daemon: Daemon) -> None:
    """Watch the started jobs; if a shepherd is gone already, its job has ended."""
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
    """A pidfd of the job's shepherd; None if that process is gone (or its pid is another process's now)."""
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


# --- conversations -----------------------------------------------------------------------------------------------


def _converse(daemon: Daemon, talk: _Conversation) -> None:
    try:
        done = _send(talk) if talk.reply else _receive(daemon, talk)
    except BlockingIOError:
        return
    except ConnectionError:  # the command was killed, but its request is done
        done = True
    if done:
        _hang_up(daemon, talk)


def _hang_up(daemon: Daemon, talk: _Conversation) -> None:
    with contextlib.suppress(KeyError):  # a conversation with a delayed answer is not registered
        daemon.selector.unregister(talk.connection)
    talk.connection.close()


def _send(talk: _Conversation) -> bool:
    """Continue to send; True once all is sent."""
    talk.reply = talk.reply[talk.connection.send(talk.reply) :]
    return not talk.reply


def _receive(daemon: Daemon, talk: _Conversation) -> bool:
    """Continue to read; True once the conversation is over: the input has ended, or the answer is sent."""
    block = talk.connection.recv(_BLOCK)
    talk.received += block
    if not block or len(talk.received) > _LARGEST_REQUEST:
        return True
    if not talk.received.endswith(b"\n"):
        return False
    try:
        request = json.loads(talk.received)
    except ValueError:
        return True
    answer = answering.handle(daemon.ledger, request)
    talk.reply = json.dumps(answer).encode() + b"\n"
    if answer.get("stop"):
        daemon.stopping, daemon.draining = True, answer["delete"]
    if daemon.ledger.faults.delay and answering.can_be_late(request) and "needs" not in answer:
        talk.asked = time.monotonic()
        daemon.selector.unregister(talk.connection)
        daemon.late.append(talk)
        return False
    return _begin_to_send(daemon, talk)


def _begin_to_send(daemon: Daemon, talk: _Conversation) -> bool:
    with contextlib.suppress(BlockingIOError):
        if _send(talk):
            return True
    with contextlib.suppress(KeyError):
        daemon.selector.unregister(talk.connection)
    daemon.selector.register(talk.connection, selectors.EVENT_WRITE, talk)
    return False


def _due(daemon: Daemon, talk: _Conversation) -> float:
    """When a delayed answer is sent, by the current delay."""
    return talk.asked + (0 if daemon.stopping else daemon.ledger.faults.delay)


def _send_late(daemon: Daemon) -> None:
    """Send the delayed answers that are due."""
    now = time.monotonic()
    due = [talk for talk in daemon.late if _due(daemon, talk) <= now]
    daemon.late = [talk for talk in daemon.late if talk not in due]
    for talk in due:
        try:
            done = _begin_to_send(daemon, talk)
        except ConnectionError:
            done = True
        if done:
            _hang_up(daemon, talk)


def main(directory: str, ready: int) -> int:
    """Run the process that ``router.local.client`` starts; returns its exit code."""
    os.umask(0o077)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [shepherd.POKE])  # shepherds inherit this block from their start
    try:
        serve(State(Path(directory)), ready)
    except (BatchgateError, OSError) as error:
        with contextlib.suppress(OSError):
            os.write(ready, f"{error}\n".encode())
        return 1
    return 0
