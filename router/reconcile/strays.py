"""Decides which batch jobs of this cluster whose Pods no longer exist are reaped (cancelled).

Pure. An informer that has lost its Pods looks just like a cluster that has lost them. So the agent asks for every
single Pod by name before it touches the Pod's job, and waits a quarter of an hour. If too many jobs are due at once, it
leaves the decision to a person.

Users can name their jobs like the agent's. So the jobs of each user are counted apart, and the total leaves out the
user with the most jobs: false jobs of a single user do not keep other users' jobs from being reaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

PATIENCE: Final = 900.0
"""Seconds for which a job must be without a Pod before it is reaped."""

_ALWAYS: Final = 20
_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Stray:
    """The jobs of one Pod that no longer exists.

    :param uid: of the Pod
    :param since: when the Pod was first missed
    :param confirmed: whether a GET of the Pod has answered 404 or another uid since then
    :param user: the HPC user who owns the jobs; empty if unknown
    :param awaited: whether a newer Pod of the same Job and index waits at the fence for the end of these jobs. The
        newer Pod proves that the API server works, and that the stray's Pod was replaced
    """

    uid: str
    since: float
    confirmed: bool
    user: str = ""
    awaited: bool = False


@dataclass(frozen=True, slots=True)
class Reaping:
    """What to do about strays.

    :param confirm: uids of Pods that the agent asks for now
    :param reap: uids of Pods whose jobs are cancelled
    :param too_many: why some or all strays are left until a person has looked; empty if none are
    """

    confirm: tuple[str, ...] = ()
    reap: tuple[str, ...] = ()
    too_many: str = ""


def reaping(strays: Sequence[Stray], ours: Mapping[str, int], now: float, *, patience: float = PATIENCE) -> Reaping:
    """Which strays are reaped: all awaited ones, and of the rest at most 20 or a tenth of all jobs, whichever is more.

    The same limit holds for one user's strays and jobs: above it, none of this user's are reaped. It also holds for all
    users together, without the user with the most strays: above it, none are reaped at all.

    :param ours: number of jobs of this cluster that are not over, by HPC user
    """
    ripe = [one for one in strays if one.awaited or now - one.since >= patience]
    confirm = tuple(one.uid for one in ripe if not one.confirmed)
    awaited = tuple(one.uid for one in ripe if one.confirmed and one.awaited)
    old = sorted((one for one in ripe if one.confirmed and not one.awaited), key=lambda one: one.since)
    due = Counter(one.user for one in old)
    if words := _beyond_one(due, ours):
        return Reaping(confirm, awaited, words)
    over = {user: count for user, count in due.items() if count > _limit(ours.get(user, 0))}
    reap = tuple(one.uid for one in old if one.user not in over)[: _limit(sum(ours.values()))]
    words = "; ".join(
        f"{count} batch jobs of {_called(user)} have no Pod any more, and the agent deletes at most "
        f"{_limit(ours.get(user, 0))} of one user's by itself: check them, and delete them in the batch system"
        for user, count in sorted(over.items())
    )
    return Reaping(confirm, awaited + reap, words)


def _beyond_one(due: Mapping[str, int], ours: Mapping[str, int]) -> str:
    """Why no user's strays are reaped; empty if at most one user has too many of them."""
    most = max(due, key=lambda user: (due[user], user), default="")
    rest = sum(due.values()) - due.get(most, 0)
    limit = _limit(sum(ours.values()) - ours.get(most, 0))
    if rest <= limit:
        return ""
    count = sum(due.values())
    return (
        f"{count} batch jobs of this cluster, of {len(due)} HPC users, have no Pod any more, and beside those of "
        f"{_called(most)} the agent deletes at most {limit} by itself: check them, and delete them in the batch system"
    )


def _limit(jobs: int) -> int:
    return max(_ALWAYS, int(jobs * _SHARE))


def _called(user: str) -> str:
    return f"HPC user {user}" if user else "no known HPC user"
