"""An image of this checkout without a registry and without a network: this Python, what ``requirements.lock`` names, ``router``.

Written as a Docker archive, which ``ctr images import`` takes. It has no shell: whatever the container needs beyond its
entry point would show.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import router

ROOT = Path(__file__).parent.parent.parent
PREFIX = "opt/python"
LIBRARIES = "opt/libraries"
_LEFT_OUT = frozenset(
    {"site-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "__pycache__"}
)
_LAUNCHER = f"""#!/{PREFIX}/bin/python3
import sys
from router.cli import main
sys.exit(main())
"""


def write(archive: Path, tag: str) -> None:
    """Write the archive: one layer, one image under this tag, with the entry point ``batchgate``."""
    layer = archive.with_suffix(".layer")
    with tarfile.open(layer, "w") as out:
        for name, source in sorted(_files().items()):
            _add(out, name, source.read_bytes(), 0o755 if source.stat().st_mode & 0o100 else 0o644)
        _add(out, "usr/local/bin/batchgate", _LAUNCHER.encode(), 0o755)
        _add(out, "etc/passwd", b"batchgate:x:65532:65532::/:/sbin/nologin\n")
    configuration = json.dumps(
        {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
            "os": "linux",
            "config": {
                "Entrypoint": ["/usr/local/bin/batchgate"],
                # Debian's Python looks for packages in a directory of its own.
                "Env": ["PATH=/usr/local/bin", f"LD_LIBRARY_PATH=/{LIBRARIES}", f"PYTHONPATH=/{_packages_path()}"],
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}"]},
        }
    ).encode()
    manifest = [{"Config": "image.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as out:
        out.add(layer, "layer.tar")
        _add(out, "image.json", configuration)
        _add(out, "manifest.json", json.dumps(manifest).encode())
    layer.unlink()


def _stdlib() -> str:
    return f"{PREFIX}/lib/python{sys.version_info.major}.{sys.version_info.minor}"


def _packages_path() -> str:
    return f"{_stdlib()}/site-packages"


def _files() -> dict[str, Path]:
    """Path in the image to file of this machine."""
    files = {f"{PREFIX}/bin/python3": Path(sys.executable).resolve()}
    for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}:
        base = Path(folder)
        for file in _below(base):
            files[f"{_stdlib()}/{file.relative_to(base)}"] = file
    packages = _packages_path()
    for file, relative in _packages():
        files[f"{packages}/{relative}"] = file
    source = Path(router.__file__).parent
    for file in _below(source):
        files[f"{packages}/router/{file.relative_to(source)}"] = file
    return files | _libraries(
        [path for path in files.values() if ".so" in path.suffixes or path.name.startswith("python")]
    )


def _below(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name in _LEFT_OUT or path.name.startswith("config-"):
            continue
        if path.is_dir():
            yield from _below(path)
        else:
            yield path


def _packages() -> Iterator[tuple[Path, str]]:
    lock = (ROOT / "requirements.lock").read_text()
    for name in re.findall(r"^([A-Za-z0-9._-]+)==", lock, re.MULTILINE):
        try:
            found = distribution(name)
        except PackageNotFoundError:  # for another platform than this
            continue
        for file in found.files or ():
            path = Path(str(found.locate_file(file)))
            if ".." not in file.parts and "__pycache__" not in file.parts and path.is_file():
                yield path, str(file)


def _libraries(binaries: Iterable[Path]) -> dict[str, Path]:
    """The shared libraries that these need, as this machine's loader finds them; the loader itself at its own place."""
    found = {}
    told = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False).stdout
    for line in told.splitlines():
        if match := re.fullmatch(r"\s+(?P<name>\S+) => (?P<path>/\S+) \(0x[0-9a-f]+\)", line):
            if "site-packages" not in match["path"]:
                found[f"{LIBRARIES}/{match['name']}"] = Path(match["path"])
        elif match := re.fullmatch(r"\s+/(?P<path>\S+) \(0x[0-9a-f]+\)", line):
            found[match["path"]] = Path("/", match["path"])
    return found


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _add(out: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    out.addfile(info, io.BytesIO(content))
