"""Joins claims with the volumes that they are bound to.

Pure data. Of a volume only what says where its data lie is kept: no names of Secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from router.values import unchanging

_KEPT: Final = {
    "nfs": ("server", "path", "readOnly"),
    "hostPath": ("path",),
    "csi": ("driver", "volumeHandle", "volumeAttributes", "readOnly"),
}


@unchanging
class Claim:
    """What the cluster says of a claim.

    :param exists: whether there is a claim of that name
    :param volume: the PersistentVolume that it is bound to; empty for none, as ``kind`` is then
    :param kind: the name of that volume's source field, and ``source`` its value
    :param read_only: whether that volume is mounted with the option ``ro``
    """

    exists: bool = True
    storage_class: str = ""
    volume: str = ""
    kind: str = ""
    source: Mapping[str, object] = field(default_factory=dict)
    read_only: bool = False


_NO_CLAIM: Final = Claim(exists=False)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A PersistentVolumeClaim: its uid, storage class, and the volume that it is bound to (empty for none)."""

    uid: str
    storage_class: str = ""
    volume: str = ""


@dataclass(frozen=True, slots=True)
class Bound:
    """A PersistentVolume: its source, and the namespace, name and uid of the claim that it is bound to."""

    kind: str
    source: Mapping[str, object]
    claim: tuple[str, str, str]
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims by namespace and name, and volumes by name. Joined when they are asked for, as there may be many."""

    wanted: Mapping[tuple[str, str], Wanted] = field(default_factory=dict)
    bound: Mapping[tuple[str, str], Bound] = field(default_factory=dict)

    def find(self, namespace: str, name: str) -> Claim:
        """What is known of a claim. A volume counts only if it says itself that it is bound to this claim.

        Who writes a claim may name any volume in it; the volume's own claimRef is the cluster's.
        """
        wanted = self.wanted.get((namespace, name))
        if wanted is None:
            return _NO_CLAIM
        bound = self.bound.get(("", wanted.volume)) if wanted.volume else None
        if bound is None or bound.claim != (namespace, name, wanted.uid):
            return Claim(storage_class=wanted.storage_class)
        return Claim(
            storage_class=wanted.storage_class,
            volume=wanted.volume,
            kind=bound.kind,
            source=bound.source,
            read_only=bound.read_only,
        )


def wanted_of(item: Mapping[str, object]) -> Wanted:
    """A PersistentVolumeClaim. Fields of a wrong type count as absent."""
    metadata, spec, status = _mapping(item, "metadata"), _mapping(item, "spec"), _mapping(item, "status")
    volume = _text(spec, "volumeName") if status.get("phase") == "Bound" else ""
    return Wanted(_text(metadata, "uid"), _text(spec, "storageClassName"), volume)


def bound_of(item: Mapping[str, object]) -> Bound:
    """A PersistentVolume. Fields of a wrong type count as absent."""
    spec = _mapping(item, "spec")
    reference = _mapping(spec, "claimRef")
    claim = (_text(reference, "namespace"), _text(reference, "name"), _text(reference, "uid"))
    options = spec.get("mountOptions")
    read_only = isinstance(options, list) and "ro" in options
    for kind, keys in _KEPT.items():
        if kind in spec:
            source = _mapping(spec, kind)
            return Bound(kind, {key: source[key] for key in keys if key in source}, claim, read_only)
    return Bound("", {}, claim, read_only)


def _mapping(item: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = item.get(key)
    return value if isinstance(value, Mapping) else {}


def _text(item: Mapping[str, object], key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""
