"""Works out the walltime of a batch job, and the time in it that its containers have.

Pure. The rules are those of docs/judging.md.
"""

from __future__ import annotations

from typing import Final

from router.notation import durations
from router.site.misfit import MisfitError
from router.site.schema import Defaults, Queue, Site
from router.site.systems import SYSTEMS
from router.values import unchanging
from router.workload.model import Figure, Workload

DEFAULT_WALLTIME: Final = 3600


@unchanging
class Time:
    """Walltime and the containers' deadline, in seconds, with their origin."""

    walltime: int
    deadline: int
    note: str


def ask(workload: Workload, site: Site, queue: Queue, defaults: Defaults, most: int | None) -> Time:
    """Walltime and deadline. Raises MisfitError. Of a time that the Job asks for, only the margin may be cut."""
    limits = [limit for limit in (queue.walltime_max, most) if limit is not None]
    longest = _down(min(limits), site) if limits else None
    if workload.walltime_asked is not None:
        return _asked_time(workload.walltime_asked, workload.grace, site, longest)
    if defaults.walltime is not None:
        wanted, note = defaults.walltime, "the rule's default"
    elif queue.walltime_default is not None:
        wanted, note = queue.walltime_default, "the queue's default"
    else:
        wanted, note = DEFAULT_WALLTIME, "the default of 1h"
    walltime = _up(wanted, site)
    if longest is not None and walltime > longest:
        walltime, note = longest, f"{note}, cut to the queue's maximum"
    deadline = max(walltime - workload.grace - site.margin, walltime - walltime // 2)
    if deadline + workload.grace > walltime:
        raise MisfitError(
            f"has a grace period of {durations.show(workload.grace)}, more than half of the walltime of "
            f"{durations.show(walltime)} for Jobs that ask for none"
        )
    return Time(walltime, deadline, f"{note}; the containers' deadline is that less grace period and margin")


def _asked_time(asked: Figure, grace: int, site: Site, longest: int | None) -> Time:
    need = asked.value + grace
    allowed = _up(durations.LONGEST, site) if longest is None else longest
    if need > allowed:
        raise MisfitError(
            f"asks for {durations.show(asked.value)} and {durations.show(grace)} of grace; "
            f"the longest walltime is {durations.show(allowed)}{_instead(allowed - grace)}"
        )
    walltime = min(_up(need + site.margin, site), allowed)
    return Time(walltime, asked.value, f"{asked.origin}, with grace period and margin")


def _instead(most: int) -> str:
    return f": ask for at most {durations.show(most)}" if most > 0 else ", which the grace period alone uses up"


def _up(seconds: int, site: Site) -> int:
    """Seconds rounded up to the batch system's unit: Slurm counts whole minutes."""
    step = SYSTEMS[site.system].TRAITS.walltime_step
    return -(-seconds // step) * step


def _down(seconds: int, site: Site) -> int:
    step = SYSTEMS[site.system].TRAITS.walltime_step
    if seconds < step:
        raise MisfitError(
            f"needs at least {durations.show(step)} of walltime, the unit of {site.system}; it may have {seconds}s"
        )
    return seconds // step * step
