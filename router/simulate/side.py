"""One policy over all seeds.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from router.policy.model import Policy
from router.simulate.figures import figures, over
from router.simulate.jobs import UNIFORM, Assumed, Job
from router.simulate.judging import Judge
from router.simulate.play import World, play
from router.simulate.reports import Side
from router.simulate.series import series


def side(  # noqa: PLR0913 - a name, a policy, and all that it is played with
    name: str,
    policy: Policy,
    jobs: Sequence[Job],
    world: World,
    seeds: Sequence[int],
    *,
    second: bool = False,
    told: Callable[[int], None] = lambda _: None,
) -> Side:
    """What comes of the Jobs, of which there is at least one, by this policy.

    :param second: whether it is the second of two policies, which may size Jobs otherwise
    :param told: called with 1 after each playing
    """
    judge = Judge(policy, second=second)
    played = []
    for seed in seeds:
        played.append(play(judge, jobs, world, seed))
        told(1)
    begin = jobs[0].arrival
    found = over([figures(one, world.pools, world.cloud, begin) for one in played])
    return Side(name, policy.digest, found, tuple(played), series(played, begin))


def draws(jobs: Sequence[Job], assumed: Assumed) -> bool:
    """Whether chance plays a part."""
    return assumed.fraction is UNIFORM and any(job.runtime is None for job in jobs)
