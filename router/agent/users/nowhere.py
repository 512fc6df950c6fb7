"""The host of Pods whose HPC user is not proven: it lacks files, and refuses commands.

Shell (a clock). A Pod belongs here until its signature, or files of its job, show its user. It stays here if the agent
may not act as that user. Questions about files are answered truthfully. All attempts to write a file or to run a
command are refused.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import PurePath
from typing import NoReturn

from router.host import MOST_READ, Ended, HostUnavailable, Piped, Status
from router.pod.files import Staged


class Nowhere:
    """See ``router.host.Host``."""

    def check(self) -> None:
        """See ``Host``: nothing has to be made."""

    def rest(self, seconds: float) -> None:
        """See ``Host``: nothing is open."""

    def run(self, argv: Sequence[str], seconds: float, stdin: bytes = b"") -> Ended:  # noqa: ARG002 - a Host's
        """See ``Host``."""
        return Ended(None, b"", f"{argv[0]}: the Pod's HPC user is not proven".encode())

    def pipe(self, argv: Sequence[str]) -> Piped:
        """See ``Host``."""
        raise HostUnavailable(f"{argv[0]}: the Pod's HPC user is not proven")

    def names(self, path: PurePath | str) -> list[str]:  # noqa: ARG002 - a Host's
        """See ``Host``."""
        return []

    def status(self, path: PurePath | str) -> Status | None:  # noqa: ARG002 - a Host's
        """See ``Host``."""
        return None

    def size(self, path: PurePath | str) -> int | None:  # noqa: ARG002 - a Host's
        """See ``Host``."""
        return None

    def modified(self, path: PurePath | str) -> float | None:  # noqa: ARG002 - a Host's
        """See ``Host``."""
        return None

    def read(self, path: PurePath | str, offset: int = 0, limit: int = MOST_READ) -> bytes:  # noqa: ARG002 - a Host's
        """See ``Host``."""
        raise FileNotFoundError(f"{path}: the Pod's HPC user is not proven")

    def put(self, path: PurePath | str, content: bytes) -> None:  # noqa: ARG002 - a Host's
        """See ``Host``."""
        _refuse(path)

    def make_directory(self, path: PurePath | str) -> None:
        """See ``Host``."""
        _refuse(path)

    def write_pod(self, directory: PurePath | str, staged: Staged) -> bool:  # noqa: ARG002 - a Host's
        """See ``Host``."""
        _refuse(directory)

    def link_claim(self, directory: PurePath | str, token: str) -> bool:  # noqa: ARG002 - a Host's
        """See ``Host``: the directory does not exist."""
        return True

    def remove(self, path: PurePath | str) -> None:
        """See ``Host``."""

    def remove_directory(self, path: PurePath | str) -> None:
        """See ``Host``."""

    def remove_tree(self, path: PurePath | str) -> None:
        """See ``Host``."""

    def clock(self) -> float:
        """See ``Host``."""
        return time.time()


def _refuse(path: PurePath | str) -> NoReturn:
    raise PermissionError(f"{path}: the Pod's HPC user is not proven")
