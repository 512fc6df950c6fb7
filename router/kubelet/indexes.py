"""Keeps the indexes of growing logs: notes marks while the agent polls, and writes them beside the logs.

Shell: the clock and the site's files. Thread-safe. Memory holds a few marks for each growing log; if the agent is
killed before it writes them, times become coarser but stay right.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from router.kubelet import index
from router.kubelet.index import Mark
from router.kubelet.source import Files
from router.pod.layout import PodDirectory

WRITE_SECONDS: Final = 60.0
"""Time between two writes of one index. Each write replaces the whole file, at most 20 kB."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a container, and where its log is."""

    files: Files
    directory: PodDirectory
    container: str
    number: int

    @property
    def log(self) -> PurePosixPath:
        """The path of its log."""
        return self.directory.log(self.container, self.number)

    @property
    def index(self) -> PurePosixPath:
        """The path of its log's index."""
        return self.directory.log_index(self.container, self.number)


@dataclass(slots=True)
class _Growing:
    """A growing log: its last mark, and the marks that are not in the index file yet."""

    last: Mark | None
    written: float
    fresh: list[Mark] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, mark: Mark | None) -> None:
        if mark is not None:
            self.fresh.append(mark)
            self.last = mark


class Indexes:
    """The indexes of one site.

    :param write_seconds: between two writes of one index
    :param clock: seconds since 1970
    """

    def __init__(self, write_seconds: float = WRITE_SECONDS, clock: Callable[[], float] = time.time) -> None:
        self._write_seconds = write_seconds
        self._clock = clock
        self._growing: dict[PurePosixPath, _Growing] = {}
        self._lock = threading.Lock()

    def look(self, run: Run) -> None:
        """Check whether the log of an active run has grown, and note a mark.

        :raises OSError, BatchError: the site's files cannot be reached; no mark is lost
        """
        growing = self._known(run)
        with growing.lock:
            self._note(run, growing)
            if growing.fresh and time.monotonic() - growing.written >= self._write_seconds:
                self._write(run, growing)

    def end(self, run: Run) -> None:
        """Handle the end of a run: note its last mark, write the index, and forget the run.

        :raises OSError, BatchError: as ``look``; the run is then kept
        """
        growing = self._known(run)
        with growing.lock:
            self._note(run, growing)
            if growing.fresh:
                self._write(run, growing)
        with self._lock:
            self._growing.pop(run.log, None)

    def saw(self, run: Run, size: int, modified: int) -> None:
        """Note that a reader saw this many bytes, the last of them written at ``modified`` (milliseconds since 1970).

        Ignored unless the agent watches the log; uses no files.
        """
        with self._lock:
            growing = self._growing.get(run.log)
        if growing is not None:
            with growing.lock:
                growing.note(index.noted(growing.last, size, modified, self._now()))

    def marks(self, run: Run) -> tuple[Mark, ...]:
        """All marks of a log, written and unwritten.

        :raises OSError, BatchError: as ``look``
        """
        with self._lock:
            growing = self._growing.get(run.log)
        if growing is None:
            return _written(run)
        with growing.lock:
            return index.merged(_written(run), growing.fresh)

    def _known(self, run: Run) -> _Growing:
        with self._lock:
            growing = self._growing.get(run.log)
        if growing is not None:
            return growing
        marks = _written(run)  # by an earlier run of the agent
        with self._lock:
            return self._growing.setdefault(run.log, _Growing(marks[-1] if marks else None, time.monotonic()))

    def _note(self, run: Run, growing: _Growing) -> None:
        status = run.files.status(run.log)
        if status is not None and status.kind == "file":
            growing.note(index.noted(growing.last, status.size, int(status.modified * 1000), self._now()))

    def _write(self, run: Run, growing: _Growing) -> None:
        run.files.put(run.index, index.text(index.merged(_written(run), growing.fresh)))
        growing.fresh.clear()
        growing.written = time.monotonic()

    def _now(self) -> int:
        return int(self._clock() * 1000)


def _written(run: Run) -> tuple[Mark, ...]:
    try:
        return index.parse(run.files.read(run.index, 0, index.FILE_LIMIT))
    except FileNotFoundError:
        return ()
