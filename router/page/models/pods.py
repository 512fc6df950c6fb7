"""When a Pod's run began.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from router.pod.status import ContainerStatus, Running, Terminated
from router.pod.view import PodView


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
