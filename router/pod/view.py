"""Reduces a Pod to the fields that the agent needs to decide, without script, managedFields and the rest.

Pure. 10,000 of these values take a few dozen megabytes; the objects themselves take several hundred. Strings that many
Pods share are kept once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any, Final

from router.names import (
    COMPLETION_INDEX,
    KEY_ACCOUNT,
    KEY_EXIT,
    KEY_JOB_ID,
    KEY_QUEUE,
    KEY_QUEUE_NOW,
    KEY_RESOURCES_USED,
    KEY_RULE,
    KEY_SCRIPT,
    KEY_SIGNATURE,
    KEY_SITE,
    KEY_TRACEPARENT,
)
from router.notation import traces
from router.pod.layout import NO_INDEX
from router.pod.status import PodStatus, read, seconds
from router.workload.model import ContainerKind

_INDEX: Final = re.compile(r"[0-9]{1,10}")
_UID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_PROFILE: Final = re.compile(r"^profile=([A-Za-z0-9._-]+)", re.MULTILINE)
"""Matches the profile in the head of a script for MPI, which comes before all text from the Job."""
_DEFAULT_GRACE: Final = 30


@dataclass(frozen=True, slots=True)
class PodContainer:
    """One container of the spec."""

    name: str
    image: str
    kind: ContainerKind


@dataclass(frozen=True, slots=True)
class PodView:
    """One Pod. Times are seconds since 1970.

    :param node: its nodeName
    :param site: from its label, as ``queue``
    :param owner: kind of its controller (``Job``, ``DaemonSet``), or empty
    :param job: name of its controller, if this is a Job; ``job_uid`` is the uid
    :param index: the completion index as ``layout`` names it
    :param deleted_at: the deletionTimestamp (the end of the grace period)
    :param grace: seconds of grace of the deletion; before a deletion, those of the spec
    :param finalizers: whether it has a finalizer, like the Job controller's on every Pod of a Job
    :param deadline: activeDeadlineSeconds
    :param containers: in the order of their start: init containers and sidecars, then main containers
    :param rule: the policy's rule that sent the Pod here
    :param profile: the MPI profile by which its script starts ranks
    :param signed: whether it carries script, account and signature (which are not verified yet)
    :param job_id: an annotation of the agent, like ``queue_now``, ``exit`` and ``used``; empty if not set
    :param status: as the API server has it
    :param trace: the place of its Job's review in a trace, as ``notation.traces`` reads it; empty without a trace
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    node: str
    site: str
    queue: str
    owner: str
    job: str
    job_uid: str
    index: str
    created: int
    deleted_at: int | None
    grace: int
    finalizers: bool
    restart_policy: str
    deadline: int | None
    containers: tuple[PodContainer, ...]
    rule: str
    profile: str
    account: str
    signed: bool
    job_id: str
    queue_now: str
    exit: str
    used: str
    status: PodStatus
    trace: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def deleting(self) -> bool:
        """Whether the Pod has been deleted."""
        return self.deleted_at is not None

    @property
    def restarts(self) -> bool:
        """Whether failed containers run again within the job."""
        return self.restart_policy == "OnFailure"

    @property
    def images(self) -> dict[str, str]:
        """The image of each container by its name."""
        return {one.name: one.image for one in self.containers}

    def of_kind(self, *kinds: ContainerKind) -> tuple[PodContainer, ...]:
        """The containers of the given kinds, in order."""
        return tuple(one for one in self.containers if one.kind in kinds)


