"""Holds what the agent waits for and until when, and computes pauses that grow with each try.

Pure.
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
    :param again_at: when to plan again if there is no news until then; None: only after news
    :param node_lost: whether the node is lost while the script may still be alive
    """

    actions: tuple[Action, ...] = ()
    again_at: float | None = None
    node_lost: bool = False


def sooner(*times: float | None) -> float | None:
    """The earliest of the times that are set; None if all are unset."""
    return min((time for time in times if time is not None), default=None)


def both(waits: Iterable[Wait]) -> Wait:
    """Several waits merged into one, each action once."""
    waits = tuple(waits)
    return Wait(
        tuple(dict.fromkeys(action for wait in waits for action in wait.actions)),
        sooner(*(wait.again_at for wait in waits)),
        any(wait.node_lost for wait in waits),
    )


def due(tries: int, last: float | None, terms: Terms) -> float:
    """When to try again after some tries: after ``retry`` seconds, doubled with each try up to ``retry_most``."""
    if last is None:
        return 0
    return last + min(terms.retry * (1 << min(tries - 1, 30)), terms.retry_most)


def spread(uid: str, seconds: float) -> float:
    """The seconds and up to half as many more, always the same for a Pod.

    So an agent that did something for all Pods when it started does not repeat it for all of them at the same moment.
    """
    return seconds * (1 + zlib.crc32(uid.encode()) / (1 << 33))


def stretched(since: float, last: float | None, terms: Terms) -> float:
    """When to look again for something awaited since ``since``: the longer it takes, the less often."""
    if last is None or last < since:
        return since
    return last + min(max(terms.retry / 2, (last - since) / 2), terms.retry_most)
