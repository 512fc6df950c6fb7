"""Says which release this is: version, revision of the source, Kubernetes' versions, packages.

Shell: reads the files of this installation; in a checkout it asks git.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, distributions
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Final

import router

UNKNOWN: Final = "unknown"
OLDEST_KUBERNETES, NEWEST_KUBERNETES = "1.31", "1.36"
_PACKAGE: Final = "batchgate"
_CLIENT: Final = "kubernetes"
_SECONDS: Final = 10
# The commit, with -dirty after it if files differ; a tag would be shown instead.
_DESCRIBE: Final = ("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """The minor versions of clusters for which this release is made, and the version of the client in it."""

    oldest: str
    newest: str
    client: str


@dataclass(frozen=True, slots=True)
class Release:
    """What runs here. ``revision`` is a commit, with ``-dirty`` if its files were changed, or ``unknown``."""

    version: str
    revision: str
    python: str
    kubernetes: Kubernetes


def release() -> Release:
    """The release of this installation."""
    kubernetes = Kubernetes(OLDEST_KUBERNETES, NEWEST_KUBERNETES, _version(_CLIENT))
    return Release(router.__version__, revision(), platform.python_version(), kubernetes)


def packages() -> Mapping[str, str]:
    """Name and version of each package in this Python's environment, in the order of names."""
    found = {one.name: one.version for one in distributions()}
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def revision(package: Path = Path(router.__file__).parent) -> str:
    """The revision of the source: as its build wrote it down, as pip fetched it, or of the checkout.

    :param package: the directory of the package ``router``
    """
    written = package / "revision"
    if written.is_file():
        return written.read_text().strip()
    return _fetched() or _checked_out(package.parent) or UNKNOWN


def _version(name: str) -> str:
    try:
        return version_of(name)
    except PackageNotFoundError:
        return UNKNOWN


def _fetched() -> str | None:
    """The commit that pip fetched, if it installed this from a repository (PEP 610)."""
    try:
        written = distribution(_PACKAGE).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    commit = json.loads(written or "{}").get("vcs_info", {}).get("commit_id")
    return None if commit is None else str(commit)


def _checked_out(root: Path) -> str | None:
    # Without this look, git would also answer for a repository that merely has this installation somewhere below it.
    if not (root / ".git").exists():
        return None
    try:
        told = subprocess.run(
            ["git", "-C", str(root), *_DESCRIBE], capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return told.stdout.strip() or None
