"""Checks what a site maps from Jobs to itself: volumes and resources.

Pure. Yields problems; raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from router.errors import Problem
from router.policy.checks import exactly_one, placeholders
from router.policy.reading import Placed
from router.site import resources
from router.site.schema import ResourceMap, Site, VolumeMap
from router.site.volumes import ATTRIBUTE, PLACEHOLDERS


def check(placed: Placed[Site]) -> Iterator[Problem]:
    """Problems of a site's maps beyond single values."""
    site = placed.value
    for index, volume in enumerate(site.volumes):
        yield from _volume(placed, index, volume)
    yield from _resources(placed, site.resources)
    for index, queue in enumerate(site.queues):
        yield from _resources(placed, queue.resources, "queues", index)


def doubts(placed: Placed[Site]) -> Iterator[str]:
    """Warnings: claims of two namespaces that may have one path."""
    for volume in placed.value.volumes:
        for part in volume.path.split("/"):
            if "{namespace}" in part and "{claim}" in part and "{volume}" not in part:
                yield (
                    f"{placed.spot.line}: {placed.spot.where}: volumes: path {volume.path} joins {{namespace}} and {{claim}} in "
                    "one part, so claim b-c of namespace a has the place of claim c of namespace a-b; write them as two parts"
                )


def _volume(placed: Placed[Site], index: int, volume: VolumeMap) -> Iterator[Problem]:
    given = {
        "hostPath": volume.host_path,
        "nfs": volume.nfs,
        "claim": volume.claim,
        "storageClass": volume.storage_class,
        "csi": volume.csi,
        "image": volume.image,
    }
    yield from exactly_one(placed, given, "volumes", index)
    known = PLACEHOLDERS[next((key for key, value in given.items() if value is not None), "csi")]
    path = ATTRIBUTE.sub("{attributes.KEY}", volume.path)
    yield from placeholders(placed, path, known, "volumes", index, "path")
    if volume.nfs is not None and ":/" not in volume.nfs:
        yield placed.spot.problem(f"nfs is {volume.nfs!r}; write server:/export", "volumes", index, "nfs")
    if volume.image is not None and volume.path.endswith(".sif"):
        message = f"path: {volume.path} is an image file, which cannot be bound; write a directory with its files"
        yield placed.spot.problem(message, "volumes", index, "path")
    if volume.attributes and volume.csi is None:
        message = "attributes: only volumes of a CSI driver have attributes; write csi beside it, or remove it"
        yield placed.spot.key_problem(message, "volumes", index, "attributes")


def _resources(placed: Placed[Site], given: tuple[ResourceMap, ...], *below: str | int) -> Iterator[Problem]:
    for index, entry in enumerate(given):
        for key, problem in resources.problems(placed.value.system, entry):
            yield placed.spot.key_problem(f"resources: {problem}", *below, "resources", index, key)
