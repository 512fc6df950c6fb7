"""Decides whether a Job can run on one queue, with which identity and layout.

Pure. Answers a Route, or all that is in the way: a user who mends one thing must not meet the next one afterwards.
``router.site.allocation`` checks the figures, and ``router.site.support`` what a script can do.
"""

from __future__ import annotations

from dataclasses import dataclass

from router.hpc.requests import Allocation
from router.policy.decision import QueueState, Requester, Route
from router.policy.identity import identify
from router.policy.model import Candidate, Policy
from router.policy.schema import Rule
from router.site import nodelabels, resources
from router.site.allocation import allocate
from router.site.profiles import profile_of
from router.site.schema import MpiProfile
from router.site.support import unsupported
from router.workload.model import Obstacle, Workload


@dataclass(frozen=True, slots=True)
class Misfit:
    """All that keeps a Job from a queue, as far as it can be known.

    :param obstacles: fields of the Job
    :param reasons: everything else, each a clause; what a user can change comes first
    """

    obstacles: tuple[Obstacle, ...] = ()
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join([*map(str, self.obstacles), *self.reasons])


def fit(
    policy: Policy, rule: Rule, candidate: Candidate, workload: Workload, requester: Requester, state: QueueState | None
) -> Route | Misfit:
    """Try one queue of a rule."""
    site, queue = candidate.site, candidate.queue
    profile = profile_of(workload, site, implied=rule.mpi)
    nodes, unmet = nodelabels.choose(workload, site, queue)
    obstacles = (*unsupported(workload, site, profile), *resources.unmapped(workload, site, queue), *unmet)
    identity = identify(policy.accounts, requester, site.name)
    laid_out = _laid_out(rule, candidate, workload, profile)
    reasons = [one for one in (laid_out, identity) if isinstance(one, str)]
    if not isinstance(identity, str):
        asked = () if isinstance(laid_out, str) else (laid_out.directives,)
        reasons += nodelabels.contradictions(nodes, (identity.entry.directives, rule.directives, *asked))
    if state is not None and state.up is False:
        reasons.append("the queue is closed, down, or not in the batch system")
    if obstacles or reasons or isinstance(laid_out, str) or isinstance(identity, str):
        return Misfit(obstacles, tuple(reasons))
    return Route(site, queue, identity, laid_out, profile, rule, nodes)


def _laid_out(rule: Rule, candidate: Candidate, workload: Workload, profile: MpiProfile | None) -> Allocation | str:
    """How the Job runs on the queue, or one clause that says why it cannot."""
    if rule.mpi and profile is None:
        site = candidate.site.name
        return f"the rule says that it is an MPI program (mpi), and site {site} has no MPI profile for it"
    found = allocate(
        workload,
        candidate.site,
        candidate.queue,
        profile=profile,
        defaults=rule.defaults,
        max_nodes=candidate.choice.max_nodes,
        max_walltime=candidate.choice.max_walltime,
    )
    if not isinstance(found, str):
        found = resources.asking(workload, candidate.site, candidate.queue, found)
    return f"it {found}" if isinstance(found, str) else found
