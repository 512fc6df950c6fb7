"""Which HPC users of a site are attended to, and which are at rest: who has nothing for the agent to do has no
connection and no threads.

Pure. A user at rest is attended to again as soon as there is something to do, and is visited now and then: for jobs
without a Pod, and for directories that have become old. At least one user who reaches the batch system is never at rest:
whether it answers, and how its queues are, is seen from there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LOOKOUTS: Final = 1
"""Users who are attended to whether or not there is anything to do for them."""

ROUND_SECONDS: Final = 3600.0
"""After so long at rest a user is visited."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One user at a moment. Times are monotonic seconds.

    :param awake: is attended to; else at rest
    :param wanted: there is something to do: a Pod that is not over, a step, a directory to be removed
    :param since: when it was last begun to attend to the user, or to leave the user at rest
    :param needed: when there was last something to do since then; None: there was nothing
    :param reached: the user's jobs were looked at, and the batch system answers
    :param visited: all was looked at once since then
    """

    user: str
    awake: bool
    wanted: bool
    since: float
    needed: float | None = None
    reached: bool = False
    visited: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """Users who are attended to from now on, and users who are left at rest."""

    rise: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()


def change(users: Sequence[Seen], now: float, *, idle: float) -> Change:
    """What is to be changed now.

    A user for whom there was something to do is left at rest so many seconds (``idle``) after that. One who was only
    visited is so at once, and one who cannot be reached after as long, unless nobody can be.
    """
    reached = [one for one in users if one.awake and one.reached]
    able = sorted((one for one in users if _may_rest(one, now, idle)), key=lambda one: (_last(one), one.user))
    spare = max(0, len(reached) - LOOKOUTS)
    rest = [one.user for one in able if one.reached][:spare]
    if len(reached) >= LOOKOUTS:
        rest += [one.user for one in able if not one.reached]
    return Change(_rising(users, now, lacking=len(reached) < LOOKOUTS), tuple(sorted(rest)))


def _rising(users: Sequence[Seen], now: float, *, lacking: bool) -> tuple[str, ...]:
    """Whoever is wanted, and at most one who is not: the login node gets one visitor after the other."""
    asleep = sorted((one for one in users if not one.awake), key=lambda one: (one.since, one.user))
    due = [one.user for one in asleep if not one.wanted and (lacking or now - one.since >= ROUND_SECONDS)]
    return tuple(sorted([*(one.user for one in asleep if one.wanted), *due[:1]]))


def _may_rest(one: Seen, now: float, idle: float) -> bool:
    if not one.awake or one.wanted:
        return False
    only_visited = one.needed is None and one.reached and one.visited
    return only_visited or now - _last(one) >= idle


def _last(one: Seen) -> float:
    """When there was last something to do, or else when it was begun."""
    return max(one.since, -math.inf if one.needed is None else one.needed)


def unreachable(reasons: Sequence[str], at_rest: int) -> str:
    """Why the site is unreachable: nobody reaches it. Empty where somebody does.

    One user's trouble is that user's alone. While others are at rest nothing is concluded from it: another one rises, and
    tries.

    :param reasons: of each user who has tried, why the batch system was not reached; empty where it was
    :param at_rest: how many users there are beside them who do not try now
    """
    if not reasons or not all(reasons) or (at_rest and len(reasons) <= LOOKOUTS):
        return ""
    return reasons[0]
