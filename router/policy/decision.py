"""What deciding takes and returns, besides the policy itself: who asks, how the queues are, what was decided.

Pure data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from router.hpc.requests import Allocation
from router.policy.schema import Account, Rule
from router.site.schema import MpiProfile, Queue, Site
from router.values import unchanging
from router.workload.model import Obstacle

Target = Literal["cloud", "hpc", "deny"]


@unchanging
class Requester:
    """Who asks, and when: ``request.userInfo``, the namespace, and seconds since 1970.

    ``namespace_labels`` and ``time`` are None where they are not known.
    """

    user: str
    groups: tuple[str, ...]
    namespace: str
    namespace_labels: Mapping[str, str] | None = None
    time: float | None = None


@dataclass(frozen=True, slots=True)
class QueueState:
    """How one queue is right now. None: not known.

    ``wait_seconds``: for how long the job has waited that waits longest for its turn; 0 where none does.
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
    """As whom the job runs on the site."""

    user: str
    account: str | None
    project: str | None
    entry: Account


@unchanging
class Route:
    """Where a Job goes on HPC, and all that the script and the placement need to know of it."""

    site: Site
    queue: Queue
    identity: Identity
    allocation: Allocation
    profile: MpiProfile | None
    rule: Rule


@unchanging
class Considered:
    """One rule that was looked at, for ``explain``: did it hold, why (the condition with the values that it read).

    ``audit``: the rule only records what it would have done.
    """

    rule: str
    held: bool | None
    why: str
    outcome: str = ""
    audit: bool = False


@unchanging
class Decision:
    """Cloud, HPC or deny, by which rule, and why in one sentence.

    ``route`` is set exactly when ``target`` is ``hpc``. ``obstacles`` are the fields that keep the Job in the cloud
    although a rule would have sent it; ``wanted`` then says so. ``audited`` are the audit rules that held, with what
    each would have done. ``refused_hints`` were forbidden by the rule. With ``explain``, ``considered`` are the rules up
    to the one that decided, and ``not_looked_at`` the names of those behind it.
    """

    target: Target
    rule: str
    reason: str
    route: Route | None = None
    wanted: bool = False
    obstacles: tuple[Obstacle, ...] = ()
    audited: tuple[Considered, ...] = ()
    considered: tuple[Considered, ...] = ()
    not_looked_at: tuple[str, ...] = ()
    refused_hints: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueStates:
    """The state of all queues at one moment, by (site, queue). ``warnings``: what the source said and nobody knows.

    ``time``: that moment, seconds since 1970, where the source tells it. Not compared: the same again is no news.
    """

    states: Mapping[tuple[str, str], QueueState] = field(default_factory=dict)
    generation: int = 0
    warnings: tuple[str, ...] = ()
    time: float | None = field(default=None, compare=False)

    def __hash__(self) -> int:
        # Messages made of queue states are cached by them; equal states have equal generations and sizes.
        return hash((self.generation, len(self.states)))


NO_QUEUE_STATES = QueueStates()
