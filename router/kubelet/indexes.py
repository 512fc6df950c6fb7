"""The indexes of logs that grow: looked at while the agent polls, kept beside the logs.

Shell: reads the clock and the files of the site. All methods may be called by any thread. What is held in memory is a
few marks for each log that grows; a mark that an agent had not written yet when it was killed makes times coarser,
never wrong.
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
"""Between two writes of one index. Each writes the whole file anew, of 20 kB at most."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a container, and where its log lies."""

    files: Files
    directory: PodDirectory
    container: str
    number: int

    @property
    def log(self) -> PurePosixPath:
        """Its log."""
        return self.directory.log(self.container, self.number)

    @property
    def index(self) -> PurePosixPath:
        """The index of its log."""
        return self.directory.log_index(self.container, self.number)


@dataclass(slots=True)
class _Growing:
    """A log that is looked at: its last mark, and those that are not in the file yet."""

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
        """Look whether the log of a living run has grown, and note it.

        :raises OSError, BatchError: the site's files cannot be reached; nothing is lost
        """
        growing = self._known(run)
        with growing.lock:
            self._note(run, growing)
            if growing.fresh and time.monotonic() - growing.written >= self._write_seconds:
                self._write(run, growing)

    def end(self, run: Run) -> None:
        """The run has ended: note the last of it, write, forget.

        :raises OSError, BatchError: as ``look``; the run is still known then
        """
        growing = self._known(run)
        with growing.lock:
            self._note(run, growing)
            if growing.fresh:
                self._write(run, growing)
        with self._lock:
            self._growing.pop(run.log, None)

    def saw(self, run: Run, size: int, modified: int) -> None:
        """A reader has seen this many bytes, the last of which came then (milliseconds since 1970).

        Counts for logs that the agent looks at; reads and writes no file.
        """
        with self._lock:
            growing = self._growing.get(run.log)
        if growing is not None:
            with growing.lock:
                growing.note(index.noted(growing.last, size, modified, self._now()))

    def marks(self, run: Run) -> tuple[Mark, ...]:
        """All that is known of a log's times.

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
        marks = _written(run)  # of an earlier life of the agent
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
