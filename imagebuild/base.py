"""Gives the base in which an image's parts are fetched: from a registry, or made of Debian's packages.

Shell: runs podman and mmdebstrap.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bed import packages
from imagebuild import commands
from imagebuild.commands import BuildError
from router.controlplane.programs import cache

PUBLISHED: Final = "docker.io/library/debian:bookworm-slim"
MADE: Final = f"localhost/batchgate-base:{packages.RELEASE}"
"""The base that is made here. It has apt; no file of it gets into an image."""
_PULL_SECONDS: Final = 120


def ensure(builder: str, tell: Callable[[str], None]) -> str:
    """The name of a base that the builder has or can pull.

    :raises BuildError: no registry answers, and one is made only as root on Debian 12 with mmdebstrap
    """
    if builder == "docker":
        return PUBLISHED
    for name in (PUBLISHED, MADE):
        if commands.succeeds(["podman", "image", "exists", name]):
            return name
    if commands.succeeds(["podman", "pull", "--quiet", PUBLISHED], _PULL_SECONDS):
        return PUBLISHED
    if os.geteuid() or packages.codename() != packages.RELEASE or not shutil.which("mmdebstrap"):
        raise BuildError(
            f"{PUBLISHED} cannot be pulled. As root on Debian 12 with the package mmdebstrap it is made of packages; "
            "else name another base that has Debian 12's apt: --base IMAGE"
        )
    _make(tell)
    return MADE


def _make(tell: Callable[[str], None]) -> None:
    archive = cache() / f"base-{packages.RELEASE}.tar"
    if not archive.exists():
        tell("No registry answers: making the base of Debian's packages, which takes a minute.")
        _bootstrap(archive)
    commands.run(["podman", "import", "--quiet", archive, MADE])


def _bootstrap(archive: Path) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    half = archive.with_suffix(".half.tar")
    commands.run(
        ["mmdebstrap", "--quiet", "--mode=root", "--variant=apt", packages.RELEASE, half, "-"],
        stdin="\n".join(packages.sources(packages.targets())) + "\n",
    )
    half.rename(archive)
