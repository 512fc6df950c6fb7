"""Removes folders in which something may still be mounted.

Shell around a pure function: unmounts, then removes. To remove a folder below which ``/dev`` is mounted would harm the
machine.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from kindcluster import commands
from kindcluster.commands import KindError

_MOUNTS: Final = Path("/proc/self/mounts")


def below(mounts: str, folder: Path) -> list[Path]:
    """The mount points at and below a folder, in the order in which they can be unmounted. Pure.

    :param mounts: the text of ``/proc/self/mounts``
    """
    points = [Path(line.split()[1].replace("\\040", " ")) for line in mounts.splitlines()]
    return [point for point in reversed(points) if point == folder or folder in point.parents]


def unmount(folder: Path) -> None:
    """Unmount all at and below a folder. Raises KindError if a mount is in use."""
    for point in below(_MOUNTS.read_text(), folder.resolve()):
        commands.run(["umount", point])


def discard(folder: Path) -> None:
    """Remove a folder with all below it, unless there is none.

    :raises KindError: a mount below it is in use, or was made meanwhile
    """
    if not folder.exists():
        return
    unmount(folder)
    if left := below(_MOUNTS.read_text(), folder.resolve()):
        raise KindError(f"{folder} is not removed: {left[0]} is mounted; end what uses it, and try again")
    shutil.rmtree(folder)
