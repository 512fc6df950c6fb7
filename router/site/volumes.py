"""Finds the place of a volume's data on a site, or says why they are not there.

Pure. Paths are judged as text. A path is below a mapped directory if it begins with the same components; a path with
``..`` never is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from router.site import globs
from router.site.schema import Site, VolumeMap
from router.workload.claims import Claim
from router.workload.model import Volume, Workload

Fields = Mapping[str, object]

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
STAGED: Final = frozenset({"configMap", "secret", "downwardAPI", "projected"})
EMPTY: Final = frozenset({"emptyDir", "ephemeral", ""})
"""Kinds that are empty when a Pod starts, and gone when it ends: directories in the Pod's directory."""

_SHOWN: Final = 80
_NFS_DRIVER: Final = "nfs.csi.k8s.io"
_NODE_FILES: Final = {"Socket": "socket", "CharDevice": "device", "BlockDevice": "device"}
_PLACEHOLDER: Final = re.compile(r"\{(namespace|claim|class|volume|handle|attributes\.[^{}/]+)\}")
ATTRIBUTE: Final = re.compile(r"\{attributes\.[^{}/]+\}")
PLACEHOLDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "hostPath": (),
    "nfs": (),
    "image": (),
    "claim": ("{namespace}", "{claim}"),
    "storageClass": ("{namespace}", "{claim}", "{class}", "{volume}"),
    "csi": ("{namespace}", "{claim}", "{class}", "{volume}", "{handle}", "{attributes.KEY}"),
}
"""What may be filled into the path of an entry, by the key that it matches with."""


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
    return finder(workload, volume, site)


def _host_path(_: Workload, volume: Volume, site: Site) -> SitePath | str:
    path, kind = volume.source.get("path"), volume.source.get("type")
    if kind in _NODE_FILES:
        return f"asks for a {_NODE_FILES[str(kind)]} of its node (type {kind}), which HPC nodes do not have"
    if not isinstance(path, str) or not path.startswith("/"):
        return "has no absolute path"
    for entry in site.volumes:
        if (place := _of_host_path(entry, path)) is not None:
            return place
    return f"{path} is not a path that site {site.name} offers; {_wanted(site, 'hostPath')}"


def _nfs(_: Workload, volume: Volume, site: Site) -> SitePath | str:
    server, path = volume.source.get("server"), volume.source.get("path")
    if not isinstance(server, str) or not isinstance(path, str):
        return "needs server and path"
    for entry in site.volumes:
        if (place := _of_export(entry, server, path)) is not None:
            return _read_only(place, volume.source)
    return f"{server}:{path} is not mounted at site {site.name}; {_wanted(site, 'nfs')}"


def _csi(workload: Workload, volume: Volume, site: Site) -> SitePath | str:
    driver = volume.source.get("driver")
    if not isinstance(driver, str):
        return "needs driver"
    known = {"namespace": workload.namespace, **_attributes(volume.source)}
    for entry in site.volumes:
        if (place := _of_driver(entry, volume.source, known)) is not None:
            return place if isinstance(place, str) else _read_only(place, volume.source)
    return (
        f"is a volume of CSI driver {driver[:_SHOWN]}, whose data are not at site {site.name}; {_wanted(site, 'csi')}"
    )


def _image(_: Workload, volume: Volume, site: Site) -> SitePath | str:
    reference = volume.source.get("reference")
    if not isinstance(reference, str):
        return "needs reference"
    for entry in site.volumes:
        if entry.image is not None and globs.matches((entry.image,), reference):
            return SitePath(entry.path, read_only=True)
    return f"is the image {reference[:_SHOWN]}, whose files are not at site {site.name}; {_wanted(site, 'image')}"


def _claim(workload: Workload, volume: Volume, site: Site) -> SitePath | str:
    name = volume.source.get("claimName")
    if not isinstance(name, str):
        return "needs claimName"
    claim, known = f"{workload.namespace}/{name}", _known(workload, volume, name)
    # Both become parts of a path.
    if "/" in name or name in {"", ".", ".."} or "/" in workload.namespace or workload.namespace in {".", ".."}:
        return f"{claim} is not a valid name of a claim"
    for entry in site.volumes:
        if (place := _of_claim(entry, claim, volume.claim, known)) is not None:
            return place if isinstance(place, str) else _read_only(place, volume.source)
    return _unmapped(claim, volume.claim, site)


_FINDERS: Final = {
    "hostPath": _host_path,
    "nfs": _nfs,
    "csi": _csi,
    "image": _image,
    "persistentVolumeClaim": _claim,
}


# --- entries ----------------------------------------------------------------------------------------------------


def _of_host_path(entry: VolumeMap, path: str) -> SitePath | None:
    if entry.host_path is None or (below := _below(entry.host_path, path)) is None:
        return None
    return SitePath(entry.path, below, entry.read_only)


def _of_export(entry: VolumeMap, server: str, path: str) -> SitePath | None:
    if entry.nfs is None:
        return None
    known, export = entry.nfs.split(":", 1)
    if known != server or (below := _below(export, path)) is None:
        return None
    return SitePath(entry.path, below, entry.read_only)


