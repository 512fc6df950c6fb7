"""Finds the place of a volume's data on a site, or says why they are not there.

Pure. Paths are judged as text. A path is below a mapped directory if it begins with the same components; a path with
``..`` never is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from router.site import globs
from router.site.schema import Site
from router.workload.model import Volume, Workload

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
STAGED: Final = frozenset({"configMap", "secret", "downwardAPI", "projected"})
EMPTY: Final = "emptyDir"


@dataclass(frozen=True, slots=True)
class SitePath:
    """A directory or file of the site: ``path`` is the admin's part, and ``below`` the user's part below it.

    Links are followed only in ``path``, as containers may have planted links in ``below``. ``read_only`` overrides the
    Job.
    """

    path: str
    below: str = ""
    read_only: bool = False


def place_of(workload: Workload, volume: Volume, site: Site) -> SitePath | str:
    """The place of a volume on the site, or one clause that says why it is not there."""
    finder = _FINDERS.get(volume.kind)
    if finder is None:
        return f"is a volume of kind {volume.kind or 'emptyDir'}, which HPC nodes do not have"
    return finder(workload, volume.source, site)


def _host_path(_: Workload, source: Mapping[str, Any], site: Site) -> SitePath | str:
    path = source.get("path")
    if not isinstance(path, str) or not path.startswith("/"):
        return "has no absolute path"
    for entry in site.volumes:
        if entry.host_path is not None and (below := _below(entry.host_path, path)) is not None:
            return SitePath(entry.path, below, entry.read_only)
    return f"{path} is not a path that site {site.name} offers; ask its admins for an entry in volumes"


def _nfs(_: Workload, source: Mapping[str, Any], site: Site) -> SitePath | str:
    server, path = source.get("server"), source.get("path")
    if not isinstance(server, str) or not isinstance(path, str):
        return "needs server and path"
    for entry in site.volumes:
        if entry.nfs is None:
            continue
        known, export = entry.nfs.split(":", 1)
        if known == server and (below := _below(export, path)) is not None:
            return SitePath(entry.path, below, entry.read_only or source.get("readOnly") is True)
    return f"{server}:{path} is not mounted at site {site.name}"


def _claim(workload: Workload, source: Mapping[str, Any], site: Site) -> SitePath | str:
    name = source.get("claimName")
    if not isinstance(name, str):
        return "needs claimName"
    claim = f"{workload.namespace}/{name}"
    # Both become parts of a path.
    if "/" in name or name in {"", ".", ".."} or "/" in workload.namespace or workload.namespace in {".", ".."}:
        return f"{claim} is not a valid name of a claim"
    for entry in site.volumes:
        if entry.claim is not None and globs.matches((entry.claim,), claim):
            own, below = _parted(entry.path)
            below = below.replace("{namespace}", workload.namespace).replace("{claim}", name)
            return SitePath(own, below, entry.read_only or source.get("readOnly") is True)
    return f"{claim} is a claim whose data are not at site {site.name}"


_FINDERS: Final = {"hostPath": _host_path, "nfs": _nfs, "persistentVolumeClaim": _claim}


def sub_path_problem(sub_path: str) -> str | None:
    """Why a subPath is refused, as one clause; None if it is accepted."""
    if sub_path.startswith("/"):
        return "is absolute; a subPath is relative to its volume"
    if ".." in sub_path.split("/"):
        return "leaves its volume by '..'"
    return None


def path_problem(path: str) -> str | None:
    """Why a path cannot be bound into a container, as one clause; None if it can."""
    if _CONTROL.search(path):
        return "has a control character"
    return None


def _below(directory: str, path: str) -> str | None:
    """The part of the path below the directory; None if the path is elsewhere."""
    if ".." in path.split("/"):
        return None
    whole, parts = [part for part in directory.split("/") if part], [part for part in path.split("/") if part]
    if parts[: len(whole)] != whole:
        return None
    return "/".join([part for part in parts[len(whole) :] if part != "."])


def _parted(path: str) -> tuple[str, str]:
    """The directory before the first part with a placeholder, and the rest."""
    parts = path.split("/")
    first = next((index for index, part in enumerate(parts) if "{" in part), len(parts))
    return "/".join(parts[:first]) or "/", "/".join([part for part in parts[first:] if part])
