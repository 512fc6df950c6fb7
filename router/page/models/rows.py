"""The fields that the page keeps of a Job, a few hundred bytes each, so that thousands of Jobs stay in memory.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any, Final

from router.errors import JobError
from router.notation import quantity
from router.operating.jobs import JobFacts, condition_of_end, facts
from router.operating.story import decision
from router.pod.status import seconds
from router.workload.containers import list_containers
from router.workload.fields import mapping
from router.workload.resources import container_requests, pod_limits, pod_requests, sizes, whole

Json = Mapping[str, Any]
_GPUS: Final = ("nvidia.com/gpu", "amd.com/gpu")
_LONGEST: Final = 500
"""Most characters that are kept of a text."""
_MOST_DEVICES: Final = 4


@dataclass(frozen=True, slots=True)
class JobRow:
    """One Job. Times are seconds since 1970.

    :param pods: how many Pods may run at once
    :param cpu: millicores of one Pod, by its requests; ``memory`` in bytes, by its limits, as rules count by default
    :param message: of the condition that ended it
    :param devices: further extended resources of one Pod, the first few by name; which are GPUs a policy says
    """

    facts: JobFacts
    rule: str
    reason: str
    requester: str
    created: int
    ended: int | None
    message: str
    pods: int
    cpu: int
    memory: int
    gpus: int
    devices: tuple[tuple[str, int], ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.facts.namespace}/{self.facts.name}"

    @property
    def uid(self) -> str:
        """The Job's uid."""
        return self.facts.uid

    @property
    def place(self) -> str:
        """``site/queue``, or ``cloud``."""
        return f"{self.facts.site}/{self.facts.queue}" if self.facts.site else "cloud"

    def is_of(self, user: str) -> bool:
        """Whether a user made the Job; nobody did if the user is unknown."""
        return bool(user) and self.requester == user


def row_of(job: Json) -> JobRow:
    """The kept fields of a Job from the API."""
    metadata, spec, status = job["metadata"], job.get("spec") or {}, job.get("status") or {}
    found = decision(job)
    over = condition_of_end(status)
    pod = (spec.get("template") or {}).get("spec") or {}
    cpu, memory, gpus, devices = _sizes(pod)
    return JobRow(
        facts=facts(job),
        rule=intern(found.rule[:_LONGEST]),
        reason=intern(found.reason[:_LONGEST]),
        requester=intern(found.requester[:_LONGEST]),
        created=seconds(metadata.get("creationTimestamp")) or 0,
        ended=seconds(status.get("completionTime") or over.get("lastTransitionTime")),
        message=str(over.get("message") or over.get("reason") or "")[:_LONGEST],
        pods=_count(spec.get("parallelism"), 1),
        cpu=cpu,
        memory=memory,
        gpus=gpus,
        devices=devices,
    )


def _count(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def _sizes(pod: dict[str, Any]) -> tuple[int, int, int, tuple[tuple[str, int], ...]]:
    """Cores in thousandths, bytes, GPUs and other devices of a Pod; of an invalid amount nothing is known."""
    try:
        asked = [container_requests(fields, here, "", kind, ()) for kind, here, fields in list_containers(pod, "")]
        level = mapping(pod, "resources", "")
        requests, limits = pod_requests(asked, level, "", {}), pod_limits(asked, level, "", {})
    except JobError:
        return 0, 0, 0, ()
    reserved, allowed = sizes(requests, limits)
    gpus = sum(figure.value for name, figure in requests.items() if name in _GPUS)
    others = sorted((name, figure.value) for name, figure in requests.items() if "/" in name and name not in _GPUS)
    return (
        reserved.cpu.value if reserved.cpu else 0,
        allowed.memory.value if allowed.memory else 0,
        whole(gpus),
        tuple((intern(name), whole(value)) for name, value in others[:_MOST_DEVICES] if value),
    )


def size_words(row: JobRow) -> str:
    """``4 Pods x 8 CPU, 16Gi, 1 GPU``; empty if the Job asks for nothing."""
    parts = [
        f"{quantity.show_cpu(row.cpu)} CPU" if row.cpu else "",
        quantity.show_bytes(row.memory) if row.memory else "",
        f"{row.gpus} GPU" if row.gpus else "",
        *(f"{count} {name}" for name, count in row.devices),
    ]
    each = ", ".join(part for part in parts if part)
    if row.pods <= 1:
        return each
    return f"{row.pods} Pods × {each}" if each else f"{row.pods} Pods"
