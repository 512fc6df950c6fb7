"""Writes the changes into a Job that goes to HPC, and keeps the user's own values in the annotation ``replaced``.

Pure. The same function writes the changes at creation (from a decision) and at an update (from the stored Job), so both
have the same result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from router import names
from router.placement.draft import (
    FAILURE_POLICY,
    JOB_DEADLINE,
    NODE_NAME,
    NODE_SELECTOR,
    POD_ANNOTATIONS,
    POD_DEADLINE,
    POD_LABELS,
    POD_METADATA,
    REPLACEMENT,
    TOKEN,
    TOLERATIONS,
    Draft,
    Job,
    closed,
    mapping,
    opened,
    sequence,
)
from router.values import unchanging

FAILED: Final = "Failed"
LONGEST_DEADLINE: Final = 2**31 - 1
NO_EXECUTE: Final = "NoExecute"
OUTLASTED: Final = (names.TAINT_NOT_READY, names.TAINT_UNREACHABLE)
"""The taints of a Node whose agent is down, for which running batch jobs must not be evicted."""

# Made once, as json.dumps would make an encoder for every Job.
_JSON: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@unchanging
class Record:
    """The requester's user name and the HPC identity (``identity_text``), as the Pod template records them.

    :param groups: the requester's (``groups_text``), where the policy reads groups
    """

    requester: str
    account: str
    groups: str | None = None


@unchanging
class Change:
    """Everything that Batchgate writes into one Job, beside the user's own values."""

    node: str
    site: str
    queue: str
    job_annotations: Mapping[str, str]
    pod_annotations: Mapping[str, str]
    move_deadline: bool
    failure_policy: Mapping[str, Any] | None
    no_token: bool


@dataclass(slots=True)
class Kept:
    """The user's own values, collected while a change is written.

    :param was: the values by field path
    :param added: the paths of fields that were absent
    """

    was: dict[str, Any] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)

    def note(self, path: str, parent: Mapping[str, Any], name: str) -> None:
        """Keep the value of a field before it is written."""
        if name in parent:
            self.was[path] = parent[name]
        else:
            self.added.append(path)

    def note_empty(self, path: str, parent: Mapping[str, Any], name: str) -> None:
        """Keep that a mapping or list was present but empty, so that a later removal leaves it there."""
        if name in parent and not parent[name]:
            self.was[path] = parent[name]

    def text(self) -> str:
        """The annotation ``replaced``: compact JSON, the same for the same values."""
        return _JSON.encode({"added": sorted(self.added), "was": self.was})


def unlimited(taint: str) -> Job:
    """The toleration of a taint of a failing Node, without a time limit."""
    return {"key": taint, "operator": "Exists", "effect": NO_EXECUTE}


def queue_toleration(queue: str) -> Job:
    """The toleration of the virtual node's own taint."""
    return {"key": names.TAINT_QUEUE, "operator": "Equal", "value": queue, "effect": "NoSchedule"}


def is_pod_deadline(value: object) -> bool:
    """Whether a Pod accepts this deadline: 1 to 2^31-1 seconds (a Job accepts 0 and more)."""
    return type(value) is int and 0 < value <= LONGEST_DEADLINE


def is_users_own_outlasting(toleration: object) -> bool:
    """Whether Batchgate's tolerations replace this toleration of a user. An empty effect means every effect."""
    return (
        isinstance(toleration, dict)
        and toleration.get("key") in OUTLASTED
        and toleration.get("effect") in (NO_EXECUTE, "", None)
    )


def apply(job: Job, change: Change) -> Job:
    """The Job with the change written into it. ``job`` must be stripped (``strip``)."""
    draft, kept = opened(job), Kept()
    _bind(draft, change, kept)
    _spec(draft, change, kept)
    labels = {names.KEY_TARGET: names.TARGET_HPC, names.KEY_SITE: change.site, names.KEY_QUEUE: change.queue}
    kept.note_empty(POD_METADATA, draft.template, "metadata")
    kept.note_empty(POD_LABELS, draft.pod_metadata, "labels")
    kept.note_empty(POD_ANNOTATIONS, draft.pod_metadata, "annotations")
    merge(draft.pod_metadata, "labels", labels)
    merge(draft.pod_metadata, "annotations", change.pod_annotations)
    merge(draft.metadata, "labels", labels)
    merge(draft.metadata, "annotations", {**change.job_annotations, names.KEY_REPLACED: kept.text()})
    return closed(draft)


def merge(parent: Job, name: str, entries: Mapping[str, str]) -> None:
    """Add entries to a mapping of strings."""
    parent[name] = {**mapping(parent, name, name), **entries}


def _bind(draft: Draft, change: Change, kept: Kept) -> None:
    pod = draft.pod
    if "nodeName" in pod:
        kept.was[NODE_NAME] = pod["nodeName"]
    pod["nodeName"] = change.node
    kept.note_empty(NODE_SELECTOR, pod, "nodeSelector")
    merge(pod, "nodeSelector", {names.KEY_SITE: change.site, names.KEY_QUEUE: change.queue})
    theirs = sequence(pod, "tolerations", TOLERATIONS)
    if theirs:
        own = {str(index): one for index, one in enumerate(theirs) if is_users_own_outlasting(one)}
        kept.was[TOLERATIONS] = own
    else:
        kept.note(TOLERATIONS, pod, "tolerations")
    pod["tolerations"] = [
        *(unlimited(taint) for taint in OUTLASTED),
        queue_toleration(change.queue),
        *(one for one in theirs if not is_users_own_outlasting(one)),
    ]


def _spec(draft: Draft, change: Change, kept: Kept) -> None:
    spec, pod = draft.spec, draft.pod
    if spec.get("podReplacementPolicy") != FAILED:
        kept.note(REPLACEMENT, spec, "podReplacementPolicy")
        spec["podReplacementPolicy"] = FAILED
    if change.move_deadline and is_pod_deadline(spec.get("activeDeadlineSeconds")):
        kept.was[JOB_DEADLINE] = spec["activeDeadlineSeconds"]
        if pod.get("activeDeadlineSeconds") is None:
            kept.note(POD_DEADLINE, pod, "activeDeadlineSeconds")
            pod["activeDeadlineSeconds"] = spec["activeDeadlineSeconds"]
        del spec["activeDeadlineSeconds"]
    if change.failure_policy is not None and spec.get("podFailurePolicy") is None:
        kept.note(FAILURE_POLICY, spec, "podFailurePolicy")
        spec["podFailurePolicy"] = change.failure_policy
    if change.no_token and pod.get("automountServiceAccountToken") is not False:
        kept.note(TOKEN, pod, "automountServiceAccountToken")
        pod["automountServiceAccountToken"] = False
