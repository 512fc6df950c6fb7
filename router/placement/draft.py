"""Opens a Job for changes: shallow copies of the six mappings in which Batchgate writes, and the paths of its fields.

Pure. Everything below these mappings is shared with the original and is never changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from router.errors import JobError

Job = dict[str, Any]

JOB_ANNOTATIONS: Final = "metadata.annotations"
JOB_DEADLINE: Final = "spec.activeDeadlineSeconds"
REPLACEMENT: Final = "spec.podReplacementPolicy"
FAILURE_POLICY: Final = "spec.podFailurePolicy"
POD_METADATA: Final = "spec.template.metadata"
POD_LABELS: Final = "spec.template.metadata.labels"
POD_ANNOTATIONS: Final = "spec.template.metadata.annotations"
POD_DEADLINE: Final = "spec.template.spec.activeDeadlineSeconds"
TOKEN: Final = "spec.template.spec.automountServiceAccountToken"  # noqa: S105 - the name of a field
NODE_NAME: Final = "spec.template.spec.nodeName"
NODE_SELECTOR: Final = "spec.template.spec.nodeSelector"
TOLERATIONS: Final = "spec.template.spec.tolerations"


@dataclass(slots=True)
class Draft:
    """The mappings of a Job that may be written to. ``metadata`` and ``pod_metadata`` are empty if absent."""

    job: Job
    metadata: Job
    spec: Job
    template: Job
    pod_metadata: Job
    pod: Job

    def parent(self, path: str) -> tuple[Job, str]:
        """The mapping that holds the field at ``path``, and the field's name there."""
        where, _, name = path.rpartition(".")
        return self._parents()[where], name

    def _parents(self) -> Mapping[str, Job]:
        return {
            "metadata": self.metadata,
            "spec": self.spec,
            "spec.template": self.template,
            "spec.template.metadata": self.pod_metadata,
            "spec.template.spec": self.pod,
        }


def mapping(parent: Mapping[str, Any], name: str, path: str) -> Job:
    """The mapping at ``name``; empty if it is absent or null. Raises JobError with ``path`` for anything else."""
    value = parent.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise JobError(path, f"is {_kind(value)}, not a mapping; see kubectl explain job.{_plain(path)}")
    return value


def sequence(parent: Mapping[str, Any], name: str, path: str) -> list[Any]:
    """The list at ``name``; empty if it is absent or null. Raises JobError with ``path`` for anything else."""
    value = parent.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise JobError(path, f"is {_kind(value)}, not a list; see kubectl explain job.{_plain(path)}")
    return value


def opened(job: Job, root: str = "") -> Draft:
    """The Job's draft. Raises JobError if a field that must be a mapping is not; ``root`` is put before its path."""
    spec = mapping(job, "spec", f"{root}spec")
    template = mapping(spec, "template", f"{root}spec.template")
    return Draft(
        job={**job},
        metadata={**mapping(job, "metadata", f"{root}metadata")},
        spec={**spec},
        template={**template},
        pod_metadata={**mapping(template, "metadata", f"{root}{POD_METADATA}")},
        pod={**mapping(template, "spec", f"{root}spec.template.spec")},
    )


def closed(draft: Draft) -> Job:
    """The changed Job. A mapping that has become empty is left out; one that was empty before stays as it was."""
    put(draft.template, "metadata", draft.pod_metadata)
    put(draft.template, "spec", draft.pod)
    put(draft.spec, "template", draft.template)
    put(draft.job, "spec", draft.spec)
    put(draft.job, "metadata", draft.metadata)
    return draft.job


def put(parent: Job, name: str, value: Job | list[Any]) -> None:
    """Write a mapping or list. If it has become empty, remove the field; if it was empty before, leave it as it is."""
    if value:
        parent[name] = value
    elif parent.get(name):
        del parent[name]


def _kind(value: object) -> str:
    kinds = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a mapping"}
    return kinds.get(type(value), "something else")


def _plain(path: str) -> str:
    return path.removeprefix("spec.jobTemplate.")
