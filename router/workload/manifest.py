"""Finds the Job in a document as the API server has it when the webhook is asked.

Pure. The API server gives a Job without labels those of its Pod template (SetDefaults_Job, pkg/apis/batch/v1). The CronJob
controller makes Jobs from a template: name, labels and annotations (getJobFromTemplate2, pkg/controller/cronjob).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from router.workload.fields import Fields, mapping, text

_A_MINUTE: Final = 60
SOME_TIME: Final = 1_800_000_000.0
"""When a CronJob's Job is made, where nobody says it: its name then has as many digits as it has today."""


def job_of(document: object, at: float = SOME_TIME) -> tuple[dict[str, Any], str] | None:
    """The Job in a Job or CronJob, and the prefix of its field paths; None for any other document. Raises JobError.

    :param at: when the CronJob controller makes it, in seconds since 1970, which its name tells in minutes
    """
    if not isinstance(document, dict) or document.get("apiVersion") != "batch/v1":
        return None
    if document.get("kind") not in ("Job", "CronJob"):  # not a set: it may be a list
        return None
    text(mapping(document, "metadata", ""), "namespace", "metadata")
    if document["kind"] == "Job":
        return _labelled(document, ""), ""
    template = mapping(mapping(document, "spec", ""), "jobTemplate", "spec")
    root = "spec.jobTemplate."
    own, own_path = mapping(template, "metadata", root[:-1]), f"{root}metadata"
    metadata = {
        **_named(mapping(document, "metadata", ""), at),
        **{kind: own[kind] for kind in ("labels", "annotations") if mapping(own, kind, own_path)},
    }
    job = {"apiVersion": "batch/v1", "kind": "Job", **template, "metadata": metadata}
    return _labelled(job, root), root


def _named(cronjob: Fields, at: float) -> dict[str, Any]:
    """Name and namespace of a Job that the CronJob controller makes, as far as the CronJob has them."""
    name, namespace = cronjob.get("name"), cronjob.get("namespace")
    named = {"name": f"{name}-{int(at) // _A_MINUTE}"} if isinstance(name, str) and name else {}
    return {**named, "namespace": namespace} if namespace else named


def _labelled(job: dict[str, Any], root: str) -> dict[str, Any]:
    """The Job with its template's labels if it has none of its own. One from a cluster has been through this."""
    metadata = mapping(job, "metadata", root.rstrip("."))
    if metadata.get("labels") or metadata.get("uid"):
        return job
    spec = job.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    inherited = template.get("metadata") if isinstance(template, dict) else None
    labels = inherited.get("labels") if isinstance(inherited, dict) else None
    return {**job, "metadata": {**metadata, "labels": labels}} if labels else job


def managed_by(job: Mapping[str, Any]) -> str | None:
    """The ``spec.managedBy`` of a Job that is not yet validated; None if it is missing or invalid."""
    spec = job.get("spec")
    manager = spec.get("managedBy") if isinstance(spec, dict) else None
    return manager if isinstance(manager, str) else None
