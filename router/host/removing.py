"""Removing a directory that programs of Jobs have filled, however deep it is and whatever modes they set.

Shell. No link is followed: links are removed themselves. Directories below are moved up to the top before they are
emptied, so that neither the depth of the tree nor the length of a path matters.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

from router.host.beneath import PRIVATE

_PATH: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STEP: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(parent: int, name: str) -> None:
    """Remove a directory of another (a descriptor), and all below it. FileNotFoundError; OSError for a link or file."""
    with _entered(parent, name) as top:
        while directories := _unlink_others(top):
            for directory in directories:
                with _entered(top, directory) as found:
                    for below in _unlink_others(found):
                        _open_up(found, below)
                        os.rename(below, f".{os.urandom(16).hex()}", src_dir_fd=found, dst_dir_fd=top)
                os.rmdir(directory, dir_fd=top)
    os.rmdir(name, dir_fd=parent)


@contextlib.contextmanager
def _entered(parent: int, name: str) -> Iterator[int]:
    """A descriptor of a directory that may be changed."""
    _open_up(parent, name)
    found = os.open(name, _STEP, dir_fd=parent)
    try:
        yield found
    finally:
        os.close(found)


def _open_up(parent: int, name: str) -> None:
    """Let the owner do all: a directory without write permission can neither be emptied nor moved."""
    found = os.open(name, _PATH, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{found}", PRIVATE)  # noqa: PTH101 - what is open, and nothing that has its name by now
    finally:
        os.close(found)


def _unlink_others(found: int) -> list[str]:
    """Remove all that is no directory; the names of the directories."""
    directories = []
    with os.scandir(found) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=found)
    return directories
