"""Reading a Pod's directory: what its script has left there.

Shell. A look at the files as they are; ``router.reconcile.outcomes`` says what they mean.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Final

from router.host import Host
from router.pod import layout
from router.pod.layout import PodDirectory
from router.reconcile.model import Inspection

_LONGEST: Final = 4096
"""Bytes of a file that is read: claims and exit files have a line."""
_MOST_EXITS: Final = 2000


def inspect(host: Host, directory: PodDirectory) -> Inspection:
    """The Pod's directory now. OSError where it cannot be read."""
    if host.status(directory.path) is None:
        return Inspection(exists=False)
    clock = host.clock()
    exits = tuple(_exits(host, directory))
    return Inspection(
        exists=True,
        claim=small(host, directory, layout.CLAIM),
        claimed_at=host.modified(directory.path / layout.CLAIM),
        alive=host.modified(directory.path / layout.ALIVE),
        clock=clock,
        exits=exits,
        logs=tuple(_logs(host, directory, exits)),
        job_id=small(host, directory, layout.JOB_ID),
    )


def small(host: Host, directory: PodDirectory, name: str, most: int = _LONGEST) -> bytes:
    """At most so many bytes of a small file of the directory; empty where there is none, or a link or pipe that somebody put in its place."""
    if host.size(directory.path / name) is None:
        return b""
    with contextlib.suppress(FileNotFoundError):
        return host.read(directory.path / name, 0, most)
    return b""


def _exits(host: Host, directory: PodDirectory) -> Iterator[tuple[str, bytes]]:
    names = [name for name in host.names(directory.path / layout.EXIT) if not name.startswith(".")]
    # Of a container that has restarted often only the last runs matter, and these have the highest numbers.
    names.sort(
        key=lambda name: int(number) if (number := name.rpartition(".")[2]).isascii() and number.isdigit() else 0
    )
    for name in names[-_MOST_EXITS:]:
        yield name, small(host, directory, f"{layout.EXIT}/{name}")


def _logs(host: Host, directory: PodDirectory, exits: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, int]]:
    """How much is seen of the log of each container's last run that has ended; nothing of one that is no file."""
    last = {name.rpartition(".")[0]: name for name, _ in exits}
    for name in last.values():
        yield name, host.size(directory.path / layout.LOG / name) or 0
