"""Writes a directory that appears whole or not at all, below an existing one.

Shell. The directory is written under a name that begins with a dot and ends in ``.half``. It gets its own name only
when all its files are on the disk. No link is followed below the given directory. New files and directories get the
group's and others' rights of the given directory: so its admin decides once who may read results.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Final, Self

from router.host.beneath import PRIVATE

_HALF: Final = ".half"
_STEP: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY_BITS: Final = 0o2777
_FILE_BITS: Final = 0o666


class Destination:
    """``<root>/<steps…>`` under its temporary name; a context manager that removes an unfinished directory.

    :param root: made with mode 0700 if it is missing
    :param last: the file that is written last, and that marks a whole directory
    :raises OSError: it cannot be made, or something else is in its place
    """

    def __init__(self, root: Path, steps: tuple[str, ...], last: str) -> None:
        self._root = root
        self._steps = steps
        self._last = last
        self._half = f".{steps[-1]}.{os.urandom(8).hex()}{_HALF}"
        self._open = contextlib.ExitStack()
        self._parent = self._own = -1
        self._mode = PRIVATE
        self.is_there = False
        """Whether the whole directory exists from an earlier time. Nothing is made then."""

    def __enter__(self) -> Self:
        with self._open:
            self._root.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            found = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._open.callback(os.close, found)
            self._mode = stat.S_IMODE(os.fstat(found).st_mode) & _DIRECTORY_BITS | PRIVATE
            for step in self._steps[:-1]:
                found = self._step(found, step, self._open)
            self._parent = found
            self.is_there = self._look()
            if not self.is_there:
                self._sweep()
                self._own = self._step(self._parent, self._half, self._open)
            self._open = self._open.pop_all()  # so that the block's end does not close it
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._own >= 0:
                _remove(self._parent, self._half)
        finally:
            self._open.close()

    def _step(self, found: int, name: str, opened: contextlib.ExitStack) -> int:
        """A descriptor of a directory below another; the directory is made if missing. ``opened`` closes it."""
        made = True
        try:
            os.mkdir(name, PRIVATE, dir_fd=found)
        except FileExistsError:
            made = False
        following = os.open(name, _STEP, dir_fd=found)
        opened.callback(os.close, following)
        if made:
            os.fchmod(following, self._mode)
        return following

    def _look(self) -> bool:
        name = self._steps[-1]
        try:
            found = os.open(name, _STEP, dir_fd=self._parent)
        except FileNotFoundError:
            return False
        with contextlib.ExitStack() as opened:
            opened.callback(os.close, found)
            try:
                os.stat(self._last, dir_fd=found, follow_symlinks=False)
            except FileNotFoundError:
                raise FileExistsError(
                    f"{self._root.joinpath(*self._steps)} is there and was not made by this program: move it away"
                ) from None
        return True

    def _sweep(self) -> None:
        """Remove the leftovers of killed attempts."""
        prefix = f".{self._steps[-1]}."
        for name in os.listdir(self._parent):  # noqa: PTH208 - a descriptor
            if name.startswith(prefix) and name.endswith(_HALF):
                _remove(self._parent, name)

    def has_room(self, size: int, reserve: int) -> bool:
        """Whether ``size`` bytes fit while ``reserve`` bytes stay free."""
        found = os.statvfs(self._own)
        return found.f_bavail * found.f_frsize >= size + reserve

    @contextlib.contextmanager
    def new_file(self, path: PurePosixPath) -> Iterator[Callable[[bytes], None]]:
        """Begin a file, or begin it again, and the directories above it; yields the function that writes its bytes."""
        with contextlib.ExitStack() as opened:
            found = self._own
            for step in path.parts[:-1]:
                found = self._step(found, step, opened)
            file = os.open(path.name, _NEW, 0o600, dir_fd=found)
            opened.callback(os.close, file)
            yield lambda block: _write(file, block)
            os.fchmod(file, self._mode & _FILE_BITS)
            os.fsync(file)

    def remove(self, path: PurePosixPath) -> None:
        """Remove a begun file."""
        with contextlib.ExitStack() as opened, contextlib.suppress(FileNotFoundError):
            found = self._own
            for step in path.parts[:-1]:
                found = os.open(step, _STEP, dir_fd=found)
                opened.callback(os.close, found)
            os.unlink(path.name, dir_fd=found)

    def finish(self, last: bytes) -> bool:
        """Write the last file and rename the directory to its own name; False if another process was faster."""
        with self.new_file(PurePosixPath(self._last)) as write:
            write(last)
        for _, _, _, found in os.fwalk(".", topdown=False, dir_fd=self._own):
            os.fsync(found)
        try:
            os.rename(self._half, self._steps[-1], src_dir_fd=self._parent, dst_dir_fd=self._parent)
        except OSError:
            if self._look():  # a rename onto a directory with files fails
                return False
            raise
        os.fsync(self._parent)
        return True


def _write(file: int, block: bytes) -> None:
    view = memoryview(block)
    while view:
        view = view[os.write(file, view) :]


def _remove(parent: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(name, dir_fd=parent)
