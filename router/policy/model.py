"""Holds a checked policy, which ``load`` makes and ``decide`` reads.

Pure data. References between entries are resolved: a rule's choices hold the site and queue that they name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from router.policy.conditions import Condition
from router.policy.decision import QueueState, Target
from router.policy.schema import Account, Choice, PolicyTest, Rule
from router.site.schema import Queue, Site
from router.workload.model import GpuVendor


@dataclass(frozen=True, slots=True)
class Candidate:
    """A queue that a rule may choose, with its site."""

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

    @property
    def targets(self) -> tuple[Target, ...]:
        """The targets of the decisions that this rule can take; it takes none in the mode ``audit``."""
        if self.rule.mode == "audit":
            return ()
        if self.rule.deny is not None:
            return ("deny",)
        if self.rule.hpc is None:
            return ("cloud",)
        # Also with ifNotRoutable: deny a hint may keep a Job in the cloud, or a condition that cannot be evaluated.
        return ("hpc", "cloud") if self.rule.if_not_routable == "cloud" else ("hpc", "cloud", "deny")


@dataclass(frozen=True, slots=True)
class CheckedTest:
    """One test. ``job`` is the manifest, inline or from the file; ``states`` by (site, queue)."""

    test: PolicyTest
    job: Mapping[str, object]
    states: Mapping[tuple[str, str], QueueState]
    place: str


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """Everything that the files of a policy directory say.

    Compared and hashed by identity, so caches can use a policy as their key.

    :param digest: SHA-256 over the files' names and texts
    :param controllers: the values of ``spec.managedBy`` whose Jobs are not judged
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
    """The keys under ``queues`` in conditions: always ``site/queue``, and ``queue`` if only one site has it."""


def queue_keys(sites: tuple[Site, ...]) -> dict[str, tuple[Site, Queue]]:
    """``site/queue`` for every queue, and ``queue`` alone if only one site has a queue of that name."""
    keys = {f"{site.name}/{queue.name}": (site, queue) for site in sites for queue in site.queues}
    counts: dict[str, int] = {}
    for _, queue in keys.values():
        counts[queue.name] = counts.get(queue.name, 0) + 1
    short = {queue.name: (site, queue) for site, queue in keys.values() if counts[queue.name] == 1}
    return {**short, **keys}