def view(pod: Mapping[str, Any]) -> PodView:
    """The view of a Pod as the API serves it.

    An invalid completion index or uid of the Job is dropped, as both become names of directories.
    """
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    kind, owner, owner_uid = _controller(metadata)
    is_job = kind == "Job" and _UID.fullmatch(owner_uid) is not None
    index = str(annotations.get(COMPLETION_INDEX, ""))
    return PodView(
        namespace=intern(metadata["namespace"]),
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata.get("resourceVersion", ""),
        node=intern(spec.get("nodeName") or ""),
        site=intern(labels.get(KEY_SITE) or ""),
        queue=intern(labels.get(KEY_QUEUE) or ""),
        owner=intern(kind),
        job=intern(owner) if is_job else "",
        job_uid=intern(owner_uid) if is_job else "",
        index=intern(index) if _INDEX.fullmatch(index) else NO_INDEX,
        created=seconds(metadata.get("creationTimestamp")) or 0,
        deleted_at=seconds(metadata.get("deletionTimestamp")),
        grace=_grace(metadata, spec),
        finalizers=bool(metadata.get("finalizers")),
        restart_policy=intern(spec.get("restartPolicy") or "Always"),
        deadline=spec.get("activeDeadlineSeconds"),
        containers=tuple(_containers(spec)),
        rule=intern(annotations.get(KEY_RULE) or ""),
        profile=_profile(annotations),
        account=intern(annotations.get(KEY_ACCOUNT) or ""),
        signed=all(annotations.get(key) for key in (KEY_SCRIPT, KEY_ACCOUNT, KEY_SIGNATURE)),
        job_id=annotations.get(KEY_JOB_ID) or "",
        queue_now=intern(annotations.get(KEY_QUEUE_NOW) or ""),
        exit=intern(annotations.get(KEY_EXIT) or ""),
        used=annotations.get(KEY_RESOURCES_USED) or "",
        status=read(pod.get("status") or {}),
        trace=intern(str(traces.read(annotations.get(KEY_TRACEPARENT)) or "")),
    )


def _profile(annotations: Mapping[str, Any]) -> str:
    found = _PROFILE.search(str(annotations.get(KEY_SCRIPT) or ""))
    return intern(found[1]) if found else ""


def _controller(metadata: Mapping[str, Any]) -> tuple[str, str, str]:
    """Kind, name and uid of the controller; all empty if it is a Job or DaemonSet of another API group."""
    for one in metadata.get("ownerReferences") or ():
        if one.get("controller"):
            group = str(one.get("apiVersion", "")).partition("/")[0]
            kind = str(one.get("kind", ""))
            known = {"Job": "batch", "DaemonSet": "apps"}
            if known.get(kind, group) != group:
                return "", "", ""
            return kind, str(one.get("name", "")), str(one.get("uid", ""))
    return "", "", ""


def _grace(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> int:
    of_deletion = metadata.get("deletionGracePeriodSeconds")
    if metadata.get("deletionTimestamp") and isinstance(of_deletion, int):
        return of_deletion
    of_spec = spec.get("terminationGracePeriodSeconds")
    return of_spec if isinstance(of_spec, int) else _DEFAULT_GRACE


def _containers(spec: Mapping[str, Any]) -> Iterator[PodContainer]:
    for one in spec.get("initContainers") or ():
        sidecar = one.get("restartPolicy") == "Always"
        yield _container(one, ContainerKind.SIDECAR if sidecar else ContainerKind.INIT)
    for one in spec.get("containers") or ():
        yield _container(one, ContainerKind.MAIN)


def _container(container: Mapping[str, Any], kind: ContainerKind) -> PodContainer:
    return PodContainer(intern(container["name"]), intern(container.get("image") or ""), kind)


def departed(*, uid: str, job_uid: str, index: str, job_id: str = "") -> PodView:
    """The view of a Pod that no longer exists but has a batch job or a directory: deleted, without grace.

    Planning cancels these remains, as for every deleted Pod. There is no status to write.
    """
    return PodView(
        namespace="",
        name="",
        uid=uid,
        resource_version="",
        node="",
        site="",
        queue="",
        owner="Job",
        job="",
        job_uid=job_uid,
        index=index,
        created=0,
        deleted_at=0,
        grace=0,
        finalizers=False,
        restart_policy="Never",
        deadline=None,
        containers=(),
        rule="",
        profile="",
        account="",
        signed=False,
        job_id=job_id,
        queue_now="",
        exit="",
        used="",
        status=PodStatus(),
    )
