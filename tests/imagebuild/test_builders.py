"""How Docker and podman are called, and what an archive says of its image."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from imagebuild import archive, builders
from imagebuild.builders import BILLS, Plan
from imagebuild.commands import BuildError
from imagebuild.source import ROOT, Source

SOURCE = Source("1.2.3", "0" * 40, 1_700_000_000)
PLAN = Plan(SOURCE, "example.org/base:1", "today", {"ca": Path("/etc/ca.crt")})
SHARED = [
    *("--file", f"{ROOT}/image/Containerfile", "--target", "batchgate"),
    *("--build-arg", "BASE=example.org/base:1", "--build-arg", "CREATED=2023-11-14T22:13:20Z"),
    *("--build-arg", "FETCHED=today"),
    *("--build-arg", f"REVISION={'0' * 40}", "--build-arg", "SOURCE_DATE_EPOCH=1700000000"),
    *("--build-arg", "VERSION=1.2.3", "--secret", "id=ca,src=/etc/ca.crt"),
]
OUT = Path("/out/batchgate.tar")


def _for(target: str) -> list[str]:
    return [target if word == "batchgate" else word for word in SHARED]


def test_podman_builds_and_then_saves() -> None:
    build = ["podman", "build", "--quiet", "--isolation", "chroot", "--format", "docker"]

    assert builders.podman(PLAN, "batchgate", OUT) == [
        [*build, *SHARED, "--timestamp", "1700000000", "--tag", "localhost/batchgate:1.2.3", str(ROOT)],
        ["podman", "save", "--quiet", "--format", "docker-archive", "--output", str(OUT), "localhost/batchgate:1.2.3"],
    ]
    assert builders.podman(PLAN, BILLS, OUT.parent) == [
        [*build, *_for(BILLS), "--timestamp", "1700000000", "--output", "type=local,dest=/out", str(ROOT)]
    ]


def test_docker_does_both_at_once() -> None:
    build = ["docker", "buildx", "build", "--quiet", "--provenance=false"]
    kind = f"type=docker,dest={OUT},rewrite-timestamp=true"

    assert builders.docker(PLAN, "batchgate", OUT) == [
        [*build, *SHARED, "--tag", "localhost/batchgate:1.2.3", "--output", kind, str(ROOT)]
    ]
    assert builders.docker(PLAN, BILLS, OUT.parent) == [
        [*build, *_for(BILLS), "--output", "type=local,dest=/out", str(ROOT)]
    ]


def test_every_target_is_in_the_containerfile() -> None:
    named = {line.split()[3] for line in _containerfile() if line.startswith("FROM ")}

    assert {*builders.IMAGES, BILLS} <= named


def test_the_context_is_what_is_copied() -> None:
    copied = {
        word.split("/")[0]
        for line in _containerfile()
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    }
    listed = (ROOT / ".dockerignore").read_text().split("*\n", 1)[1].splitlines()

    assert {line.removeprefix("!") for line in listed if line.startswith("!")} == copied


def test_packages_are_named_once_and_in_order() -> None:
    named = [
        [line for line in (ROOT / "image" / name).read_text().splitlines() if not line.startswith("#")]
        for name in ("packages", "packages-local")
    ]

    assert named == [sorted(set(one)) for one in named]
    assert set(named[0]) & set(named[1]) == set()


def _containerfile() -> list[str]:
    return (ROOT / builders.CONTAINERFILE).read_text().splitlines()


def _archive(path: Path, **members: bytes) -> Path:
    with tarfile.open(path, "w") as out:
        for name, content in members.items():
            info = tarfile.TarInfo(name.replace("_", "."))
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))
    return path


def test_an_archive_is_read(tmp_path: Path) -> None:
    configuration = b'{"os": "linux"}'
    manifest = [{"Config": "image.json", "RepoTags": ["localhost/a:1"], "Layers": ["a.tar", "a.tar"]}]
    written = _archive(
        tmp_path / "a", image_json=configuration, a_tar=b"12345", manifest_json=json.dumps(manifest).encode()
    )

    digest = f"sha256:{hashlib.sha256(configuration).hexdigest()}"
    assert archive.read(written) == archive.Image(digest, ("localhost/a:1",), {"os": "linux"}, 5)


@pytest.mark.parametrize(
    "members",
    [{}, {"manifest_json": b"no"}, {"manifest_json": b"[]"}, {"manifest_json": b'[{"Config": "image.json"}]'}],
)
def test_another_archive_is_refused(tmp_path: Path, members: dict[str, bytes]) -> None:
    with pytest.raises(BuildError, match="is no archive of one image"):
        archive.read(_archive(tmp_path / "a", **members))
