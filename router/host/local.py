"""The local machine as a site's host: commands as processes, files below one directory of the agent's own user.

Shell (processes, files). A command gets a session of its own without a terminal; when its time is over, it is killed
with all that it started. Its argv sets its environment (``env -i``), without the agent's.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import signal
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

from router.errors import ConfigError
from router.host import MOST_READ, Ended, Status, removing, writing
from router.host.beneath import LISTED, PRIVATE, Barred, below, directory, is_locked, parent
from router.host.piping import LocalPiped
from router.host.sitehelper import MOST_NAMES
from router.pod import files as podfiles
from router.pod import layout

_AFTER_KILL: Final = 2.0
"""Seconds to wait for a killed command's pipes: a daemon that it left behind may hold them open."""
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_MODE: Final = 0o600
_CLOCK: Final = ".clock"


class LocalHost:
    """See ``router.host.Host``.

    :param root: the site's directory of this cluster; made on the first use
    """

    def __init__(self, root: PurePath | str) -> None:
        self._root = PurePosixPath(root)

    def check(self) -> None:
        """Make the directory if missing, mode 0700. Raises ConfigError if it is unusable or another user's."""
        root = Path(self._root)
        try:
            root.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            found = root.stat()
        except OSError as error:
            raise ConfigError(
                f"{self._root}: the site's work directory cannot be used: {error.strerror}; see workDir in the policy"
            ) from error
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise ConfigError(
                f"{self._root}: belongs to uid {found.st_uid}, and the agent runs as uid {os.geteuid()}; "
                "remove it, or choose another workDir"
            )
        if found.st_mode & 0o077:
            root.chmod(PRIVATE)

    def rest(self, seconds: float) -> None:
        """See ``Host``; there is no connection to close."""

    def run(self, argv: Sequence[str], seconds: float, stdin: bytes = b"") -> Ended:
        """See ``Host``."""
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            return Ended(None, b"", f"{argv[0]}: {error.strerror}".encode())
        try:
            stdout, stderr = process.communicate(stdin, timeout=seconds)
        except subprocess.TimeoutExpired:
            return _killed(process, seconds)
        return Ended(process.returncode, stdout, stderr)

    def pipe(self, argv: Sequence[str]) -> LocalPiped:
        """See ``Host``."""
        return LocalPiped(argv)

    def names(self, path: PurePath | str) -> list[str]:
        """See ``Host``."""
        try:
            with directory(self._root, below(self._root, path)) as found, os.scandir(found) as entries:
                listed = [entry.name for entry in itertools.islice(entries, MOST_NAMES + 1)]
        except (FileNotFoundError, Barred):
            return []
        if len(listed) > MOST_NAMES:
            raise OSError(errno.EFBIG, f"holds more than {MOST_NAMES} names; remove some", str(path))
        return listed

    def status(self, path: PurePath | str) -> Status | None:
        """See ``Host``."""
        try:
            with parent(self._root, path) as (found, name):
                seen = os.stat(name, dir_fd=found, follow_symlinks=False)
        except (FileNotFoundError, Barred):
            return None
        return Status(_kind(seen), seen.st_size, seen.st_mtime)

    def size(self, path: PurePath | str) -> int | None:
        """See ``Host``."""
        found = self.status(path)
        return found.size if found is not None and found.kind == "file" else None

    def modified(self, path: PurePath | str) -> float | None:
        """See ``Host``."""
        found = self.status(path)
        return None if found is None else found.modified

    def read(self, path: PurePath | str, offset: int = 0, limit: int = MOST_READ) -> bytes:
        """See ``Host``."""
        with parent(self._root, path) as (found, name):
            file = os.open(name, _READ, dir_fd=found)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError(f"{path}: is no ordinary file")
            blocks = []
            while limit > 0 and (block := os.pread(file, min(limit, MOST_READ), offset)):
                blocks.append(block)
                offset, limit = offset + len(block), limit - len(block)
        finally:
            os.close(file)
        return b"".join(blocks)

    def put(self, path: PurePath | str, content: bytes) -> None:
        """See ``Host``."""
        with parent(self._root, path, make=True) as (found, name):
            half = f".{name}.{os.urandom(8).hex()}"
            try:
                _write(found, half, content)
                os.rename(half, name, src_dir_fd=found, dst_dir_fd=found)
            except OSError:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(half, dir_fd=found)
                raise

    def make_directory(self, path: PurePath | str) -> None:
        """See ``Host``."""
        with directory(self._root, below(self._root, path), make=True):
            pass

    def write_pod(self, directory: PurePath | str, staged: podfiles.Staged) -> bool:
        """See ``Host``."""
        with parent(self._root, directory, make=True) as (found, name):
            # The descriptor as a path: writing.write takes paths, and this one was reached without following a link.
            return writing.write(f"/proc/self/fd/{found}/{name}", staged)

    def link_claim(self, directory: PurePath | str, token: str) -> bool:
        """See ``Host``."""
        try:
            with parent(self._root, PurePosixPath(directory) / layout.CLAIM) as (found, name):
                return _link_claim(found, name, token)
        except FileNotFoundError:
            return True
        except Barred:
            return False

    def remove(self, path: PurePath | str) -> None:
        """See ``Host``."""
        with contextlib.suppress(FileNotFoundError), parent(self._root, path) as (found, name):
            os.unlink(name, dir_fd=found)

    def remove_directory(self, path: PurePath | str) -> None:
        """See ``Host``."""
        try:
            with parent(self._root, path) as (found, name):
                os.rmdir(name, dir_fd=found)
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST}:
                raise

    def remove_tree(self, path: PurePath | str) -> None:
        """See ``Host``."""
        with contextlib.suppress(FileNotFoundError), parent(self._root, path) as (found, name):
            removing.remove_tree(found, name)

    def clock(self) -> float:
        """See ``Host``."""
        with directory(self._root, (), make=True) as found:
            file = os.open(_CLOCK, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE_MODE, dir_fd=found)
            try:
                os.utime(file)
                return os.fstat(file).st_mtime
            finally:
                os.close(file)


