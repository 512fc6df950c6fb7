"""Values from files, which are read again when the files change.

Shell (files, a thread). Each source gets a function that reads its value and raises a BatchgateError on failure. A bad
change never crashes the program: it becomes a visible error, and the last good value (or one for "unknown") is in
force.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from router.background.loop import Loop
from router.errors import BatchgateError

T = TypeVar("T")
Signature = tuple[tuple[int, int, int, int] | None, ...]


class Source(Protocol):
    """The part of a source that a watcher, ``/readyz`` and the metrics use."""

    name: str
    error: str
    failures: int

    def check(self) -> None:
        """Read the source again if it has changed."""


class FileSource(Generic[T]):
    """A value read from files.

    ``value`` is in force. ``error`` says why the files are unusable, or is empty; ``failures`` counts such errors.
    ``modified`` is when the first file was changed (seconds since 1970; None if it is missing).

    :param unknown: the value while the files are unusable. Without it the last good value stays in force, and files
        that are unusable at the start raise.
    :param stale: takes a value and the time of the first file's change; returns why the value is too old, or empty.
    """

    def __init__(
        self,
        name: str,
        paths: Sequence[Path],
        read: Callable[[], T],
        log: logging.Logger,
        unknown: T | None = None,
        stale: Callable[[T, float | None], str] = lambda _value, _modified: "",
    ) -> None:
        self.name = name
        self.error = ""
        self.failures = 0
        self._paths = tuple(paths)
        self._read = read
        self._log = log
        self._unknown = unknown
        self._stale = stale
        self._seen = _signature(self._paths)
        if unknown is None:
            self.value = read()
        else:
            self.value = unknown
            self._load()

    @property
    def modified(self) -> float | None:
        """When the first file was last written, by the file system; None if it is missing."""
        first = self._seen[0]
        return first[0] / 1e9 if first else None

    def check(self) -> None:
        """Read the files again if they have changed. Unusable files are read at every check.

        An error can go away by itself: a certificate becomes valid, a half-written pair becomes whole.
        """
        now = _signature(self._paths)
        if now == self._seen and not self.error and not self._stale(self.value, self.modified):
            return
        self._seen = now
        self._load()

    def _load(self) -> None:
        try:
            value = self._read()
        except BatchgateError as error:
            self._fail(str(error))
        else:
            if stale := self._stale(value, self.modified):
                self._fail(stale)
                return
            if self.error or value != self.value:
                self._log.info("reloaded", extra={"fields": {"source": self.name}})
            self.value = value
            self.error = ""

    def _fail(self, error: str) -> None:
        if self._unknown is not None:
            self.value = self._unknown
        if error == self.error:
            return
        self.error = error
        self.failures += 1
        kept = "nothing is known now" if self._unknown is not None else "the last good one stays in force"
        self._log.error("reload failed; %s", kept, extra={"fields": {"source": self.name, "error": error}})


def watch(sources: Sequence[Source], seconds: float) -> Loop:
    """Check all sources every so many seconds, in a thread that has begun."""

    def look() -> float:
        for source in sources:
            source.check()
        return seconds

    loop = Loop("watch", look)
    loop.start(seconds)
    return loop


def _signature(paths: Sequence[Path]) -> Signature:
    return tuple(_stat(path) for path in paths)


def _stat(path: Path) -> tuple[int, int, int, int] | None:
    # Follows links: Kubernetes updates a mounted ConfigMap or Secret by swapping a link above the file.
    try:
        status = os.stat(path)  # noqa: PTH116 - the system call is meant
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev
