"""Writes a Pod's directory on this machine, whole (by a rename) or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from router.pod.files import DIRECTORY_MODE, FILE_MODE, SUBDIRECTORIES, Staged, relative


def write(directory: str | os.PathLike[str], staged: Staged) -> bool:
    """Make the Pod's directory with these files: all of it appears at once, by a rename.

    Directories get mode 0700, files 0600 or their mode in ``modes``. Returns False if an earlier submission made the
    directory; it then stays as it is. Raises OSError.
    """
    target = Path(directory)
    if target.exists():
        return False
    _private_directory(target.parent)
    half = target.with_name(f".{target.name}.{os.urandom(8).hex()}")
    half.mkdir(mode=DIRECTORY_MODE)
    try:
        for name in SUBDIRECTORIES:
            (half / name).mkdir(mode=DIRECTORY_MODE)
        for name, content in staged.files.items():
            _write_file(half, name, content, staged.modes.get(name, FILE_MODE))
        half.rename(target)
    except OSError:
        if target.exists():  # another submission was faster: a rename onto a directory with files fails
            return False
        raise
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return True


def _write_file(root: Path, name: str, content: bytes, mode: int) -> None:
    path = root / relative(name)
    if name.endswith("/"):
        _private_directory(path)
        return
    _private_directory(path.parent)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)


def _private_directory(path: Path) -> None:
    if not path.is_dir():
        _private_directory(path.parent)
        path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
