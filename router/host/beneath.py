"""Opens paths below a directory without ever following a link there.

Shell (files). Every step is an openat with O_NOFOLLOW from the previous step, so that a path exchanged meanwhile cannot
lead elsewhere. Links above the directory itself belong to the admin and are followed. What the user's own programs have
put in a step's way is ``Barred``; any other trouble (a file system that is away, an expired ticket) stays as it is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

PRIVATE: Final = 0o700
LISTED: Final = 0o500
"""The owner's permissions without which a directory cannot be read."""
_STEP: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Barred(NotADirectoryError):
    """A step is a link or a file where a directory belongs, or its owner's own mode keeps its owner out."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(errno.ENOTDIR, words, name)


def is_locked(seen: os.stat_result, wanted: int = PRIVATE) -> bool:
    """Whether the mode of a file of this process's user denies this user one of the ``wanted`` permissions.

    No mode keeps root out.
    """
    return os.geteuid() != 0 and seen.st_uid == os.geteuid() and seen.st_mode & wanted != wanted


def below(root: PurePosixPath, path: PurePath | str) -> tuple[str, ...]:
    """The steps from the root to a path. Raises ValueError if the path is not below the root."""
    pure = PurePosixPath(path)
    parts = pure.relative_to(root).parts if pure.is_relative_to(root) else ("..",)
    if ".." in parts or any("\0" in part for part in parts):
        raise ValueError(f"{str(path)!r} does not lie below {str(root)!r}")
    return parts


@contextlib.contextmanager
def directory(root: PurePosixPath, steps: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
    """A descriptor of the directory at the end of the steps.

    Raises FileNotFoundError if it is missing (``make`` creates it, and the root), Barred for a link.
    """
    if make:
        Path(root).mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    found = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, step in enumerate(steps):
            with barred(found, step, is_root=not number):
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(step, PRIVATE, dir_fd=found)
                following = os.open(step, _STEP, dir_fd=found)
            os.close(found)
            found = following
        yield found
    finally:
        os.close(found)


@contextlib.contextmanager
def parent(root: PurePosixPath, path: PurePath | str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """A descriptor of a path's parent directory, and the path's name in it. Raises ValueError for the root itself.

    Also what is done inside raises Barred, if the mode of the directory or of the file with the name is the reason.
    """
    steps = below(root, path)
    if not steps:
        raise ValueError(f"{str(path)!r} is the directory itself")
    with directory(root, steps[:-1], make=make) as found, barred(found, steps[-1], is_root=not steps[:-1]):
        yield found, steps[-1]


@contextlib.contextmanager
def barred(found: int, name: str, *, is_root: bool) -> Iterator[None]:
    """Raise Barred in place of the system's error if the user's own programs have caused it.

    :param found: the directory in which ``name`` was to be opened
    :param is_root: whether that is the user's whole directory: its mode says nothing about one Pod
    """
    try:
        yield
    except NotADirectoryError as error:
        raise Barred(name, error.strerror or str(error)) from error
    except PermissionError as error:
        if error.errno == errno.EACCES and ((not is_root and is_locked(os.fstat(found))) or _is_shut(found, name)):
            raise Barred(name, "its owner's mode keeps its owner out") from error
        raise


def _is_shut(found: int, name: str) -> bool:
    """Whether the mode of what has this name keeps its owner from reading it."""
    try:
        seen = os.stat(name, dir_fd=found, follow_symlinks=False)
    except OSError:
        return False
    return is_locked(seen, LISTED if stat.S_ISDIR(seen.st_mode) else stat.S_IRUSR)
