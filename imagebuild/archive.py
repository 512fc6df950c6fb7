"""Reads an image's archive: its digest, its size, its configuration. Copies one with other times.

Shell: reads and writes files.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imagebuild.commands import BuildError


@dataclass(frozen=True, slots=True)
class Image:
    """An image in an archive.

    :param digest: of its configuration, which names the digests of its layers: the image's id, whatever compresses it
    :param tags: its names
    :param configuration: as the image specification has it
    :param size: of its layers, in bytes, as they are in the archive
    """

    digest: str
    tags: tuple[str, ...]
    configuration: dict[str, Any]
    size: int


def read(archive: Path) -> Image:
    """Read an archive with one image, as ``docker save`` and ``podman save`` write it.

    :raises BuildError: it is no such archive
    """
    try:
        with tarfile.open(archive) as opened:
            (entry,) = json.loads(_member(opened, "manifest.json"))
            written = _member(opened, entry["Config"])
            size = sum(opened.getmember(layer).size for layer in set(entry["Layers"]))
    except (tarfile.TarError, KeyError, ValueError) as error:
        raise BuildError(f"{archive} is no archive of one image: {error}") from error
    digest = hashlib.sha256(written).hexdigest()
    return Image(f"sha256:{digest}", tuple(entry["RepoTags"]), json.loads(written), size)


def copy(archive: Path, out: Path, seconds: int) -> None:
    """Copy an archive. Each of its files gets one time, as Docker gives some the time at which it saved the image.

    :param seconds: the time, since 1970
    """
    with tarfile.open(archive) as read, tarfile.open(out, "w") as written:
        for entry in read:
            entry.mtime = seconds
            entry.pax_headers = {}  # it has the time a second time, with its fractions
            written.addfile(entry, read.extractfile(entry) if entry.isreg() else None)


def _member(opened: tarfile.TarFile, name: str) -> bytes:
    found = opened.extractfile(name)
    if found is None:
        raise KeyError(f"{name} is no file")
    return found.read()
