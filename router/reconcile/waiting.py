"""What there is to wait for.

Pure data, and the arithmetic of waiting longer each time.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from router.reconcile.model import Action, Terms


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be concluded yet.

    :param actions: what to do meanwhile, or to learn more
    :param again_at: when to look again without having learnt anything, None: never
    :param node_lost: the node is lost, and the script perhaps still alive
    """

    actions: tuple[Action, ...] = ()
    again_at: float | None = None
    node_lost: bool = False


def sooner(*times: float | None) -> float | None:
    """The earliest of some times that are set."""
    return min((time for time in times if time is not None), default=None)


def both(waits: Iterable[Wait]) -> Wait:
    """Several waits as one: each action once."""
    waits = tuple(waits)
    return Wait(
        tuple(dict.fromkeys(action for wait in waits for action in wait.actions)),
        sooner(*(wait.again_at for wait in waits)),
        any(wait.node_lost for wait in waits),
    )


def due(tries: int, last: float | None, terms: Terms) -> float:
    """When something that was tried so often is tried again: after ``retry`` seconds, doubled each time."""
    if last is None:
        return 0
    return last + min(terms.retry * (1 << min(tries - 1, 30)), terms.retry_most)


def spread(uid: str, seconds: float) -> float:
    """So many seconds and up to half as many more, always the same for a Pod: what an agent does for all of its Pods at
    its start it does not do for all of them at once later on.
    """
    return seconds * (1 + zlib.crc32(uid.encode()) / (1 << 33))


def stretched(since: float, last: float | None, terms: Terms) -> float:
    """When to look again for what has been waited for since then: the longer it takes, the less often."""
    if last is None or last < since:
        return since
    return last + min(max(terms.retry / 2, (last - since) / 2), terms.retry_most)
