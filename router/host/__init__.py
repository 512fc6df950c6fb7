"""The machine where a site's batch system is reached: commands, and the files below the site's directory.

``Host`` is all that the agent knows of it, so that a login node over ssh can take the place of the local machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, Protocol

from router.pod.files import Staged

MOST_READ: Final = 1 << 20
"""Bytes that one ``read`` returns at most, unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. ``returncode`` is None where it gave no answer in time, or could not be started."""

    returncode: int | None
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, slots=True)
class Status:
    """One name, links not followed: ``kind`` is ``file``, ``directory`` or ``other``; times in seconds since 1970."""

    kind: str
    size: int
    modified: float


class HostUnavailable(OSError):
    """The host, the connection to it or the site helper on it does not answer; one sentence with what to do.

    ``lasting``: it will be so until a person has changed something (a host key, sudo's rules, the site helper).
    """

    def __init__(self, sentence: str, *, lasting: bool = False) -> None:
        super().__init__(sentence)
        self.lasting = lasting

    def again(self) -> HostUnavailable:
        """The same, to be raised once more: an exception that several threads raise would collect all their frames."""
        return HostUnavailable(str(self), lasting=self.lasting)


class Runner(Protocol):
    """Commands as one account, and no files."""

    def run(self, argv: Sequence[str], seconds: float, stdin: bytes = b"") -> Ended:
        """Run a command to its end, or end it after so many seconds."""


class Host(Runner, Protocol):
    """Commands and files, as one user: the agent's own, or another that the site lets it act for.

    Paths are absolute and lie below the site's directory; ValueError for any other. No link is followed below it: the
    programs of Jobs write there, and what they plant must lead nowhere. A link reads as a name of kind ``other``.
    What is not there is None, an empty list or FileNotFoundError, as said; other errors of the file system are OSError.
    Of a host that is not this machine, HostUnavailable too: whether what was asked was done is then not known. A command
    is never sent twice.
    """

    def check(self) -> None:
        """Reach it, and make the directory sure. ConfigError, HostUnavailable: it cannot be used, and why."""

    def rest(self, seconds: float) -> None:
        """End what is kept open to it, where nothing was asked of it for so many seconds: the next request opens it again.

        Never waits.
        """

    def names(self, path: PurePath | str) -> list[str]:
        """The names in a directory; none where it is not there. OSError (EFBIG) where they are too many to be listed."""

    def status(self, path: PurePath | str) -> Status | None:
        """What a name is; None where there is none."""

    def size(self, path: PurePath | str) -> int | None:
        """Bytes of an ordinary file; None where there is none."""

    def modified(self, path: PurePath | str) -> float | None:
        """When a name was last written, by the file server's clock; None where there is none."""

    def read(self, path: PurePath | str, offset: int = 0, limit: int = MOST_READ) -> bytes:
        """Bytes of an ordinary file, fewer than ``limit`` only at its end. FileNotFoundError; OSError for a link."""

    def put(self, path: PurePath | str, content: bytes) -> None:
        """Write a file, mode 0600: whole or not at all. Its directory is made, mode 0700, where it is not there."""

    def make_directory(self, path: PurePath | str) -> None:
        """Make a directory, mode 0700, and those above it; nothing where it is there."""

    def write_pod(self, directory: PurePath | str, staged: Staged) -> bool:
        """``router.host.writing``: a Pod's directory, whole or not at all. False where it was there."""

    def link_claim(self, directory: PurePath | str, token: str) -> bool:
        """Take the claim of a Pod's directory (docs/script.md); True where it is ours, now or since an earlier call.

        True also where the directory is not there: no script runs without it.
        """

    def remove(self, path: PurePath | str) -> None:
        """Remove a file; nothing where there is none."""

    def remove_directory(self, path: PurePath | str) -> None:
        """Remove a directory that is empty; nothing where it is not, or where there is none."""

    def remove_tree(self, path: PurePath | str) -> None:
        """Remove a directory and all below it; nothing where there is none."""

    def clock(self) -> float:
        """The file server's time, in seconds since 1970."""
