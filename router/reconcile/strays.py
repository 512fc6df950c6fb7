"""Batch jobs of this cluster whose Pods are no more: which of them are reaped.

Pure. An informer that has lost its Pods looks just like a cluster that has: so every single Pod is asked for by name
before its job is touched, a quarter of an hour goes by, and where too many are due at once a person decides.

Users give their jobs what names they like. So each user's are counted apart, and all users' together without those of
the one who has most: what a single user names like ours stops nobody else's from being reaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

PATIENCE: Final = 900.0
"""Seconds that a job is without a Pod before it is reaped."""

_ALWAYS: Final = 20
_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Stray:
    """One Pod's jobs without the Pod.

    :param uid: the Pod's
    :param since: when it was first missed
    :param confirmed: whether a GET of the Pod answered 404 or another uid since
    :param user: the HPC user whose the jobs are; empty where that is not known
    :param awaited: whether a Pod of the same Job and index waits for its end at the fence: that Pod proves by itself that
        the API server is well, and that this one was replaced
    """

    uid: str
    since: float
    confirmed: bool
    user: str = ""
    awaited: bool = False


@dataclass(frozen=True, slots=True)
class Reaping:
    """What to do about strays.

    :param confirm: uids of Pods to be asked for now
    :param reap: uids whose jobs are to be cancelled
    :param too_many: in words why some or all are not reaped until a person has looked; empty where that is not so
    """

    confirm: tuple[str, ...] = ()
    reap: tuple[str, ...] = ()
    too_many: str = ""


def reaping(strays: Sequence[Stray], ours: Mapping[str, int], now: float, *, patience: float = PATIENCE) -> Reaping:
    """Which strays are reaped: at most the larger of 20 and a tenth of all jobs, besides those that are awaited.

    Where more than that of one user's are due, none of that user's are; where so many are due of the other users than
    the one with most, none at all.

    :param ours: jobs of this cluster that are not over, by HPC user
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
        f"{count} batch jobs of {_called(user)} have no Pod any more; of one user's at most {_limit(ours.get(user, 0))} "
        "are deleted unasked"
        for user, count in sorted(over.items())
    )
    return Reaping(confirm, awaited + reap, words)


def _beyond_one(due: Mapping[str, int], ours: Mapping[str, int]) -> str:
    """Why nothing is reaped of anybody; empty where it is one user alone of whom so many are due, if any is."""
    most = max(due, key=lambda user: (due[user], user), default="")
    rest = sum(due.values()) - due.get(most, 0)
    limit = _limit(sum(ours.values()) - ours.get(most, 0))
    if rest <= limit:
        return ""
    count = sum(due.values())
    return (
        f"{count} batch jobs of this cluster, of {len(due)} HPC users, have no Pod any more; beside those of "
        f"{_called(most)} at most {limit} are deleted unasked"
    )


def _limit(jobs: int) -> int:
    return max(_ALWAYS, int(jobs * _SHARE))


def _called(user: str) -> str:
    return f"HPC user {user}" if user else "no known HPC user"
