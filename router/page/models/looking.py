"""What is known of the cluster at one moment, and by whom it was read.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from router.operating.creations import FailedCreation
from router.operating.overview import Seen
from router.page.models.filled import NOT_FILLED, Filled
from router.page.models.rows import JobRow
from router.pod.view import PodView

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sight:
    """One reader's view of the cluster. Times are seconds since 1970.

    :param now: by the API server's clock
    :param user: the name of the reader, by the API server; empty if unknown, as ``groups`` are then
    :param complete: whether the first list of Jobs and Pods has been read to its end
    :param missed: a sentence for each list that the reader may not see
    :param problem: why the API server does not answer now; empty while it answers
    :param read: when nodes, queues and Leases were last read; 0 before the first time
    """

    now: float
    user: str = ""
    groups: tuple[str, ...] = ()
    queues: Mapping[str, str] = field(default_factory=dict)
    policies: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[Json, ...] = ()
    leases: Mapping[str, Json] | None = field(default_factory=dict)
    jobs: tuple[JobRow, ...] = ()
    pods: tuple[PodView, ...] = ()
    failed_creations: tuple[FailedCreation, ...] = ()
    complete: bool = True
    missed: tuple[str, ...] = ()
    problem: str = ""
    read: float = 0

    @property
    def known(self) -> bool:
        """Whether enough was read to say that something is not there."""
        return self.complete and self.read > 0

    @property
    def unread_for(self) -> float:
        """Seconds since nodes, queues and Leases were last read, by whose time they are judged."""
        return self.now - self.read if self.read else 0

    def seen(self) -> Seen:
        """The same for the overview of ``batchgate status``."""
        return Seen(
            now=self.now,
            queues=self.queues,
            policies=self.policies,
            nodes=self.nodes,
            leases=self.leases,
            jobs=tuple(one.facts for one in self.jobs),
            pods=self.pods,
            failed_creations=self.failed_creations,
            read=self.read or None,
        )


@dataclass(frozen=True, slots=True)
class JobObjects:
    """A Job with the first of its Pods and the latest of its Events, as ``parts`` chooses them.

    ``missed``: a sentence for each list that was refused. ``phases``: how many of all its Pods are in each phase.
    ``filled``: what the cluster adds to its Pods.
    """

    job: dict[str, Any]
    pods: tuple[dict[str, Any], ...]
    events: tuple[dict[str, Any], ...]
    missed: tuple[str, ...]
    phases: Mapping[str, int]
    filled: Filled = NOT_FILLED
