"""A policy that checked: what ``load`` makes and ``decide`` reads.

Pure data. References between entries are resolved: a rule's choices hold the site and queue that they name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from router.policy.conditions import Condition
from router.policy.decision import QueueState
from router.policy.schema import Account, Choice, PolicyTest, Rule
from router.site.schema import Queue, Site
from router.workload.model import GpuVendor


@dataclass(frozen=True, slots=True)
class Candidate:
    """A queue that a rule may choose, found."""

    site: Site
    queue: Queue
    choice: Choice


@dataclass(frozen=True, slots=True)
class CheckedRule:
    """One rule, compiled. ``place`` is ``file:line``."""

    rule: Rule
    condition: Condition
    candidates: tuple[Candidate, ...]
    place: str

    @property
    def name(self) -> str:
        """The rule's name, unique in its policy."""
        return self.rule.name


@dataclass(frozen=True, slots=True)
class CheckedTest:
    """One test. ``job`` is the manifest, inline or from the file; ``states`` by (site, queue)."""

    test: PolicyTest
    job: Mapping[str, object]
    states: Mapping[tuple[str, str], QueueState]
    place: str


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """Everything that the files of a policy directory say. ``digest`` is SHA-256 over their names and texts.

    ``controllers`` are the values of ``spec.managedBy`` whose Jobs are not judged.

    Compared and hashed by identity: what is made of a policy once is kept by it.
    """

    sites: tuple[Site, ...]
    accounts: tuple[Account, ...]
    rules: tuple[CheckedRule, ...]
    tests: tuple[CheckedTest, ...]
    gpu_resources: Mapping[str, GpuVendor]
    digest: str
    controllers: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    queues: Mapping[str, tuple[Site, Queue]] = field(default_factory=dict)
    """The keys under ``queues`` in conditions: ``queue`` where one site has it, and ``site/queue`` always."""


def queue_keys(sites: tuple[Site, ...]) -> dict[str, tuple[Site, Queue]]:
    """``site/queue`` for every queue, and ``queue`` alone where no other site has one of that name."""
    keys = {f"{site.name}/{queue.name}": (site, queue) for site in sites for queue in site.queues}
    counts: dict[str, int] = {}
    for _, queue in keys.values():
        counts[queue.name] = counts.get(queue.name, 0) + 1
    short = {queue.name: (site, queue) for site, queue in keys.values() if counts[queue.name] == 1}
    return {**short, **keys}
