"""Reads the files that a Pod's script has left in the Pod's directory.

Shell. Only reads; ``router.reconcile.outcomes`` interprets the files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Final

from router.host import Host
from router.pod import layout
from router.pod.layout import PodDirectory
from router.pod.life import CANCELLED
from router.reconcile.model import Inspection

_LONGEST: Final = 4096
"""Most bytes read of a claim, which has one short line."""
_LONGEST_EXIT: Final = 16384
"""The same of an exit file: with 4,096 bytes of a program's last words in base64, and a reason of a thousand characters."""
_MOST_EXITS: Final = 2000
_LONGEST_END: Final = 1000
_NO_SCRIPT: Final = (b"", CANCELLED.encode())
"""Claims with which no script has begun."""
_IN_THE_WAY: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""Errors for a file that its user has removed, locked or replaced."""


def inspect(host: Host, directory: PodDirectory) -> Inspection:
    """The present state of the Pod's directory. Raises OSError if it cannot be read, unless by its user's own doing."""
    if not directory.job_uid:  # a job without a Pod that was found by its name: nobody knows its directory
        return Inspection(exists=False)
    found = host.status(directory.path)
    if found is None and not _is_hidden(host, directory):
        removed = host.status(directory.path.parent.parent.parent) is not None
        return Inspection(exists=False, locked=removed)
    clock = host.clock()
    if found is None or found.kind != "directory":
        return Inspection(exists=True, clock=clock, locked=True)
    exits = tuple(_exits(host, directory))
    claim = small(host, directory, layout.CLAIM)
    return Inspection(
        exists=True,
        claim=claim,
        claimed_at=host.modified(directory.path / layout.CLAIM),
        alive=host.modified(directory.path / layout.ALIVE),
        clock=clock,
        exits=exits,
        logs=tuple(_logs(host, directory, exits)),
        job_id=small(host, directory, layout.JOB_ID),
        output=_end(host, directory) if claim.strip() in _NO_SCRIPT else b"",
        locked=not any(content for _, content in exits) and _lacks_exits(host, directory),
    )


def is_there(host: Host, directory: PodDirectory) -> bool:
    """Whether a Pod's directory exists, as far as its user lets the agent see."""
    return host.status(directory.path) is not None or _is_hidden(host, directory)


def small(host: Host, directory: PodDirectory, name: str, most: int = _LONGEST) -> bytes:
    """At most ``most`` bytes of a small file of the directory; empty if it is missing or locked, or a link or pipe."""
    if host.size(directory.path / name) is None:
        return b""
    with contextlib.suppress(*_IN_THE_WAY):
        return host.read(directory.path / name, 0, most)
    return b""


def _end(host: Host, directory: PodDirectory) -> bytes:
    """The end of the batch job's own output; empty if it is missing or locked, or a link or pipe."""
    with contextlib.suppress(*_IN_THE_WAY):
        size = host.size(directory.output)
        return b"" if size is None else host.read(directory.output, max(0, size - _LONGEST_END), _LONGEST_END)
    return b""


def _is_hidden(host: Host, directory: PodDirectory) -> bool:
    """Whether the user has replaced or locked a directory above the Pod's, in which that may still be used."""
    above = (host.status(path) for path in (directory.path.parent, directory.path.parent.parent))
    return any(found is not None and found.kind != "directory" for found in above)


def _lacks_exits(host: Host, directory: PodDirectory) -> bool:
    """Whether the directory of the exit files, which is made with the Pod's, is missing, replaced or locked."""
    found = host.status(directory.path / layout.EXIT)
    return found is None or found.kind != "directory"


def _exits(host: Host, directory: PodDirectory) -> Iterator[tuple[str, bytes]]:
    names = [name for name in host.names(directory.path / layout.EXIT) if not name.startswith(".")]
    # If a container has restarted often, only its last runs matter: these have the highest numbers.
    names.sort(
        key=lambda name: int(number) if (number := name.rpartition(".")[2]).isascii() and number.isdigit() else 0
    )
    for name in names[-_MOST_EXITS:]:
        yield name, small(host, directory, f"{layout.EXIT}/{name}", _LONGEST_EXIT)


def _logs(host: Host, directory: PodDirectory, exits: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, int]]:
    """The present size of the log of each container's last ended run; 0 if the log is not an ordinary file."""
    last = {name.rpartition(".")[0]: name for name, _ in exits}
    for name in last.values():
        yield name, host.size(directory.path / layout.LOG / name) or 0
