"""Reads policy directories and follows their changes.

Shell: touches files and a clock. Knows how Kubernetes mounts a ConfigMap (files are links through
``..data``, which is swapped as a whole); knows nothing of what policies mean.
"""

from __future__ import annotations

import contextlib
import stat
import threading
from pathlib import Path
from typing import Final

from router.errors import ConfigError, PolicyError, Problem
from router.policy.configmap import decoded, is_policy_file
from router.policy.loading import load
from router.policy.model import Policy
from router.startup.policysource import OnReload, PolicySource

LARGEST: Final = 4 * 1024 * 1024

Signature = tuple[tuple[str, int, int, int, int, int], ...]


def read_directory(path: str | Path) -> dict[str, str]:
    """The policy files of a directory: the texts of ``*.yaml`` and ``*.yml``, by name, without hidden files.

    Raises ConfigError if the directory or any policy file is missing, PolicyError with every file that is not readable
    as UTF-8 text.
    """
    directory = Path(path)
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    for file in _policy_files(directory):
        try:
            texts[file.name] = _text(file)
        except OSError as error:
            problems.append(Problem(file.name, 0, 0, "", f"cannot be read: {error.strerror or error}"))
        except ValueError as error:
            problems.append(Problem(file.name, 0, 0, "", str(error)))
    if problems:
        raise PolicyError(problems)
    if not texts:
        raise ConfigError(f"{directory}: holds no policy file (*.yaml); see docs/policies.md for the least one")
    return texts


def _policy_files(directory: Path) -> list[Path]:
    try:
        return sorted(file for file in directory.iterdir() if is_policy_file(file.name))
    except NotADirectoryError:
        raise ConfigError(f"{directory}: is a file; name the directory that holds the policy files") from None
    except FileNotFoundError:
        raise ConfigError(f"{directory}: there is no such policy directory") from None
    except OSError as error:
        raise ConfigError(f"{directory}: the policy directory cannot be read: {error.strerror}") from error


def _text(file: Path) -> str:
    mode = file.stat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "no ordinary file"
        raise ValueError(f"is {kind}; a policy file was expected here")
    with file.open("rb") as opened:
        data = opened.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"is larger than {LARGEST // 1024**2} MiB")
    return decoded(data)


def _signature(directory: Path) -> Signature | None:
    """A value that changes with any file: names, and device, inode, size and times of the files behind links.

    It includes the time of the last status change (ctime), as ``chmod`` alone can repair an unreadable file.
    """
    try:
        return tuple((file.name, *_stat(file)) for file in _policy_files(directory))
    except ConfigError:
        return None


def _stat(file: Path) -> tuple[int, int, int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return (0, 0, 0, 0, 0)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class PolicyStore(PolicySource):
    """The policy in force, which follows its directory."""

    def __init__(self, path: str | Path, on_reload: OnReload | None = None) -> None:
        super().__init__(on_reload)
        self.path = Path(path)
        self._seen: Signature | None = None
        self._lock = threading.Lock()

    def load(self) -> Policy:
        """Read the directory now and put it into force. Raises PolicyError or ConfigError if it is invalid."""
        with self._lock:
            self._seen = _signature(self.path)
            try:
                policy = load(read_directory(self.path))
            except ConfigError as error:
                self.error = str(error)
                self.failures += 1
                raise
            self.error = ""
            self._put_in_force(policy)
        return policy

    def check_now(self) -> bool:
        """Reload if a file has changed since the last look; returns whether one has. Ignores a bad policy's error."""
        signature = _signature(self.path)
        if signature == self._seen and (signature is not None or self.error):
            return False
        with contextlib.suppress(ConfigError):  # shown by `error` and `failures`; the last good policy stays in force
            self.load()
        self._reloaded()
        return True

    def check(self) -> None:
        """``check_now`` for a watcher of several sources."""
        self.check_now()
