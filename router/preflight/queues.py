"""Compares the policy's queues with those of the batch system.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from router.hpc import QueueReport
from router.notation import durations
from router.preflight import Line, Mark
from router.site.schema import Queue, Site

_Figure = tuple[str, int | None, int | None, Callable[[int], str]]
_NO_FIGURE: Final = "no figures"
_NAMED: Final = 5
"""Most nodes that a line names."""


def queue_lines(site: Site, found: Mapping[str, QueueReport], user: str) -> tuple[Line, ...]:
    """A line for each queue of the policy: whether it exists, is open, and has what the policy declares."""
    return tuple(_queue(queue, found, user) for queue in site.queues)


def _queue(queue: Queue, found: Mapping[str, QueueReport], user: str) -> Line:
    name, state = f"queue/{queue.name}", found.get(queue.name)
    figures = _figures(queue, state)
    expected = "; ".join(f"{word} {show(mine)} or more" for word, mine, _, show in figures if mine)
    if state is None:
        known = ", ".join(sorted(found)) or "none"
        return Line(name, user, Mark.MUST, f"no such queue; there are: {known}", expected, "fix the queue's name")
    seen = "; ".join(f"{word} {show(has)}" for word, _, has, show in figures if has is not None) or _NO_FIGURE
    broken = _names(state.broken)
    seen = f"{seen}; out of order: {broken}" if broken else seen
    if problems := list(_problems(state, figures, broken)):
        return Line(name, user, Mark.MUST, seen, expected, "; ".join(problems))
    if not (state.enabled and state.started):
        words = f"{'closed' if not state.enabled else 'stopped'}: {state.reason}; {seen}"
        return Line(name, user, Mark.WARNING, words, expected, "open the queue; its Jobs wait until then")
    if broken and state.nodes is not None and queue.nodes > state.nodes and not state.destinations:
        change = f"fix {broken}: a Job that needs more nodes than are left waits until then"
        return Line(name, user, Mark.WARNING, seen, expected, change)
    if queue.walltime_max is None and state.walltime_max is not None:
        change = f"write walltimeMax: {durations.show(state.walltime_max)}, else longer Jobs are refused there"
        return Line(name, user, Mark.WARNING, seen, expected, change)
    return Line(name, user, Mark.OK, seen, expected)


def _problems(state: QueueReport, figures: list[_Figure], broken: str) -> Iterator[str]:
    """What keeps Jobs from running in a queue at all; nothing for a routing queue, as its jobs run in others."""
    if state.destinations:
        return
    if broken and not state.nodes:
        yield f"fix {broken}: the queue has no node that runs jobs"
    yield from _beyond(figures)


def _figures(queue: Queue, state: QueueReport | None) -> list[_Figure]:
    """For each limit of a job: its name, the policy's and the batch system's figure. Nodes out of order count, too."""
    has = state or QueueReport(queue.name, enabled=True, started=True)
    nodes = None if has.nodes is None else has.nodes + len(has.broken)
    return [
        ("walltimeMax", queue.walltime_max, has.walltime_max, durations.show),
        ("nodes", queue.nodes, nodes if has.nodes_max is None else has.nodes_max, str),
        ("cpusPerNode", queue.cpus_per_node, has.cores_per_node, str),
        ("memoryPerNode", queue.memory_per_node, has.memory_per_node, _mebibytes),
        ("gpusPerNode", queue.gpus_per_node, has.gpus_per_node, str),
    ]


def _beyond(figures: list[_Figure]) -> Iterator[str]:
    for word, mine, has, show in figures:
        if mine is not None and has is not None and mine > has:
            yield f"write {word}: {show(has)} in the policy: more is refused, or waits for ever"


def _mebibytes(count: int) -> str:
    return f"{count // 1024**2}Mi"


def _names(nodes: tuple[str, ...]) -> str:
    more = len(nodes) - _NAMED
    return ", ".join(nodes[:_NAMED]) + (f" and {more} more" if more > 0 else "")
