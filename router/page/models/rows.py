"""The fields that the page keeps of a Job, a few hundred bytes each, so that thousands of Jobs stay in memory.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any, Final

from router.notation import quantity
from router.operating.jobs import JobFacts, condition_of_end, facts
from router.operating.story import decision
from router.pod.status import seconds

Json = Mapping[str, Any]
_GPUS: Final = ("nvidia.com/gpu", "amd.com/gpu")
_LONGEST: Final = 500
"""Most characters that are kept of a text."""


@dataclass(frozen=True, slots=True)
class JobRow:
    """One Job. Times are seconds since 1970.

    :param pods: how many Pods may run at once
    :param cpu: millicores of one Pod's main containers together, by request or else by limit; ``memory`` in bytes
    :param message: of the condition that ended it
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
    containers = [one.get("resources") or {} for one in pod.get("containers") or ()]
    return JobRow(
        facts=facts(job),
        rule=intern(found.rule[:_LONGEST]),
        reason=intern(found.reason[:_LONGEST]),
        requester=intern(found.requester[:_LONGEST]),
        created=seconds(metadata.get("creationTimestamp")) or 0,
        ended=seconds(status.get("completionTime") or over.get("lastTransitionTime")),
        message=str(over.get("message") or over.get("reason") or "")[:_LONGEST],
        pods=_count(spec.get("parallelism"), 1),
        cpu=_sum(containers, ("cpu",), quantity.millis),
        memory=_sum(containers, ("memory",), quantity.units),
        gpus=_sum(containers, _GPUS, quantity.units),
    )


def _count(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def _sum(resources: Iterable[Json], keys: tuple[str, ...], read: Any) -> int:
    """The amount of a resource that containers ask for together; an invalid amount counts as 0."""
    total = 0
    for one in resources:
        for key in keys:
            asked = (one.get("requests") or {}).get(key) or (one.get("limits") or {}).get(key)
            try:
                total += int(read(asked)) if asked is not None else 0
            except ValueError:
                continue
    return total


def size_words(row: JobRow) -> str:
    """``4 Pods x 8 CPU, 16Gi, 1 GPU``; empty if the Job asks for nothing."""
    parts = [
        f"{quantity.show_cpu(row.cpu)} CPU" if row.cpu else "",
        quantity.show_bytes(row.memory) if row.memory else "",
        f"{row.gpus} GPU" if row.gpus else "",
    ]
    each = ", ".join(part for part in parts if part)
    if row.pods <= 1:
        return each
    return f"{row.pods} Pods × {each}" if each else f"{row.pods} Pods"
