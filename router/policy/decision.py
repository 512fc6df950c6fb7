"""Holds the input and output of a decision, besides the policy: requester, queue states, decision.

Pure data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from router.hpc.requests import Allocation
from router.policy.schema import Account, Rule
from router.site.nodelabels import ANY_NODE, NodeChoice
from router.site.schema import MpiProfile, Queue, Site
from router.values import unchanging
from router.workload.model import Obstacle

Target = Literal["cloud", "hpc", "deny"]


@unchanging
class Requester:
    """Who asks, and when: ``request.userInfo``, the namespace, and seconds since 1970.

    ``namespace_labels`` and ``time`` are None if unknown.
    """

    user: str
    groups: tuple[str, ...]
    namespace: str
    namespace_labels: Mapping[str, str] | None = None
    time: float | None = None

    def at(self, time: float) -> Requester:
        """The same requester at another time. Every review needs one, and ``dataclasses.replace`` takes ten times as long."""
        return Requester(self.user, self.groups, self.namespace, self.namespace_labels, time)


@dataclass(frozen=True, slots=True)
class QueueState:
    """The current state of one queue. None: unknown.

    :param wait_seconds: how long the longest-waiting job has waited for its turn; 0 if none waits
    """

    site: str
    queue: str
    up: bool | None = None
    free_nodes: int | None = None
    queued_jobs: int | None = None
    running_jobs: int | None = None
    wait_seconds: int | None = None


@unchanging
class Identity:
    """The HPC user, account and project with which the job runs on the site."""

    user: str
    account: str | None
    project: str | None
    entry: Account


@unchanging
class Route:
    """Where a Job goes on HPC, with all that the script and the placement need."""

    site: Site
    queue: Queue
    identity: Identity
    allocation: Allocation
    profile: MpiProfile | None
    rule: Rule
    nodes: NodeChoice = ANY_NODE

    @property
    def place(self) -> str:
        """The queue as ``site/queue``."""
        return f"{self.site.name}/{self.queue.name}"


@unchanging
class Considered:
    """One rule that was looked at, for ``explain``.

    :param held: whether it held; None if evaluating its condition failed
    :param why: the condition with the values that it read
    :param outcome: what followed, or would have followed, from the rule
    :param audit: whether the rule only records what it would have done
    :param target: where the Job went by it, or would have gone; None for a rule that passed it on
    :param queue: the queue of that target, as ``site/queue``; empty if it is not HPC
    """

    rule: str
    held: bool | None
    why: str
    outcome: str = ""
    audit: bool = False
    target: Target | None = None
    queue: str = ""


@unchanging
class Decision:
    """Cloud, HPC or deny; by which rule; and why, in one sentence.

    :param route: set exactly if ``target`` is ``hpc``
    :param wanted: whether a rule would send the Job to HPC
    :param obstacles: the fields that keep such a Job from HPC
    :param in_the_way: all that does: these fields, then what is wrong for each queue of the rule
    :param least: how many of these things are in the way on the queue that has fewest
    :param audited: the audit rules that held, with what each would have done
    :param considered: with ``explain``, the rules up to the one that decided
    :param not_looked_at: with ``explain``, the names of the rules after it
    :param refused_hints: hints of the Job that the rule forbids
    :param warnings: further warnings for the user
    """

    target: Target
    rule: str
    reason: str
    route: Route | None = None
    wanted: bool = False
    obstacles: tuple[Obstacle, ...] = ()
    in_the_way: tuple[str, ...] = ()
    least: int = 0
    audited: tuple[Considered, ...] = ()
    considered: tuple[Considered, ...] = ()
    not_looked_at: tuple[str, ...] = ()
    refused_hints: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The queue as ``site/queue``; empty if the Job does not go to HPC."""
        return self.route.place if self.route else ""


@dataclass(frozen=True, slots=True)
class QueueStates:
    """The state of all queues at one moment, by (site, queue).

    :param warnings: problems of the source that the state comes from
    :param time: that moment in seconds since 1970, if the source tells it. Left out of comparisons, so an unchanged
        state at a later time is equal
    :param only: the one queue, as (site, queue), that may be chosen; None: any
    """

    states: Mapping[tuple[str, str], QueueState] = field(default_factory=dict)
    generation: int = 0
    warnings: tuple[str, ...] = ()
    time: float | None = field(default=None, compare=False)
    only: tuple[str, str] | None = None

    def __hash__(self) -> int:
        # Queue states are the keys of cached messages; equal states have equal generations and sizes.
        return hash((self.generation, len(self.states)))


NO_QUEUE_STATES = QueueStates()
