"""A real image registry on loopback: Debian's docker-registry, filled by skopeo with images that are made here.

``with serving(tmp_path) as registry: registry.push("team/tool:1", Image([shell()]))``. The layers of an
image are made of files and of this machine's programs with their libraries: no other registry is asked for anything.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import re
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from router.controlplane import ports

USER: Final = "ada"
PASSWORD: Final = "correct horse"
"""Who may pull from a registry that asks."""
_HTPASSWD: Final = f"{USER}:$2b$05$ueQ0TXr8vsHt3Hk8kkgmReVw.UBELZV49rY222KsMkLwCchiGDLAq\n"
"""As ``htpasswd -B`` writes it: docker-registry knows no other hash."""
_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
_FETCHED: Final = re.compile(r'"GET /v2/\S+/blobs/(sha256:[0-9a-f]{64})\S* HTTP/[0-9.]+" (200|206) ')
_ASKED: Final = re.compile(r'"(GET|HEAD) (/v2/\S*) HTTP/[0-9.]+" (\d+) ')
_APPLETS: Final = ("sh", "cat", "echo", "env", "id", "ls", "mkdir", "pwd", "sleep", "touch", "true")
_PROGRAMS: Final = ("docker-registry", "skopeo")


Layer = Mapping[str, bytes | str]


@dataclass(frozen=True, slots=True)
class Image:
    """What is in an image.

    :param layers: the files of each layer: path without the first slash, to content (mode 0755), or to where a
        symbolic link leads
    :param config: the image's ``config`` as in OCI's: ``Env``, ``Entrypoint``, ``Cmd``, ``WorkingDir``, ``User``
    """

    layers: Sequence[Layer] = ()
    config: Mapping[str, object] = field(default_factory=dict)
    architecture: str = "amd64"


@dataclass(frozen=True, slots=True)
class Pushed:
    """An image as the registry has it.

    :param digest: of the manifest for its architecture
    :param layers: digests of the layers' blobs
    """

    digest: str
    config: str
    layers: tuple[str, ...]


@dataclass(slots=True)
class Registry:
    """A registry that runs.

    :param address: ``127.0.0.1:port``, as it stands in an image's name
    :param private: only ``USER`` with ``PASSWORD`` may pull
    """

    address: str
    directory: Path
    private: bool
    process: subprocess.Popen[bytes]

    def named(self, name: str) -> str:
        """The image's name as a Job writes it."""
        return f"{self.address}/{name}"

    def push(self, name: str, *images: Image, schema: str = "oci", index: bool = False) -> tuple[Pushed, ...]:
        """Put an image there, or several of different architectures under one name.

        :param name: ``team/tool:tag``
        :param schema: ``oci``, or ``v2s2`` for Docker's
        :param index: below an index, also where it is but one
        """
        with tempfile.TemporaryDirectory(dir=self.directory) as place:
            written = [_write(Path(place), image) for image in images]
            top = _index(Path(place), written) if index or len(images) > 1 else written[0].descriptor
            _write_index(Path(place), [top])
            self._copy(Path(place), name, schema)
        if schema == "oci":
            return tuple(one.pushed for one in written)
        return (self._as_pushed(name),)

    def _copy(self, layout: Path, name: str, schema: str) -> None:
        words = ["skopeo", "--insecure-policy", "copy", "--quiet", "--all", "--dest-tls-verify=false"]
        words += ["--format", schema] if schema != "oci" else []
        words += ["--dest-creds", f"{USER}:{PASSWORD}"] if self.private else []
        done = subprocess.run(
            [*words, f"oci:{layout}", f"docker://{self.named(name)}"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def _as_pushed(self, name: str) -> Pushed:
        """What became of an image that skopeo had to convert."""
        words = ["skopeo", "inspect", "--raw", "--tls-verify=false"]
        words += ["--creds", f"{USER}:{PASSWORD}"] if self.private else []
        raw = subprocess.run([*words, f"docker://{self.named(name)}"], capture_output=True, check=True).stdout
        manifest = json.loads(raw)
        layers = tuple(layer["digest"] for layer in manifest["layers"])
        return Pushed(_digest(raw), manifest["config"]["digest"], layers)

    def log(self) -> str:
        """All that it has written."""
        return (self.directory / "log").read_text(errors="replace")

    def fetched(self) -> list[str]:
        """The digest of each blob that somebody took, once for each time, in that order."""
        return [found[1] for found in _FETCHED.finditer(self.log())]

    def asked(self) -> list[tuple[str, str, int]]:
        """Method, path and status of each question that only reads."""
        return [(found[1], found[2], int(found[3])) for found in _ASKED.finditer(self.log())]

    def forget(self) -> None:
        """Begin the log anew."""
        (self.directory / "log").write_text("")

    def stop(self) -> None:
        """End it; what was pushed stays."""
        self.process.kill()
        self.process.wait(30)

    def start(self) -> None:
        """Start it anew, at the same address."""
        self.process = _started(self.directory, self.address)


@contextlib.contextmanager
def serving(
    directory: Path,
    *,
    private: bool = False,
    token: Mapping[str, str] | None = None,
    tls: tuple[Path, Path] | None = None,
) -> Iterator[Registry]:
    """A registry until the end of the block. The test is skipped where its programs are missing.

    :param token: instead of a password: realm, service, issuer, rootcertbundle of a server of tokens
    :param tls: certificate and key
    """
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    (port,) = ports.free(1, "127.0.0.1")
    address = f"127.0.0.1:{port}"
    place = Path(tempfile.mkdtemp(prefix="registry-", dir=directory))
    (place / "htpasswd").write_text(_HTPASSWD)
    (place / "config.json").write_text(json.dumps(_config(place, address, private=private, token=token, tls=tls)))
    asks = private or token is not None
    registry = Registry(address, place, asks, _started(place, address))
    try:
        yield registry
    finally:
        registry.stop()


def _config(
    place: Path,
    address: str,
    *,
    private: bool,
    token: Mapping[str, str] | None,
    tls: tuple[Path, Path] | None,
) -> dict[str, object]:
    http: dict[str, object] = {"addr": address, "secret": "of no use to anybody"}
    if tls is not None:
        http["tls"] = {"certificate": str(tls[0]), "key": str(tls[1])}
    found: dict[str, object] = {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": False}},
        "storage": {"filesystem": {"rootdirectory": str(place / "storage")}},
        "http": http,
    }
    if token is not None:
        found["auth"] = {"token": dict(token)}
    elif private:
        found["auth"] = {"htpasswd": {"realm": "tests", "path": str(place / "htpasswd")}}
    return found


def _started(place: Path, address: str) -> subprocess.Popen[bytes]:
    """The process, when it answers."""
    with (place / "log").open("ab") as log:
        process = subprocess.Popen(
            ["docker-registry", "serve", str(place / "config.json")], stdout=log, stderr=subprocess.STDOUT, cwd=place
        )
    deadline = time.monotonic() + 120
    while not _answers(address):
        assert process.poll() is None, (place / "log").read_text()
        assert time.monotonic() < deadline, "docker-registry does not answer"
        time.sleep(0.05)
    return process


def _answers(address: str) -> bool:
    host, _, port = address.partition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False


@dataclass(frozen=True, slots=True)
class _Written:
    descriptor: dict[str, object]
    pushed: Pushed


def _write(layout: Path, image: Image) -> _Written:
    """Put an image's blobs into an OCI layout."""
    tars = [_tar(layer) for layer in image.layers]
    layers = [_blob(layout, gzip.compress(tar, mtime=0), _LAYER) for tar in tars]
    config = {
        "architecture": image.architecture,
        "os": "linux",
        "config": dict(image.config),
        "rootfs": {"type": "layers", "diff_ids": [_digest(tar) for tar in tars]},
    }
    described = _blob(layout, json.dumps(config).encode(), _CONFIG)
    manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": described, "layers": layers}
    top = _blob(layout, json.dumps(manifest).encode(), _MANIFEST)
    digests = tuple(str(layer["digest"]) for layer in layers)
    platform = {"architecture": image.architecture, "os": "linux"}
    return _Written({**top, "platform": platform}, Pushed(str(top["digest"]), str(described["digest"]), digests))


def _index(layout: Path, written: Sequence[_Written]) -> dict[str, object]:
    """The descriptor of an index over several images."""
    content = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [one.descriptor for one in written]}
    return _blob(layout, json.dumps(content).encode(), _INDEX)


def _write_index(layout: Path, descriptors: Sequence[Mapping[str, object]]) -> None:
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": list(descriptors)}))


def _blob(layout: Path, content: bytes, kind: str) -> dict[str, object]:
    """A descriptor of a blob that was written."""
    digest = _digest(content)
    path = layout / "blobs" / "sha256" / digest.partition(":")[2]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return {"mediaType": kind, "digest": digest, "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _tar(files: Layer) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.mode = 0o755
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def shell() -> dict[str, bytes | str]:
    """A layer with a shell and small programs: Busybox of this machine. The test is skipped where there is none."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("not installed: busybox")
    links = {f"bin/{name}": "busybox" for name in _APPLETS}
    return {"bin/busybox": Path(busybox).read_bytes(), **links, **_libraries(busybox)}


def _libraries(program: str) -> dict[str, bytes]:
    """What a program is linked against."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return {path.lstrip("/"): Path(path).read_bytes() for path in re.findall(r"(/\S+) \(0x", said)}
