"""What goes when a site is gone for good, and what stays.

Pure. No person writes the status of a Pod on a virtual node (the guards see to that): its Node is deleted, and
Kubernetes' own garbage collector ends the Pods of a Node that is no more, within two minutes. A Job would make a new Pod for
each, again and again, so what is not over is suspended first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from router import names
from router.operating.jobs import JobFacts
from router.operating.overview import place_of
from router.pod.view import PodView

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LeftPod:
    """A Pod that nobody will answer for. ``batch_job``: empty where it was never submitted."""

    namespace: str
    name: str
    uid: str
    job: str
    node: str
    batch_job: str


@dataclass(frozen=True, slots=True)
class LeftJob:
    """A Job that would make new Pods for the site. ``suspended``: it is already."""

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
    """What forgetting a site does, in this order, and what stays. ``lease``, ``queue_state``, ``checks``: empty where there
    is none.

    ``ended`` counts the Pods that are over: they go with their Node too. ``batch_jobs``, ``directory``: what may still be
    on the site; the directory is below the site's workDir, of each HPC user.
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

    @property
    def empty(self) -> bool:
        """Whether nothing in the cluster tells of the site."""
        told = self.lease or self.queue_state or self.checks
        return not (self.jobs or self.nodes or self.pods or self.ended or told)


@dataclass(frozen=True, slots=True)
class Remains:
    """What the cluster has of a site. ``queues``, ``checks``: documents of the queues' state and of checks by their keys."""

    jobs: tuple[JobFacts, ...]
    nodes: tuple[Json, ...]
    pods: tuple[PodView, ...]
    lease: Json | None
    queues: Mapping[str, str]
    checks: Mapping[str, str]


def plan(site: str, found: Remains, cluster: str) -> Plan:
    """What to do. ``cluster``: its eight digits, which name the site's directories; empty where not known."""
    nodes = sorted(node["metadata"]["name"] for node in found.nodes if is_of(node, site))
    living = [pod for pod in found.pods if not pod.status.terminal]
    key = f"{site}.json"
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
    )


def is_of(node: Json, site: str) -> bool:
    """Whether an agent of that site has made a Node."""
    place = place_of(node)
    return place is not None and place[0] == site


def _uids(nodes: Iterable[Json]) -> list[tuple[str, str]]:
    return sorted((node["metadata"]["name"], node["metadata"]["uid"]) for node in nodes)


def _left(pod: PodView) -> LeftPod:
    return LeftPod(pod.namespace, pod.name, pod.uid, pod.job, pod.node, pod.job_id)


def holder(lease: Json | None) -> str:
    """Who holds a Lease; empty where nobody does."""
    return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")


def lasts(lease: Json | None) -> int:
    """Seconds that a Lease lasts without being renewed."""
    return int(((lease or {}).get("spec") or {}).get("leaseDurationSeconds") or 0)


def version(lease: Json | None) -> str:
    """What differs after each renewal; empty where there is no Lease."""
    return str(((lease or {}).get("metadata") or {}).get("resourceVersion") or "")
