"""Makes container images without a registry, as archives that containerd and Docker load: a static busybox, and others.

Shell: reads this machine's programs, writes files. The format is Docker's (``manifest.json``, a configuration,
layers), which ``ctr images import`` takes.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from router.errors import ConfigError

_FOLDERS: Final = ("bin", "dev", "etc", "home", "proc", "root", "sys", "tmp", "usr/bin", "var/run", "var/tmp")
_EPOCH: Final = "1970-01-01T00:00:00Z"
_SECONDS: Final = 30
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where a container looks for programs."""

PAUSE: Final = "batchgate.test/pause:1"
"""The pause image, which holds a Pod's namespaces: the same busybox, asleep."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image with one layer.

    :param tags: its names, such as ``registry.k8s.io/etcd:3.6.8-0``
    :param layer: an archive that ``write_layer`` wrote
    :param entrypoint: the program that a container starts by default
    :param command: the arguments of it, or a program with its arguments if there is no entry point
    """

    tags: tuple[str, ...]
    layer: Path
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


def write(archive: Path, tags: Sequence[str]) -> None:
    """Write the archive: an image under all these tags, and ``PAUSE``.

    :raises ConfigError: busybox is missing, or it needs shared libraries
    """
    layer = archive.with_suffix(".layer")
    write_busybox_layer(layer, busybox())
    asleep = Image((PAUSE,), layer, command=("sleep", "2147483647"))
    write_images(archive, [Image(tuple(tags), layer, command=("sh",)), asleep])
    layer.unlink()


def write_images(archive: Path, images: Sequence[Image]) -> None:
    """Write an archive of these images; those of the same layer share it."""
    digests = {image.layer: _digest(image.layer) for image in images}
    manifest = []
    with tarfile.open(archive, "w") as out:
        for layer, digest in digests.items():
            _add(out, f"{digest}.tar", layer)
        for image in images:
            configuration = _configuration(image, digests[image.layer])
            member = f"{hashlib.sha256(configuration).hexdigest()}.json"
            _add(out, member, configuration)
            layers = [f"{digests[image.layer]}.tar"]
            manifest.append({"Config": member, "RepoTags": list(image.tags), "Layers": layers})
        _add(out, "manifest.json", json.dumps(manifest).encode())


def write_layer(layer: Path, programs: Mapping[str, Path], links: Mapping[str, str]) -> None:
    """Write a layer: the folders of a container's file system, programs with their libraries, and links.

    :param programs: by its path in the image, without the first slash, each file with its content on this machine
    :param links: by its path in the image, what each symbolic link leads to
    """
    with tarfile.open(layer, "w") as out:
        _add_folders(out)
        for name, source in programs.items():
            _add(out, name, source, mode=0o755)
        for name, target in links.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            out.addfile(link)
        _add(out, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
        _add(out, "etc/group", b"root:x:0:\nnogroup:x:65534:\n")


def _configuration(image: Image, digest: str) -> bytes:
    config: dict[str, list[str]] = {"Env": [f"PATH={PATH}"]}
    if image.entrypoint:
        config["Entrypoint"] = list(image.entrypoint)
    if image.command:
        config["Cmd"] = list(image.command)
    values = {
        "architecture": _architecture(),
        "os": "linux",
        "created": _EPOCH,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    return json.dumps(values).encode()


def busybox() -> Path:
    """The path of this machine's static busybox. Raises ConfigError if there is none."""
    found = shutil.which("busybox", path="/bin:/usr/bin")
    if found is None:
        raise ConfigError("there is no busybox on this machine (Debian's package busybox-static)")
    linked = subprocess.run(["ldd", found], capture_output=True, text=True, check=False, timeout=_SECONDS)
    if linked.returncode == 0:
        raise ConfigError(f"{found} needs shared libraries; an image needs a static one (Debian's busybox-static)")
    return Path(found)


def write_busybox_layer(layer: Path, program: Path) -> None:
    """Write a layer of busybox, with a link for each of its programs."""
    listed = subprocess.run(
        [str(program), "--list"], capture_output=True, text=True, check=True, timeout=_SECONDS
    ).stdout.split()
    write_layer(layer, {"bin/busybox": program}, {f"bin/{name}": "busybox" for name in listed if name != "busybox"})


def _add_folders(out: tarfile.TarFile) -> None:
    for name in _FOLDERS:
        folder = tarfile.TarInfo(name)
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755
        out.addfile(folder)


def _add(out: tarfile.TarFile, name: str, content: bytes | Path, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.mode = mode
    if isinstance(content, bytes):
        info.size = len(content)
        out.addfile(info, io.BytesIO(content))
    else:
        info.size = content.stat().st_size
        with content.open("rb") as stream:
            out.addfile(info, stream)


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _architecture() -> str:
    # Images use Go's names.
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
