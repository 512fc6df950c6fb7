"""Plans the removal of a site that is gone for good: what is deleted, and what stays.

Pure. The guards let no person write the status of a Pod on a virtual node. So its Node is deleted, and Kubernetes'
garbage collector ends the Pods of a deleted Node within two minutes. A Job would replace each of these Pods again and
again, so unfinished Jobs are suspended first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from router import names
from router.operating.jobs import JobFacts
from router.operating.overview import place_of
from router.pod.view import PodView

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LeftPod:
    """A Pod that no agent serves any more. ``batch_job``: empty if it was never submitted."""

    namespace: str
    name: str
    uid: str
    job: str
    node: str
    batch_job: str


@dataclass(frozen=True, slots=True)
class LeftJob:
    """A Job that would make new Pods for the site. ``suspended``: it is suspended already."""

    namespace: str
    name: str
    uid: str
    suspended: bool


@dataclass(frozen=True, slots=True)
class LeftNode:
    """A Node of the site."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of forgetting a site, in this order, and what stays. ``lease``, ``queue_state``, ``checks``
    and ``notice`` are empty if missing.

    ``ended`` counts the finished Pods, which are deleted with their Node too. ``batch_jobs`` and ``directory`` may
    still be on the site; each HPC user has such a directory below the site's workDir.
    """

    site: str
    jobs: tuple[LeftJob, ...]
    nodes: tuple[LeftNode, ...]
    pods: tuple[LeftPod, ...]
    ended: int
    lease: str
    queue_state: str
    checks: str
    batch_jobs: tuple[str, ...]
    directory: str
    notice: str = ""

    @property
    def empty(self) -> bool:
        """Whether the cluster has no objects of the site."""
        told = self.lease or self.queue_state or self.checks or self.notice
        return not (self.jobs or self.nodes or self.pods or self.ended or told)


@dataclass(frozen=True, slots=True)
class Remains:
    """A site's objects in the cluster. ``queues``, ``checks``, ``public``: documents by key, as in their ConfigMaps."""

    jobs: tuple[JobFacts, ...]
    nodes: tuple[Json, ...]
    pods: tuple[PodView, ...]
    lease: Json | None
    queues: Mapping[str, str]
    checks: Mapping[str, str]
    public: Mapping[str, str] = field(default_factory=dict)


def plan(site: str, found: Remains, cluster: str) -> Plan:
    """The plan for a site. ``cluster``: the cluster's eight digits in names of directories; empty if unknown."""
    nodes = sorted(node["metadata"]["name"] for node in found.nodes if is_of(node, site))
    living = [pod for pod in found.pods if not pod.status.terminal]
    key = names.site_key(site)
    return Plan(
        site=site,
        jobs=tuple(
            LeftJob(one.namespace, one.name, one.uid, one.suspended)
            for one in sorted(found.jobs, key=lambda job: (job.namespace, job.name))
            if one.site == site and not one.finished and not one.deleting
        ),
        nodes=tuple(LeftNode(name, uid) for name, uid in _uids(found.nodes) if name in nodes),
        pods=tuple(_left(pod) for pod in sorted(living, key=lambda pod: pod.key)),
        ended=len(found.pods) - len(living),
        lease=names.lease_name(site) if found.lease is not None else "",
        queue_state=key if key in found.queues else "",
        checks=key if key in found.checks else "",
        batch_jobs=tuple(sorted({pod.job_id for pod in living if pod.job_id})),
        directory=f"{site}.{cluster}" if cluster else f"{site}.*",
        notice=key if key in found.public else "",
    )


def in_need(pods: Iterable[PodView]) -> tuple[str, ...]:
    """The Pods that need their agent, by namespace and name. That of a DaemonSet runs nothing on a virtual node."""
    return tuple(sorted(pod.key for pod in pods if not pod.status.terminal and pod.owner != "DaemonSet"))


def is_of(node: Json, site: str) -> bool:
    """Whether a Node belongs to that site."""
    place = place_of(node)
    return place is not None and place[0] == site


def _uids(nodes: Iterable[Json]) -> list[tuple[str, str]]:
    return sorted((node["metadata"]["name"], node["metadata"]["uid"]) for node in nodes)


def _left(pod: PodView) -> LeftPod:
    return LeftPod(pod.namespace, pod.name, pod.uid, pod.job, pod.node, pod.job_id)


def holder(lease: Json | None) -> str:
    """The holder of a Lease, or empty."""
    return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")


def lasts(lease: Json | None) -> int:
    """The duration of a Lease in seconds."""
    return int(((lease or {}).get("spec") or {}).get("leaseDurationSeconds") or 0)


def version(lease: Json | None) -> str:
    """The Lease's resourceVersion, which changes with each renewal; empty without a Lease."""
    return str(((lease or {}).get("metadata") or {}).get("resourceVersion") or "")
