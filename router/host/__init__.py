"""The machine from which a site's batch system is reached: its commands, and the files below the site's directory.

The agent uses it only through ``Host``, so that a login node over ssh can take the place of the local machine.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, Protocol

from router.pod.files import Staged

MOST_READ: Final = 1 << 20
"""Bytes that one ``read`` returns at most by default."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. ``returncode`` is ``None`` if the command exceeded its time or could not be started."""

    returncode: int | None
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, slots=True)
class Status:
    """A path's status, of a link itself. ``modified``: since 1970.

    ``kind``: ``file``, ``directory`` or ``other``, such as a link, or a directory that its owner's mode locks.
    """

    kind: str
    size: int
    modified: float


class HostUnavailable(OSError):
    """The host, the connection to it or its site helper does not answer; the text is one sentence with what to do.

    ``lasting``: the error stays until a person changes something (a host key, sudo's rules, the site helper).
    """

    def __init__(self, sentence: str, *, lasting: bool = False) -> None:
        super().__init__(sentence)
        self.lasting = lasting

    def again(self) -> HostUnavailable:
        """A copy, to be raised once more: one exception raised by several threads would collect all their frames."""
        return HostUnavailable(str(self), lasting=self.lasting)


class Piped(Protocol):
    """A running command whose stdin and stdout are the other end of the socket ``end``."""

    end: socket.socket

    def complaint(self) -> str:
        """The last bytes that it has written to stderr."""

    def close(self) -> None:
        """Close our end, wait a little for the command's own end, and end it else. May block for seconds."""


class Runner(Protocol):
    """Runs commands as one account, without access to files."""

    def run(self, argv: Sequence[str], seconds: float, stdin: bytes = b"") -> Ended:
        """Run a command, and end it if it takes more than ``seconds``."""


class Host(Runner, Protocol):
    """Commands and files, as one user: the agent's own, or another that the site lets it act for.

    Paths are absolute and lie below the site's directory; ValueError for any other. Links below it are never followed,
    as Jobs' programs write there and could plant them; a link has the kind ``other``. What lies beyond a link or a
    directory that its owner's own mode locks counts as missing for ``names`` and ``status``; all else raises
    NotADirectoryError then. PermissionError has other causes (an expired ticket, the admin's modes).

    Each method says whether a missing file is ``None``, an empty list or FileNotFoundError. Other errors of the file
    system are OSError. A remote host may also raise HostUnavailable: the request may or may not have been done. A
    command is never sent twice.
    """

    def check(self) -> None:
        """Reach the host, and make the directory if missing. Raises ConfigError or HostUnavailable with the reason."""

    def rest(self, seconds: float) -> None:
        """Close the connection if it was idle for ``seconds``; the next request opens it again.

        Returns at once.
        """

    def pipe(self, argv: Sequence[str]) -> Piped:
        """Start a command for bytes without an end. Raises HostUnavailable, also where this host has no way for it."""

    def names(self, path: PurePath | str) -> list[str]:
        """The names in a directory; empty if it is missing. Raises OSError (EFBIG) if there are too many names."""

    def status(self, path: PurePath | str) -> Status | None:
        """The status of a path; None if it is missing."""

    def size(self, path: PurePath | str) -> int | None:
        """The size of an ordinary file in bytes; None for anything else."""

    def modified(self, path: PurePath | str) -> float | None:
        """When a path was last written, by the file server's clock; None if it is missing."""

    def read(self, path: PurePath | str, offset: int = 0, limit: int = MOST_READ) -> bytes:
        """Bytes of an ordinary file; fewer than ``limit`` only at its end. FileNotFoundError; OSError for a link."""

    def put(self, path: PurePath | str, content: bytes) -> None:
        """Write a file, mode 0600, whole or not at all. A missing directory is made, mode 0700."""

    def make_directory(self, path: PurePath | str) -> None:
        """Make a directory and the ones above it, mode 0700, where missing."""

    def write_pod(self, directory: PurePath | str, staged: Staged) -> bool:
        """Write a Pod's directory, whole or not at all (``router.host.writing``). False if it exists already."""

    def link_claim(self, directory: PurePath | str, token: str) -> bool:
        """Take the claim of a Pod's directory (docs/script.md); True if this token holds it, also from an earlier call.

        True also if the directory is missing, as a script cannot run then. False if it is a link or locked.
        """

    def remove(self, path: PurePath | str) -> None:
        """Remove a file, if it exists."""

    def remove_directory(self, path: PurePath | str) -> None:
        """Remove a directory, if it exists and is empty."""

    def remove_tree(self, path: PurePath | str) -> None:
        """Remove a directory and all below it, if it exists."""

    def clock(self) -> float:
        """The file server's time, in seconds since 1970."""
