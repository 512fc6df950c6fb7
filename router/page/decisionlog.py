"""Reads the end of a decision log, and later only what was added, within bounds of time and memory.

Shell (files). The log may have hundreds of MiB. Its files are read from the newest one's end backwards, until a decision
is older than a day or a bound is met.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from router.errors import ConfigError
from router.page.models.decisions import DAY
from router.page.models.logged import Entry, Tail, entry_of
from router.startup.logfiles import open_log

MOST_ENTRIES: Final = 20_000
MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes that are read at once."""
_BLOCK: Final = 1024 * 1024
_SLACK: Final = 60
"""Seconds by which lines of several processes may be out of order."""
_KINDS: Final = {stat.S_IFIFO: "a pipe", stat.S_IFDIR: "a directory", stat.S_IFSOCK: "a socket"}


class DecisionLogTail:
    """The end of one log. All methods may be called by any thread.

    :param most_bytes: read at once
    """

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES, most_entries: int = MOST_ENTRIES) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._most_entries = most_entries
        self._lock = threading.Lock()
        self._entries: deque[Entry] = deque()
        self._file: tuple[int, int] = (0, 0)
        self._offset = 0
        self._unreadable = 0
        self._left_out = ""

    def check(self, *, may_come: bool = False) -> None:
        """Raise ConfigError if the log is something else than a regular file, or cannot be read now.

        :param may_come: whether it may be missing, as the webhook makes it with its first decision
        """
        try:
            if not (what := _irregular(self._path.stat())):
                with self._path.open("rb"):
                    return
        except OSError as error:
            if may_come and isinstance(error, FileNotFoundError) and self._path.parent.is_dir():
                return
            raise ConfigError(f"{self._path}: the decision log cannot be read: {error.strerror or error}") from None
        raise ConfigError(
            f"{self._path}: is {what}, and the page reads a decision log from its end again and again; "
            "give the file that the webhook's --decision-log writes"
        )

    def read(self) -> Tail:
        """The log's end as it is now."""
        with self._lock:
            try:
                self._refresh()
            except FileNotFoundError:
                return Tail(
                    str(self._path), problem=f"{self._path} is not there; the webhook's first decision makes it"
                )
            except OSError as error:
                return Tail(str(self._path), problem=f"{self._path} cannot be read: {error.strerror or error}")
            return Tail(str(self._path), tuple(self._entries), self._unreadable, self._left_out)

    def _refresh(self) -> None:
        if self._follows():
            return
        self._file = (0, 0)  # until all is read: after an error all of it is read again
        # All files are opened at once, as the webhook may rename them meanwhile.
        with open_log(self._path) as found:
            if not found:
                raise FileNotFoundError
            self._read_anew([(one.path, one.file, one.status.st_size) for one in found.values() if one.file])
            self._file = next(iter(found))

    def _follows(self) -> bool:
        """Read what was added to the newest file, if it is the one that was read before."""
        try:
            if what := _irregular(self._path.stat()):  # opening a pipe would wait for its writer
                raise OSError(f"it is {what}")
            file = self._path.open("rb")
        except FileNotFoundError:  # between two names, or nowhere
            return False
        with file:
            status = os.fstat(file.fileno())
            here, size = (status.st_dev, status.st_ino), status.st_size
            if here != self._file or not self._offset <= size <= self._offset + self._most_bytes:
                return False
            file.seek(self._offset)
            self._add(file.read(size - self._offset))
            return True

    def _add(self, data: bytes) -> None:
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        since = time.time() - DAY - _SLACK
        for line in whole.splitlines():
            self._take(line)
        while self._entries and self._entries[0].decided.created < since:
            self._entries.popleft()
            self._left_out = ""  # what is missing was decided before this one, so more than a day ago

    def _take(self, line: bytes) -> None:
        entry = entry_of(line.decode("utf-8", "replace"))
        if entry is None:
            self._unreadable += 1
            return
        self._entries.append(entry)
        if len(self._entries) > self._most_entries:
            self._entries.popleft()
            self._left_out = f"only the last {self._most_entries} decisions are kept here"

    def _read_anew(self, files: Sequence[tuple[Path, BinaryIO, int]]) -> None:
        since = time.time() - DAY - _SLACK
        self._entries, self._unreadable, self._left_out = deque(), 0, ""
        left = self._most_bytes
        for path, file, size in files:
            lines = _backwards(file, size)
            unfinished = next(lines)
            if path == self._path:
                self._offset = size - len(unfinished)
            for line in lines:
                left -= len(line) + 1
                entry = entry_of(line.decode("utf-8", "replace"))
                self._unreadable += entry is None
                if entry is not None and entry.decided.created < since:
                    return
                if left < 0 or len(self._entries) >= self._most_entries:
                    self._left_out = f"only the last {len(self._entries)} decisions were read"
                    return
                if entry is not None:
                    self._entries.appendleft(entry)


def _irregular(status: os.stat_result) -> str:
    """What a file is; empty for a regular one."""
    if stat.S_ISREG(status.st_mode):
        return ""
    return _KINDS.get(stat.S_IFMT(status.st_mode), "a device")


def _backwards(file: BinaryIO, size: int) -> Iterator[bytes]:
    """What is behind the last line's end, as another process may be writing there; then the lines, the last one first."""
    rest, end = b"", size
    while end > 0:
        begin = max(0, end - _BLOCK)
        file.seek(begin)
        # No line is as long as a block: of a file without lines only so much is kept.
        rest, *lines = (file.read(end - begin) + rest[:_BLOCK]).split(b"\n")
        yield from reversed(lines)
        end = begin
    yield rest
