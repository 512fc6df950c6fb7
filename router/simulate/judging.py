"""What a policy decides about a Job as it arrives, and what it then takes of a queue.

Pure, with a memory of decisions that nothing but the Job can change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from router.gate.judging import Gate, decided
from router.policy.deciding import first_to_hold
from router.policy.decision import Decision, QueueState, QueueStates, Route
from router.policy.model import CheckedRule, Policy
from router.replay.outcomes import UNTOUCHED, missing_facts
from router.simulate import nodes
from router.simulate.capacity import Pool
from router.simulate.jobs import Job
from router.values import unchanging
from router.workload.cluster import UNKNOWN_CLUSTER
from router.workload.model import Workload


@unchanging
class Verdict:
    """Where a Job goes.

    :param target: cloud, hpc, deny, or ``UNTOUCHED``
    :param queue: as ``site/queue``; empty unless the target is hpc
    :param reason: of the decision, where a rule wanted it on HPC and it cannot go there; else empty
    """

    target: str
    rule: str
    route: Route | None = None
    queue: str = ""
    reason: str = ""
    missing: tuple[str, ...] = ()


class Judge:
    """One policy.

    :param second: whether Jobs are sized as the second of two policies sizes them
    """

    def __init__(self, policy: Policy, *, second: bool = False) -> None:
        self.policy = policy
        self.looks = any(_looks(rule) for rule in policy.rules)
        self._denies = any(rule.rule.deny is not None for rule in policy.rules)
        self._second = second
        self._known: dict[tuple[int, str], Verdict] = {}
        self._count = 0

    def workload(self, job: Job) -> Workload:
        """The Job as this policy sizes it."""
        return (self._second and job.case.resized) or job.case.workload

    def verdict(self, job: Job, number: int, states: Mapping[tuple[str, str], QueueState]) -> Verdict:
        """The decision about the Job of this number, which is the same Job in each playing."""
        if not self.looks:
            return self._remembered(job, number, "", QueueStates(states))
        self._count += 1
        now = QueueStates(states, self._count)
        workload = self.workload(job)
        if self._denies and workload.walltime_asked != workload.deadline:
            # A Job that is to stay is judged once more without its walltime hint, and that may be a denial.
            return self._judged(job, now)
        requester = replace(job.case.requester, time=float(int(job.arrival)))
        rule = first_to_hold(self.policy, workload, requester, now)
        # Queues decide whether a condition can be evaluated, so such a decision is none for another state of them.
        return self._judged(job, now) if rule is None else self._remembered(job, number, rule, now)

    def _remembered(self, job: Job, number: int, rule: str, states: QueueStates) -> Verdict:
        """The decision by that rule. As every queue of the model is open, it depends on the Job alone."""
        if (number, rule) not in self._known:
            self._known[number, rule] = self._judged(job, states)
        return self._known[number, rule]

    def _judged(self, job: Job, states: QueueStates) -> Verdict:
        workload = self.workload(job)
        if workload.managed_by in self.policy.controllers:
            return Verdict(UNTOUCHED, "")
        requester = replace(job.case.requester, time=job.arrival)
        gate = Gate(self.policy, UNKNOWN_CLUSTER, states, None, int(job.arrival))
        decision = decided(workload, requester, gate)
        case = replace(job.case, requester=requester, states=states)
        return _told(decision, tuple(dict.fromkeys(missing_facts(self.policy, case, workload, decision))))


def _looks(rule: CheckedRule) -> bool:
    return bool(rule.condition.queues) or "queues" in rule.condition.whole


def _told(decision: Decision, missing: tuple[str, ...]) -> Verdict:
    reason = ""
    if decision.wanted and not decision.route:
        # Without the figures of queues, which a remembered decision would repeat.
        reason = "; ".join(decision.in_the_way) or decision.reason
    return Verdict(decision.target, decision.rule, decision.route, decision.place, reason, missing)


def needs(route: Route, pool: Pool) -> nodes.Needs:
    """The slots that a Pod takes on each node: of cores, memory and GPUs the largest share of a node, in cores.

    A site that gives GPU Jobs whole nodes does so here.
    """
    found: dict[int, int] = {}
    for chunk in route.allocation.chunks:
        slots = max(
            1, chunk.ncpus, _share(chunk.memory, pool.memory, pool.cores), _share(chunk.gpus, pool.gpus, pool.cores)
        )
        if chunk.gpus and route.site.gpus == "exclusive":
            slots = max(slots, pool.cores)
        found[slots] = found.get(slots, 0) + chunk.count
    return nodes.needs(found)


def _share(asked: int | None, has: int | None, cores: int) -> int:
    """The part of a node, in cores, rounded up; more than all cores if a node has none of it."""
    if not asked or has is None:
        return 0
    return cores + 1 if not has else -(-asked * cores // has)
