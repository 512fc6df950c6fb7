"""Makes a container image without a registry: a static busybox, as an archive that containerd and Docker load.

Shell: reads this machine's busybox, writes one file. The format is Docker's (``manifest.json``, a configuration,
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
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from router.errors import ConfigError

_FOLDERS: Final = ("bin", "dev", "etc", "home", "proc", "root", "sys", "tmp", "usr/bin", "var/run", "var/tmp")
_EPOCH: Final = "1970-01-01T00:00:00Z"
_SECONDS: Final = 30


PAUSE: Final = "batchgate.test/pause:1"
"""The pause image, which holds a Pod's namespaces: the same busybox, asleep."""


def write(archive: Path, tags: Sequence[str]) -> None:
    """Write the archive: an image under all these tags, and ``PAUSE``.

    :raises ConfigError: busybox is missing, or it needs shared libraries
    """
    layer = _layer(busybox())
    images = [(tags, _configuration(layer, ["sh"])), ([PAUSE], _configuration(layer, ["sleep", "2147483647"]))]
    manifest = []
    with tarfile.open(archive, "w") as out:
        _add(out, "layer.tar", layer)
        for names, configuration in images:
            member = f"{hashlib.sha256(configuration).hexdigest()}.json"
            _add(out, member, configuration)
            manifest.append({"Config": member, "RepoTags": list(names), "Layers": ["layer.tar"]})
        _add(out, "manifest.json", json.dumps(manifest).encode())


def _configuration(layer: bytes, command: Sequence[str]) -> bytes:
    values = {
        "architecture": _architecture(),
        "os": "linux",
        "created": _EPOCH,
        "config": {"Env": ["PATH=/bin:/usr/bin"], "Cmd": list(command)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
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


def _layer(program: Path) -> bytes:
    listed = subprocess.run(
        [str(program), "--list"], capture_output=True, text=True, check=True, timeout=_SECONDS
    ).stdout.split()
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as out:
        for name in _FOLDERS:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755
            out.addfile(folder)
        _add(out, "bin/busybox", program.read_bytes(), mode=0o755)
        for name in listed:
            if name != "busybox":
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                out.addfile(link)
        _add(out, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
        _add(out, "etc/group", b"root:x:0:\nnogroup:x:65534:\n")
    return content.getvalue()


def _add(out: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    out.addfile(info, io.BytesIO(content))


def _architecture() -> str:
    # Images use Go's names.
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