def _killed(process: subprocess.Popen[bytes], seconds: float) -> Ended:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        stdout, stderr = process.communicate(timeout=_AFTER_KILL)
    except subprocess.TimeoutExpired as left:
        stdout, stderr = left.stdout or b"", left.stderr or b""
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_AFTER_KILL)
    return Ended(None, stdout, stderr + f"gave no answer within {seconds:g} seconds".encode())


def _write(found: int, name: str, content: bytes) -> None:
    with os.fdopen(os.open(name, _NEW, _FILE_MODE, dir_fd=found), "wb") as file:
        file.write(content)


def _link_claim(found: int, name: str, token: str) -> bool:
    """Take a claim by the script's own protocol: the link itself counts, as ``link`` may report an error on NFS."""
    mine = f"{name}.{token}.{os.urandom(8).hex()}"
    _write(found, mine, f"{token}\n".encode())
    try:
        with contextlib.suppress(OSError):
            os.link(mine, name, src_dir_fd=found, dst_dir_fd=found, follow_symlinks=False)
            return True
        if os.stat(mine, dir_fd=found).st_nlink == 2:
            return True
        return _owner(found, name) == token
    finally:
        os.unlink(mine, dir_fd=found)


def _owner(found: int, name: str) -> str:
    """The first line of a claim; empty if it cannot be read."""
    try:
        file = os.open(name, _READ, dir_fd=found)
    except OSError:
        return ""
    try:  # not by fdopen, which refuses a directory and leaves it open
        return os.read(file, 256).partition(b"\n")[0].decode(errors="replace").strip()
    except OSError:
        return ""
    finally:
        os.close(file)


def _kind(seen: os.stat_result) -> str:
    if stat.S_ISDIR(seen.st_mode):
        return "other" if is_locked(seen, LISTED) else "directory"
    return "file" if stat.S_ISREG(seen.st_mode) else "other"
