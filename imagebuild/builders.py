"""Finds the program that builds images, and words its commands.

The command lines are pure. Both programs read the same Containerfile.
"""

from __future__ import annotations

import os
import shutil
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from imagebuild import commands
from imagebuild.commands import BuildError
from imagebuild.source import ROOT, Source

CONTAINERFILE: Final = "image/Containerfile"
IMAGES: Final = ("batchgate", "batchgate-local")
"""The images, each a target of the Containerfile."""
BILLS: Final = "bills"
"""The target with the bills of materials."""
_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class Plan:
    """All that decides about a build.

    :param base: the image in which the parts are fetched
    :param fetched: what a builder takes from an earlier build with the same word; another word fetches all parts anew
    :param secrets: name and file of what the build may read and never keeps
    """

    source: Source
    base: str
    fetched: str
    secrets: Mapping[str, Path] = field(default_factory=dict)


def tag(name: str, source: Source) -> str:
    """The name under which an image is loaded into a cluster."""
    return f"localhost/{name}:{source.version}"


def podman(plan: Plan, target: str, out: Path) -> list[list[str]]:
    """Commands that build a target and write it to ``out``: an archive, or for ``BILLS`` a directory.

    Steps run under chroot, with the machine's own network and limits: a root with few rights may not set others.
    """
    build = ["podman", "build", "--quiet", "--isolation", "chroot", "--format", "docker", *_arguments(plan, target)]
    build += ["--timestamp", str(plan.source.epoch)]
    if target == BILLS:
        return [[*build, "--output", f"type=local,dest={out}", str(ROOT)]]
    name = tag(target, plan.source)
    save = ["podman", "save", "--quiet", "--format", "docker-archive", "--output", str(out), name]
    return [[*build, "--tag", name, str(ROOT)], save]


def docker(plan: Plan, target: str, out: Path) -> list[list[str]]:
    """The same with Docker's buildx.

    Docker's own image store, unlike containerd's, takes no export of an archive: so the image is loaded, then saved.
    """
    build = ["docker", "buildx", "build", "--quiet", "--provenance=false", *_arguments(plan, target)]
    if target == BILLS:
        return [[*build, "--output", f"type=local,dest={out}", str(ROOT)]]
    name = tag(target, plan.source)
    return [[*build, "--load", "--tag", name, str(ROOT)], ["docker", "save", "--output", str(out), name]]


def _arguments(plan: Plan, target: str) -> Iterator[str]:
    yield from ("--file", str(ROOT / CONTAINERFILE), "--target", target)
    arguments = {
        "BASE": plan.base,
        "CREATED": plan.source.created,
        "FETCHED": plan.fetched,
        "REVISION": plan.source.revision,
        "SOURCE_DATE_EPOCH": str(plan.source.epoch),
        "VERSION": plan.source.version,
    }
    for name, value in arguments.items():
        yield from ("--build-arg", f"{name}={value}")
    for name, file in plan.secrets.items():
        yield from ("--secret", f"id={name},src={file}")


BUILDERS: Final = {"docker": docker, "podman": podman}


def find() -> str:
    """The builder that works here: Docker with its daemon and buildx, else podman.

    :raises BuildError: there is neither
    """
    asked = (["docker", "info"], ["docker", "buildx", "version"])
    if all(commands.succeeds(argv, _SECONDS) for argv in asked):
        return "docker"
    if shutil.which("podman"):
        return "podman"
    raise BuildError(
        "an image is built with Docker or podman; Docker's daemon does not answer or has no buildx "
        "(`docker info`, `docker buildx version`), and there is no podman. On Debian: apt-get install podman"
    )


def secrets() -> dict[str, Path]:
    """What lets pip reach its index from a build as from this machine: the trusted CAs, and pip's configuration."""
    authorities = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    home = Path.home()
    own = [Path(named)] if (named := os.environ.get("PIP_CONFIG_FILE")) else []
    configurations = [*own, home / ".config/pip/pip.conf", home / ".pip/pip.conf", Path("/etc/pip.conf")]
    candidates = (("ca", [Path(authorities)]), ("pip", configurations))
    first = {name: next((one for one in files if one.is_file()), None) for name, files in candidates}
    return {name: file for name, file in first.items() if file is not None}
