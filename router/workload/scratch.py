"""Judges the volumes of a Job that are empty at its start. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from router.workload.fields import Findings, as_mapping, mapping, text
from router.workload.model import Volume

_COPIED: Final = "starts with the data of another volume or snapshot"
_OTHERS_DATA: Final = {
    "dataSource": _COPIED,
    "dataSourceRef": _COPIED,
    "selector": "chooses among volumes of the cluster, whose data are not on HPC",
}


def judge_ephemeral(volumes: Sequence[Volume], findings: Findings) -> None:
    """Warn that a volume with a claim template is a directory of the site. Raises JobError for a wrong type."""
    for volume in volumes:
        if volume.kind == "emptyDir" and str(volume.source.get("medium", "")).startswith("HugePages"):
            findings.block(
                f"{volume.path}.emptyDir.medium", "needs a file system of huge pages, which no HPC user mounts"
            )
        if volume.kind != "ephemeral":
            continue
        here = f"{volume.path}.ephemeral"
        spec = volume.source
        for key in ("volumeClaimTemplate", "spec"):
            spec, here = mapping(spec, key, here), f"{here}.{key}"
        requests = mapping(mapping(spec, "resources", here), "requests", f"{here}.resources")
        size = requests.get("storage")
        asked = f", without the {str(size)[:40]} that it asks for being set aside" if size else ""
        findings.warnings.append(f"{volume.path}.ephemeral: is a directory of the Pod on HPC{asked}")
        for key in ("dataSource", "dataSourceRef", "selector"):
            if spec.get(key):
                as_mapping(spec[key], f"{here}.{key}")
                findings.block(f"{here}.{key}", _OTHERS_DATA[key])
        if text(spec, "volumeName", here):
            findings.block(f"{here}.volumeName", "names a volume of the cluster, whose data are not on HPC")
        if spec.get("volumeMode") == "Block":
            findings.block(f"{here}.volumeMode", "needs a block device of the cluster")
