"""When a Pod's run began, and why a Pod waits.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from router.pod.status import ContainerStatus, Running, Terminated, seconds
from router.pod.view import PodView

_EXPECTED: Final = re.compile(r"(?:^|; )expected to start about (\S+)$")
"""Matches the end of a waiting Pod's message, as ``router.reconcile.queuewords`` writes it."""


def begun(pod: PodView) -> int | None:
    """When the first container of a Pod was first seen running, in seconds since 1970; None before that."""
    found = [time for one in (*pod.status.init_containers, *pod.status.containers) for time in _starts(one)]
    return min(found, default=None)


def _starts(one: ContainerStatus) -> Iterable[int]:
    for state in (one.last, one.state):
        if isinstance(state, Running) and state.started:
            yield state.started
        if isinstance(state, Terminated) and state.started:
            yield state.started


def split_expected(message: str) -> tuple[str, int | None]:
    """A waiting Pod's message without its end, and the expected start that the end tells (seconds since 1970)."""
    found = _EXPECTED.search(message)
    moment = seconds(found[1]) if found else None
    return (message, None) if found is None or moment is None else (message[: found.start()], moment)
