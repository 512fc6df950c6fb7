"""Restores Batchgate's values in an update of a Job: takes them from the stored Job and writes them into the new one.

Pure. The template of a running Job is immutable, and the API server checks this after the webhook. A file that is
applied again lacks Batchgate's values. They are written back here, so that applying the file twice changes nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from router import names
from router.placement.change import Change, Record, apply
from router.placement.draft import (
    FAILURE_POLICY,
    JOB_DEADLINE,
    TOKEN,
    TOLERATIONS,
    Draft,
    Job,
    closed,
    mapping,
    opened,
    put,
    sequence,
)
from router.placement.place import judged_by, proof
from router.placement.replaced import read_replaced
from router.placement.strip import Stripped, strip
from router.policy.decision import Decision


@dataclass(frozen=True, slots=True)
class Restored:
    """An updated Job that had been sent to HPC.

    :param before: the user's own Job as stored
    :param now: the user's own Job as the update wants it
    :param job: ``now`` with Batchgate's values as stored
    :param change: Batchgate's values, as stored
    :param moved_deadline: whether the Job's deadline was moved into the template
    :param replaced: the stored annotation of that name; empty if it is not valid
    """

    before: Stripped
    now: Stripped
    job: Job
    change: Change
    moved_deadline: bool
    replaced: str


def is_routed(stored: Job) -> bool:
    """Whether a stored Job goes to HPC. Read from its template, which is immutable."""
    draft = opened(stored)
    labels = mapping(draft.pod_metadata, "labels", "spec.template.metadata.labels")
    node = draft.pod.get("nodeName")
    return (
        labels.get(names.KEY_TARGET) == names.TARGET_HPC
        and isinstance(labels.get(names.KEY_SITE), str)
        and isinstance(labels.get(names.KEY_QUEUE), str)
        and isinstance(node, str)
        and node.endswith(names.NODE_SUFFIX)
    )


def restore(stored: Job, new: Job) -> Restored:
    """A routed Job's update with Batchgate's values restored. Raises JobError if a field has the wrong type."""
    before, now = strip(stored), strip(new, stored=stored)
    change = _change_of(stored)
    text = _believed(stored)
    return Restored(before, now, _applied(before, now, change, text), change, change.move_deadline, text)


def replace_record(restored: Restored, decision: Decision, script: str, record: Record) -> Job:
    """The updated Job with a new script and record; target, site, queue and immutable fields as stored."""
    judged = judged_by(decision, restored.change.job_annotations.get(names.KEY_TRACEPARENT, ""))
    change = dataclasses.replace(
        restored.change, job_annotations=judged, pod_annotations={**judged, **proof(script, record)}
    )
    return _applied(restored.before, restored.now, change, restored.replaced)


def _applied(before: Stripped, now: Stripped, change: Change, replaced: str) -> Job:
    """The updated Job with the change, and with the stored annotation ``replaced`` if it still holds.

    A new annotation would differ: the API server adds labels to the template after admission, so metadata that was
    empty no longer is. Then every update would differ from the stored Job.
    """
    routed = apply(now.job, change)
    annotations = routed["metadata"]["annotations"]
    same = replaced and annotations[names.KEY_REPLACED] == _recorded(apply(before.job, change))
    if not same or annotations[names.KEY_REPLACED] == replaced:
        return routed
    metadata = {**routed["metadata"], "annotations": {**annotations, names.KEY_REPLACED: replaced}}
    return {**routed, "metadata": metadata}


def _recorded(job: Job) -> object:
    """The annotation ``replaced`` of a Job."""
    metadata = mapping(job, "metadata", "metadata")
    return mapping(metadata, "annotations", "metadata.annotations").get(names.KEY_REPLACED)


def _believed(stored: Job) -> str:
    """The stored annotation ``replaced`` if all of its entries are valid, else empty."""
    text = _recorded(stored)
    return text if isinstance(text, str) and not read_replaced(text)[1] else ""


def keep_reserved(stored: Job, new: Job) -> Stripped:
    """The update of a Job that is not on HPC, with everything under Batchgate's prefix as it is stored."""
    arrived = strip(new)
    old, draft = opened(stored), opened(new)
    for theirs, ours in ((old.metadata, draft.metadata), (old.pod_metadata, draft.pod_metadata)):
        _keep_keys(theirs, ours, "labels")
        _keep_keys(theirs, ours, "annotations")
    _keep_keys(old.pod, draft.pod, "nodeSelector")
    _keep_binding(old, draft)
    return Stripped(closed(draft), arrived.taken, arrived.warnings)


def _change_of(stored: Job) -> Change:
    draft = opened(stored)
    labels = mapping(draft.pod_metadata, "labels", "spec.template.metadata.labels")
    replaced, _ = read_replaced(_recorded(stored))
    return Change(
        node=draft.pod["nodeName"],
        site=labels[names.KEY_SITE],
        queue=labels[names.KEY_QUEUE],
        job_annotations={key: value for key, value in _ours(draft.metadata) if key != names.KEY_REPLACED},
        pod_annotations=dict(_ours(draft.pod_metadata)),
        move_deadline=JOB_DEADLINE in replaced,
        failure_policy=draft.spec.get("podFailurePolicy") if FAILURE_POLICY in replaced else None,
        no_token=TOKEN in replaced,
    )


def _ours(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in mapping(metadata, "annotations", "metadata.annotations").items():
        if names.is_ours(key) and key not in names.HINTS:
            yield key, value


def _keep_keys(stored: Job, new: Job, kind: str) -> None:
    old, now = mapping(stored, kind, kind), mapping(new, kind, kind)
    kept = {key: value for key, value in now.items() if not _is_kept(key, kind)}
    kept.update((key, value) for key, value in old.items() if _is_kept(key, kind))
    if kept != now:
        put(new, kind, kept)


def _is_kept(key: str, kind: str) -> bool:
    return names.is_ours(key) and not (kind == "annotations" and key in names.HINTS)


def _keep_binding(old: Draft, draft: Draft) -> None:
    theirs, now = sequence(old.pod, "tolerations", TOLERATIONS), sequence(draft.pod, "tolerations", TOLERATIONS)
    ours, arrived = ([one for one in some if _is_our_toleration(one)] for some in (theirs, now))
    if ours != arrived:
        put(draft.pod, "tolerations", [*(one for one in now if not _is_our_toleration(one)), *ours])
    node = draft.pod.get("nodeName")
    if isinstance(node, str) and node.endswith(names.NODE_SUFFIX) and node != old.pod.get("nodeName"):
        del draft.pod["nodeName"]


def _is_our_toleration(one: object) -> bool:
    key = one.get("key") if isinstance(one, dict) else None
    return isinstance(key, str) and names.is_ours(key)
