"""Decides which HPC users of a site the agent attends to, and which are at rest (have no connection and threads).

Pure. A user is at rest while there is nothing to do for the user. The agent visits users at rest now and then, to find
jobs without a Pod and old directories. It always attends to at least one user who reaches the batch system, to see
whether the batch system answers and what state its queues have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LOOKOUTS: Final = 1
"""Number of users that the agent attends to even if there is nothing to do for them."""

ROUND_SECONDS: Final = 3600.0
"""Seconds at rest after which a user is visited."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of one user at a moment. Times are monotonic seconds.

    :param awake: whether the agent attends to the user; else the user is at rest
    :param wanted: whether there is something to do: a Pod that is not over, a step, a directory to be removed
    :param since: when the user last became awake or went to rest
    :param needed: when there was last something to do since then; None without such a time
    :param reached: whether the agent has looked at the user's jobs and the batch system answers
    :param visited: whether the agent has looked at everything of the user once since then
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
    """Users that the agent attends to from now on (``rise``), and users that go to rest (``rest``)."""

    rise: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()


def change(users: Sequence[Seen], now: float, *, idle: float) -> Change:
    """Which users rise or go to rest now.

    :param idle: seconds from the last thing to do until a user goes to rest. A user who was only visited goes to rest
        at once. A user who cannot reach the batch system does after ``idle`` seconds, provided that another user can
    """
    reached = [one for one in users if one.awake and one.reached]
    able = sorted((one for one in users if _may_rest(one, now, idle)), key=lambda one: (_last(one), one.user))
    spare = max(0, len(reached) - LOOKOUTS)
    rest = [one.user for one in able if one.reached][:spare]
    if len(reached) >= LOOKOUTS:
        rest += [one.user for one in able if not one.reached]
    return Change(_rising(users, now, lacking=len(reached) < LOOKOUTS), tuple(sorted(rest)))


def _rising(users: Sequence[Seen], now: float, *, lacking: bool) -> tuple[str, ...]:
    """Users at rest with something to do, and at most one other: the login node gets one visitor after the other."""
    asleep = sorted((one for one in users if not one.awake), key=lambda one: (one.since, one.user))
    due = [one.user for one in asleep if not one.wanted and (lacking or now - one.since >= ROUND_SECONDS)]
    return tuple(sorted([*(one.user for one in asleep if one.wanted), *due[:1]]))


def _may_rest(one: Seen, now: float, idle: float) -> bool:
    if not one.awake or one.wanted:
        return False
    only_visited = one.needed is None and one.reached and one.visited
    return only_visited or now - _last(one) >= idle


def _last(one: Seen) -> float:
    """When there was last something to do for the user, or else ``since``."""
    return max(one.since, -math.inf if one.needed is None else one.needed)


def unreachable(reasons: Sequence[str], at_rest: int) -> str:
    """Why the site is unreachable for all users; empty if a user reaches it.

    One user's trouble says nothing about the site. While other users are at rest, another one rises and tries first.

    :param reasons: for each user who has tried, why the batch system was not reached; empty if it was
    :param at_rest: number of other users, who are at rest
    """
    if not reasons or not all(reasons) or (at_rest and len(reasons) <= LOOKOUTS):
        return ""
    return reasons[0]
