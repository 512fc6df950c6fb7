"""Decides whether a Job can run on one queue, with which identity and layout.

Pure. Answers a Route, or why not. Sets the order in which reasons are given; ``router.site.allocation`` checks the
figures, and ``router.script`` what a script can do.
"""

from __future__ import annotations

from dataclasses import dataclass

from router.policy import sentences
from router.policy.decision import Identity, QueueState, Requester, Route
from router.policy.identity import identify
from router.policy.model import Candidate, Policy
from router.policy.schema import Rule
from router.site import nodelabels
from router.site.allocation import allocate
from router.site.nodelabels import NodeChoice
from router.site.profiles import profile_of
from router.site.schema import MpiProfile
from router.site.support import unsupported
from router.workload.model import Obstacle, Workload


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a queue does not fit a Job: one clause, and the fields of the Job that are in the way, if any."""

    reason: str
    obstacles: tuple[Obstacle, ...] = ()


def fit(
    policy: Policy, rule: Rule, candidate: Candidate, workload: Workload, requester: Requester, state: QueueState | None
) -> Route | Misfit:
    """Try one queue of a rule."""
    site, queue = candidate.site, candidate.queue
    if state is not None and state.up is False:
        return Misfit("the queue is closed, down, or not in the batch system")
    identity = identify(policy.accounts, requester, site.name)
    if isinstance(identity, str):
        return Misfit(identity)
    profile = profile_of(workload, site, implied=rule.mpi)
    if rule.mpi and profile is None:
        return Misfit(f"the rule says that it is an MPI program (mpi), and site {site.name} has no MPI profile for it")
    nodes, unmet = nodelabels.choose(workload, site, queue)
    if obstacles := (*unsupported(workload, site, profile), *unmet):
        return Misfit(sentences.in_the_way(obstacles), obstacles)
    return _laid_out(rule, candidate, workload, identity, profile, nodes)


def _laid_out(
    rule: Rule,
    candidate: Candidate,
    workload: Workload,
    identity: Identity,
    profile: MpiProfile | None,
    nodes: NodeChoice,
) -> Route | Misfit:
    site, queue = candidate.site, candidate.queue
    if problem := nodelabels.contradiction(nodes, (identity.entry.directives, rule.directives)):
        return Misfit(problem)
    allocation = allocate(
        workload,
        site,
        queue,
        profile=profile,
        defaults=rule.defaults,
        max_nodes=candidate.choice.max_nodes,
        max_walltime=candidate.choice.max_walltime,
    )
    if isinstance(allocation, str):
        return Misfit(f"it {allocation}")
    return Route(site, queue, identity, allocation, profile, rule, nodes)
