"""The directory of a demo: emptied only if a demo made it, and locked against a second demo.

Shell: files and one lock, which the kernel releases when the demo ends in any way.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from router.errors import ConfigError

MARK: Final = ".batchgate-demo"
"""A file that marks its directory as made by a demo."""


@contextmanager
def workplace(directory: Path) -> Iterator[None]:
    """Hold the directory, empty except for the mark. Raises ConfigError if no demo made it, or if it is in use."""
    mark = directory / MARK
    if directory.exists() and not mark.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigError(
            f"{directory}: is not empty and was not made by a demo: nothing in it is touched; name another"
        )
    directory.mkdir(parents=True, exist_ok=True)
    with mark.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"{directory}: another demo is using it; wait for its end, or name another: --work"
            ) from error
        for entry in directory.iterdir():
            if entry == mark:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        yield