def _of_driver(entry: VolumeMap, source: Fields, known: Mapping[str, str]) -> SitePath | str | None:
    """The place that an entry gives to a csi source: by its driver, or as the NFS export that it is."""
    driver = str(source.get("driver", ""))
    if entry.nfs is not None and driver == _NFS_DRIVER:
        # The driver takes these names in any case of letters.
        given = {key.lower(): value for key, value in known.items()}
        path = f"{given.get('attributes.share', '')}/{given.get('attributes.subdir', '')}"
        return _of_export(entry, given.get("attributes.server", ""), path)
    if entry.csi is None or not globs.matches((entry.csi,), driver):
        return None
    for key, pattern in entry.attributes.items():
        if not globs.matches((pattern,), known.get(f"attributes.{key}", "")):
            return None
    return _filled(entry, known)


def _of_claim(entry: VolumeMap, name: str, claim: Claim | None, known: Mapping[str, str]) -> SitePath | str | None:
    """The place that an entry gives to a claim: by its name, its class, or the volume that it is bound to."""
    if entry.claim is not None:
        return _filled(entry, known) if globs.matches((entry.claim,), name) else None
    if claim is None:
        return None
    place: SitePath | str | None = None
    if entry.storage_class is not None:
        matches = bool(claim.storage_class) and globs.matches((entry.storage_class,), claim.storage_class)
        place = _filled(entry, known) if matches else None
    elif claim.kind == "csi":
        place = _of_driver(entry, claim.source, known)
    elif claim.kind == "nfs":
        place = _of_export(entry, str(claim.source.get("server", "")), str(claim.source.get("path", "")))
    elif claim.kind == "hostPath":
        place = _of_host_path(entry, str(claim.source.get("path", "")))
    if not isinstance(place, SitePath):
        return place
    return _read_only(replace(place, read_only=place.read_only or claim.read_only), claim.source)


def _read_only(place: SitePath, source: Fields) -> SitePath:
    return replace(place, read_only=place.read_only or source.get("readOnly") is True)


def _known(workload: Workload, volume: Volume, name: str) -> dict[str, str]:
    """The values of placeholders for a claim, as far as they are known."""
    known = {"namespace": workload.namespace, "claim": name}
    if (claim := volume.claim) is not None:
        known |= {"class": claim.storage_class, "volume": claim.volume}
        if claim.kind == "csi":
            known |= {"handle": str(claim.source.get("volumeHandle", "")), **_attributes(claim.source)}
    return known


def _attributes(source: Fields) -> dict[str, str]:
    found = source.get("volumeAttributes")
    return {f"attributes.{key}": str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}


def _filled(entry: VolumeMap, known: Mapping[str, str]) -> SitePath | str:
    """The place of an entry with its placeholders filled in, or why that cannot be.

    A value never changes the place of another part: one with ``..``, or without any name, is refused.
    """
    own, below = _parted(entry.path)
    for name in _PLACEHOLDER.findall(below):
        value = known.get(name, "")
        if not value:
            return f"has no {name}, which the path {entry.path} in volumes of its site needs"
        if ".." in value.split("/") or not any(part not in {"", "."} for part in value.split("/")):
            return f"has the {name} {value[:_SHOWN]!r}, which is no part of a path below {own}"
    filled = _PLACEHOLDER.sub(lambda found: known[found[1]], below).split("/")
    if ".." in filled:
        return f"leaves {own} by '..'"
    return SitePath(own, "/".join([part for part in filled if part not in {"", "."}]), entry.read_only)


# --- words ------------------------------------------------------------------------------------------------------


def _wanted(site: Site, *keys: str) -> str:
    return f"its admins can add an entry with {' or '.join(keys)} to volumes of {site.name}"


def _unmapped(name: str, claim: Claim | None, site: Site) -> str:
    """Why a claim has no place, with what was known of it, and the keys that would map it."""
    start, asked = f"{name} is a claim whose data are not at site {site.name}", partial(_wanted, site)
    if claim is None:
        return f"{start} (claims are not read, so its class and volume are unknown); {asked('claim')}"
    if not claim.exists:
        return f"{start}, and namespace {name.partition('/')[0]} has no such claim yet; {asked('claim')}"
    of_class = f"of storage class {claim.storage_class}" if claim.storage_class else "of no storage class"
    keys = ["claim", *(["storageClass"] if claim.storage_class else [])]
    if not claim.volume:
        return f"{start} ({of_class}, not bound to a volume); {asked(*keys)}"
    if claim.kind == "csi":
        what, keys = f"a volume of CSI driver {claim.source.get('driver')}", [*keys, "csi"]
    elif claim.kind == "nfs":
        what, keys = f"{claim.source.get('server')}:{claim.source.get('path')}", [*keys, "nfs"]
    elif claim.kind == "hostPath":
        what, keys = f"a directory of a cloud node, {claim.source.get('path')}", [*keys, "hostPath"]
    else:
        what = "a volume of a kind that HPC nodes do not have"
    return f"{start} ({of_class}, bound to {what}); {asked(*keys)}"


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
