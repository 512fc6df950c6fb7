"""Removes a directory that Jobs' programs have filled, of any depth and with any modes.

Shell (files). Links are removed, never followed. Each subdirectory is moved up to the top before it is emptied, so that
a tree of any depth and paths of any length can be removed.
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
    """Remove ``name`` in the directory ``parent`` (a descriptor), and all below it. OSError for a link or file."""
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
    """A descriptor of a directory, after its owner got all permissions."""
    _open_up(parent, name)
    found = os.open(name, _STEP, dir_fd=parent)
    try:
        yield found
    finally:
        os.close(found)


def _open_up(parent: int, name: str) -> None:
    """Give the owner all permissions: a directory must be writable to be emptied or moved."""
    found = os.open(name, _PATH, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{found}", PRIVATE)  # noqa: PTH101 - the open directory itself, not its name
    finally:
        os.close(found)


def _unlink_others(found: int) -> list[str]:
    """Remove everything but directories; returns the names of the directories."""
    directories = []
    with os.scandir(found) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=found)
    return directories
