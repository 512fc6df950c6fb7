"""Opens paths below a directory without ever following a link there.

Shell (files). Every step is an openat with O_NOFOLLOW from the previous step, so that a path exchanged meanwhile cannot
lead elsewhere. Links above the directory itself belong to the admin and are followed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

PRIVATE: Final = 0o700
_STEP: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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

    Raises FileNotFoundError if it is missing (``make`` creates it, and the root), OSError for a link.
    """
    if make:
        Path(root).mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    found = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in steps:
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
    """A descriptor of a path's parent directory, and the path's name in it. Raises ValueError for the root itself."""
    steps = below(root, path)
    if not steps:
        raise ValueError(f"{str(path)!r} is the directory itself")
    with directory(root, steps[:-1], make=make) as found:
        yield found, steps[-1]
