"""Opens the files of a decision log together, while the webhook may be renaming them.

Shell (files).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from router.startup.settings import log_files

Identity = tuple[int, int]
"""Device and inode, which a rename leaves as they are."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of a log.

    :param path: its name when it was opened
    :param file: None for a pipe, which is opened when its turn comes: its writer may wait until another one is read
    """

    path: Path
    status: os.stat_result
    file: BinaryIO | None


@contextmanager
def open_log(path: Path) -> Iterator[dict[Identity, LogFile]]:
    """All files of a log as they were at one moment, the newest first; empty if there is none. Raises OSError.

    A rename gives a file an older name. So what is renamed meanwhile is met twice, as the newest is opened first, and
    its identity tells that. Once another file is the newest one, older ones may be gone, and all are opened anew.
    """
    while True:
        with ExitStack() as stack:
            found = _opened(path, stack)
            newest = next((key for key, one in found.items() if one.path == path), None)
            if newest == _newest(path):
                yield found
                return


def _opened(path: Path, stack: ExitStack) -> dict[Identity, LogFile]:
    found: dict[Identity, LogFile] = {}
    for one in log_files(path):
        status = _status(one)
        if status is None or (one != path and not stat.S_ISREG(status.st_mode)):
            continue
        file = None
        if stat.S_ISREG(status.st_mode):
            try:
                file = stack.enter_context(one.open("rb"))
            except FileNotFoundError:  # it has an older name by now
                continue
            status = os.fstat(file.fileno())
        found.setdefault(_identity(status), LogFile(one, status, file))
    return found


def _newest(path: Path) -> Identity | None:
    status = _status(path)
    return None if status is None else _identity(status)


def _status(path: Path) -> os.stat_result | None:
    """None for a directory and for what is absent."""
    try:
        status = path.stat() if path.exists() else None
    except FileNotFoundError:  # renamed between the two
        return None
    return None if status is None or stat.S_ISDIR(status.st_mode) else status


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino
