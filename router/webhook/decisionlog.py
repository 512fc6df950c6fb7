"""Writes the decision log: a file of lines, and the files before it, within a bound of their sizes together.

Shell (files, a thread). A review leaves its answer in memory; the thread makes the line and writes it, so that a slow
disk delays no review. Several processes may write one log: each line is written under a lock of the file, whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

from router.background.loop import Loop
from router.errors import ConfigError
from router.replay import record
from router.startup.settings import DECISION_LOG_FILES, log_files
from router.webhook.metrics import Metrics
from router.webhook.service import SentAnswer

MOST_WAITING: Final = 1000
"""Answers that may wait for the disk. Of further ones only the number is kept."""
MOST_BYTES: Final = 32 * 1024 * 1024
"""Bytes of the reviews whose answers may wait. An answer takes several times its review, which may have some MiB: a
thousand of those would take all of the webhook's memory, while a disk is full."""

_MODE: Final = 0o640
_AGAIN_SECONDS: Final = 5.0


class DecisionLog:
    """The decision log of one process; ``start`` it once, ``close`` it in the end.

    It is a ``Source``: ``error`` says why it cannot be written, or is empty, and ``failures`` counts such errors.

    :param size: bytes of all its files together
    """

    name = "decision-log"

    def __init__(self, path: Path, size: int, metrics: Metrics, log: logging.Logger) -> None:
        self.error = ""
        self.failures = 0
        self._path = path
        self._size = size // DECISION_LOG_FILES
        self._metrics = metrics
        self._log = log
        self._waiting: deque[tuple[SentAnswer, int]] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self._loop = Loop("decision log", self._turn)

    def check(self) -> None:
        """Nothing: an error ends with the next line that can be written."""

    def start(self) -> None:
        """Start the thread."""
        self._loop.start()

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._loop.alive

    def put(self, answer: SentAnswer, size: int) -> None:
        """Take an answer; one without a decision or denial is left out. Returns at once.

        :param size: bytes of its review
        """
        if answer.evidence is None and answer.refusal is None:
            return
        with self._lock:
            fits = len(self._waiting) < MOST_WAITING and self._bytes + size <= MOST_BYTES
            if fits:
                self._waiting.append((answer, size))
                self._bytes += size
        if fits:
            self._loop.wake()
        else:
            self._metrics.not_logged.inc()

    def close(self) -> None:
        """Stop the thread and write what waits."""
        self._loop.stop()
        self._loop.await_end(_AGAIN_SECONDS)
        if not self._loop.alive:
            self._turn()

    def _turn(self) -> float | None:
        while self._waiting:
            answer, size = self._waiting[0]
            try:
                append(self._path, _line(answer), self._size)
            except OSError as error:
                self._failed(error)
                return _AGAIN_SECONDS
            with self._lock:
                self._waiting.popleft()
                self._bytes -= size
            self.error = ""
        return None

    def _failed(self, error: OSError) -> None:
        problem = f"{self._path} cannot be written: {error.strerror or error}"
        if problem != self.error:
            self.failures += 1
            self._log.error("the decision log", extra={"fields": {"error": problem}})
        self.error = problem


def demand_writable(path: Path) -> None:
    """Raise ConfigError if lines cannot be appended to a file, or it holds something else than a decision log."""
    try:
        os.close(_open(path))
        begin = b""
        if path.is_file():  # a pipe would be waited for
            with path.open("rb") as file:
                begin = file.read(len(record.BEGIN))
    except OSError as error:
        raise ConfigError(f"{path}: the decision log cannot be written: {error.strerror or error}") from None
    if not record.BEGIN.startswith(begin):
        raise ConfigError(f"{path}: is no decision log, and stays as it is; name a file that is new or empty")


def append(path: Path, text: str, most: int) -> None:
    """Append a line; if the file would be larger than ``most`` bytes, it becomes ``FILE.1`` first. Raises OSError."""
    data = text.encode() + b"\n"
    with _locked(path) as file:
        size = os.fstat(file).st_size
        if size == 0 or size + len(data) <= most:
            _write(file, data, size)
            return
        _shift(path)
    with _locked(path) as file:
        _write(file, data, os.fstat(file).st_size)


def _line(answer: SentAnswer) -> str:
    if answer.evidence is not None:
        return record.line(answer.record, answer.evidence)
    assert answer.refusal is not None  # noqa: S101 - ``put`` takes no other
    return record.denial(answer.record, answer.refusal)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The file, opened and locked. Another process may have moved it away meanwhile: then the new one."""
    while True:
        file = _open(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(file, path):
                yield file
                return
        finally:
            os.close(file)


def _is_at(file: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(file)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _shift(path: Path) -> None:
    """``FILE`` becomes ``FILE.1``, and so on; the oldest goes."""
    for older, newer in pairwise(reversed(log_files(path))):
        with contextlib.suppress(FileNotFoundError):
            newer.replace(older)


def _write(file: int, data: bytes, size: int) -> None:
    """Write a line. If that fails, its first part is taken away again, as the next line would continue it.

    What another process that was killed has begun gets its end first.
    """
    if size and os.pread(file, 1, size - 1) != b"\n":
        data = b"\n" + data
    try:
        written = 0
        while written < len(data):
            written += os.write(file, data[written:])
    except OSError:
        os.ftruncate(file, size)
        raise
