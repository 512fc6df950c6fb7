"""Batch jobs of this cluster whose Pods are no more: which of them are reaped.

Pure. An informer that has lost its Pods looks just like a cluster that has: so every single Pod is asked for by name
before its job is touched, a quarter of an hour goes by, and where too many are due at once a person decides.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    :param awaited: whether a Pod of the same Job and index waits for its end at the fence: that Pod proves by itself that
        the API server is well, and that this one was replaced
    """

    uid: str
    since: float
    confirmed: bool
    awaited: bool = False


@dataclass(frozen=True, slots=True)
class Reaping:
    """What to do about strays.

    :param confirm: uids of Pods to be asked for now
    :param reap: uids whose jobs are to be cancelled
    :param too_many: in words why nothing is reaped until a person has looked; empty where that is not so
    """

    confirm: tuple[str, ...] = ()
    reap: tuple[str, ...] = ()
    too_many: str = ""


def reaping(strays: Sequence[Stray], ours: int, now: float, *, patience: float = PATIENCE) -> Reaping:
    """Which strays are reaped.

    :param ours: jobs of this cluster that are not over
    """
    ripe = [one for one in strays if one.awaited or now - one.since >= patience]
    confirm = tuple(one.uid for one in ripe if not one.confirmed)
    reap = tuple(one.uid for one in ripe if one.confirmed and one.awaited)
    old = tuple(one.uid for one in ripe if one.confirmed and not one.awaited)
    limit = max(_ALWAYS, int(ours * _SHARE))
    if len(old) > limit:
        words = f"{len(old)} batch jobs of this cluster have no Pod any more; at most {limit} are deleted unasked"
        return Reaping(confirm, reap, words)
    return Reaping(confirm, reap + old)
