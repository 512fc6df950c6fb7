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


def test_docker_builds_and_then_saves() -> None:
    """Not at once: Docker's own image store refuses to export an archive."""
    build = ["docker", "buildx", "build", "--quiet", "--provenance=false"]

    assert builders.docker(PLAN, "batchgate", OUT) == [
        [*build, *SHARED, "--load", "--tag", "localhost/batchgate:1.2.3", str(ROOT)],
        ["docker", "save", "--output", str(OUT), "localhost/batchgate:1.2.3"],
    ]
    assert builders.docker(PLAN, BILLS, OUT.parent) == [
        [*build, *_for(BILLS), "--output", "type=local,dest=/out", str(ROOT)]
    ]


DAEMON, BUILDX = 'test "$1" = info', 'test "$1" = buildx'


@pytest.mark.parametrize(
    ("programs", "expected"),
    [
        ({"docker": "true", "podman": "true"}, "docker"),
        ({"docker": DAEMON, "podman": "true"}, "podman"),
        ({"docker": BUILDX, "podman": "true"}, "podman"),
        ({"podman": "true"}, "podman"),
    ],
)
def test_docker_builds_if_its_daemon_answers_and_it_has_buildx(
    programs: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _on_path(programs, tmp_path, monkeypatch)

    assert builders.find() == expected


@pytest.mark.parametrize("programs", [{}, {"docker": DAEMON}, {"docker": BUILDX}])
def test_without_a_builder_it_says_what_is_missing(
    programs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _on_path(programs, tmp_path, monkeypatch)

    with pytest.raises(BuildError) as caught:
        builders.find()

    assert str(caught.value) == (
        "an image is built with Docker or podman; Docker's daemon does not answer or has no buildx "
        "(`docker info`, `docker buildx version`), and there is no podman. On Debian: apt-get install podman"
    )


def _on_path(programs: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let these scripts alone be found."""
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


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


def test_a_copy_of_an_archive_has_one_time(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for path, time in ((first, 1.0), (second, 2.5)):
        with tarfile.open(path, "w") as out:
            for info, content in (
                (tarfile.TarInfo("a"), b""),
                (tarfile.TarInfo("a/b"), b"12"),
                (tarfile.TarInfo("c"), b""),
            ):
                info.mtime, info.size = time, len(content)
                info.type = {"a": tarfile.DIRTYPE, "a/b": tarfile.REGTYPE, "c": tarfile.SYMTYPE}[info.name]
                info.linkname = "a/b" if info.issym() else ""
                out.addfile(info, io.BytesIO(content))
        archive.copy(path, path.with_suffix(".copy"), 3)

    assert first.with_suffix(".copy").read_bytes() == second.with_suffix(".copy").read_bytes()
    with tarfile.open(first.with_suffix(".copy")) as copied:
        found = [(one.name, one.type, one.linkname, one.mtime) for one in copied]
        assert found == [("a", b"5", "", 3), ("a/b", b"0", "", 3), ("c", b"2", "a/b", 3)]
        assert archive._member(copied, "a/b") == b"12"


@pytest.mark.parametrize(
    "members",
    [{}, {"manifest_json": b"no"}, {"manifest_json": b"[]"}, {"manifest_json": b'[{"Config": "image.json"}]'}],
)
def test_another_archive_is_refused(tmp_path: Path, members: dict[str, bytes]) -> None:
    with pytest.raises(BuildError, match="is no archive of one image"):
        archive.read(_archive(tmp_path / "a", **members))
