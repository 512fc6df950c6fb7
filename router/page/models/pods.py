"""When Pods ran, and how they ended.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from router.names import CONDITION_READY
from router.pod.status import ContainerStatus, Running, Terminated
from router.pod.view import PodView

_USUAL: Final = "Error"
"""A container's reason that says as little as its exit code."""


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


def ended(pod: PodView) -> int | None:
    """When a Pod was over, in seconds since 1970; None before that, and if it is unknown.

    The end of a container on a lost node is unknown: then it counts from when the Pod was no longer ready.
    """
    if not pod.status.terminal:
        return None
    states = [one.state for one in (*pod.status.init_containers, *pod.status.containers)]
    found = [one.finished for one in states if isinstance(one, Terminated) and one.finished]
    ready = pod.status.condition(CONDITION_READY)
    return max(found, default=ready.since or None if ready and not ready.holds else None)


def waited_and_ran(
    created: int, pods: Iterable[PodView], until: float, *, waits: bool
) -> tuple[float | None, float | None]:
    """For how many seconds a Job waited, and for how many at least one of its Pods ran; None if unknown.

    It waits from its creation to its first run, and between two runs.

    :param until: its end, or now
    :param waits: whether it waits now
    """
    runs = sorted((start, _or(ended(pod), until)) for pod in pods if (start := begun(pod)) is not None)
    waited = ran = 0.0
    reached: float = min([created, *(start for start, _ in runs)])
    for start, end in runs:
        waited += max(0, start - reached)
        ran += max(0, end - max(start, reached))
        reached = max(reached, end)
    if waits:
        waited += max(0, until - reached)
    return waited if runs or waits else None, ran if runs else None


def _or(moment: int | None, until: float) -> float:
    return until if moment is None else moment


def endings(pod: PodView) -> tuple[str, ...]:
    """How the containers of a failed Pod ended, apart from those that succeeded."""
    found = ((one.name, one.state) for one in (*pod.status.init_containers, *pod.status.containers))
    return tuple(_ending(name, how) for name, how in found if isinstance(how, Terminated) and how.code)


def _ending(name: str, how: Terminated) -> str:
    signal = f", by signal {how.signal}" if how.signal else ""
    reason = f" ({how.reason})" if how.reason not in ("", _USUAL) else ""
    return f"container {name} ended with {how.code}{signal}{reason}"
