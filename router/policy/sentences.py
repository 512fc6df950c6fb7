"""Words decisions: one plain sentence with figures, and the values that a condition read.

Pure. Reads figures, decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from router.hpc.requests import Allocation
from router.notation import durations, quantity
from router.policy import variables
from router.policy.conditions import Condition, Verdict
from router.policy.decision import QueueStates, Requester, Route
from router.policy.variables import QueueNow
from router.workload.model import Obstacle, Workload

_MOST_NAMED: Final = 50


def asked(workload: Workload) -> str:
    """The resources that a Job asks for: ``2 Pods of 4 cores, 8Gi of memory, 1 GPU, for 1h``."""
    figures = []
    if workload.cpu is not None:
        figures.append(f"{quantity.show_cpu(workload.cpu.value)} {'core' if workload.cpu.value == 1000 else 'cores'}")
    if workload.memory is not None:
        figures.append(f"{quantity.show_bytes(workload.memory.value)} of memory")
    if workload.gpus is not None:
        figures.append(count(workload.gpus.value, "GPU"))
    if workload.ranks is not None:
        figures.append(count(workload.ranks.value, "MPI rank"))
    said = ", ".join(figures) or "nothing"
    pods = variables.pods_at_once(workload)
    said = f"{count(pods, 'Pod')} of {said}" if pods != 1 else said
    return f"{said}, for {durations.show(workload.walltime_asked.value)}" if workload.walltime_asked else said


def count(number: int, noun: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def in_the_way(obstacles: Sequence[Obstacle], named_before: int = 0) -> str:
    """The fields that keep a Job from HPC, each with its reason; after the first fifty, only their number.

    :param named_before: how many of the fifty the sentence has named already
    """
    room = max(0, _MOST_NAMED - named_before)
    named = "; ".join([str(obstacle) for obstacle in obstacles[:room]])
    if len(obstacles) <= room:
        return named
    return f"{named}; and {len(obstacles) - room} more" if named else f"{len(obstacles)} fields are in the way"


def laid_out(allocation: Allocation) -> str:
    """The resources requested from the batch system: ``2 nodes, 8 cores, 16Gi for 1h10m``."""
    cores = sum(chunk.count * chunk.ncpus for chunk in allocation.chunks)
    gpus = sum(chunk.count * chunk.gpus for chunk in allocation.chunks)
    memory = [chunk.count * chunk.memory for chunk in allocation.chunks if chunk.memory is not None]
    parts = [count(allocation.nodes, "node"), count(cores, "core")]
    if memory:
        parts.append(quantity.show_bytes(sum(memory)))
    if gpus:
        parts.append(count(gpus, "GPU"))
    return f"{', '.join(parts)} for {durations.show(allocation.walltime)}"


def sent(route: Route, states: QueueStates, passed_over: str) -> str:
    """Why a Job goes to a queue. Says that the queue's state is unknown if there are states of other queues."""
    state = states.states.get((route.site.name, route.queue.name))
    known = "" if not states.states or (state and state.up is not None) else ", whose state is not known"
    sentence = (
        f"rule {route.rule.name} sends it to queue {route.queue.name} of site {route.site.name}{known}, "
        f"as {route.identity.user}: {laid_out(route.allocation)}"
    )
    return f"{sentence} ({passed_over})" if passed_over else sentence


_MOST_GROUNDS: Final = 500
"""Most characters of a reason's grounds: a Job may list many images."""


def stays(rule: str, workload: Workload, grounds: str) -> str:
    """Why a Job stays in the cloud by a rule with ``cloud: true``.

    :param grounds: why the rule held; empty for a rule that holds for every Job
    """
    if len(grounds) > _MOST_GROUNDS:
        grounds = grounds[: _MOST_GROUNDS - 1] + "…"
    return f"rule {rule} keeps it in the cloud: {grounds or f'it asks for {asked(workload)}'}"


def read_values(condition: Condition, workload: Workload, requester: Requester, queues: Mapping[str, QueueNow]) -> str:
    """The value of each variable that a condition reads: ``job.cpus = 8, job.gpus = unset``."""
    abouts: dict[str, object] = {"job": workload, "request": requester}
    shown = []
    for read in condition.reads:
        about = queues.get(read.queue) if read.root == "queues" else abouts[read.root]
        name = f"queues['{read.queue}']" if read.root == "queues" else read.root
        variable = next((v for v in variables.ROOTS[read.root] if v.name == read.field), None)
        if about is None:
            shown.append(f"{name} = no such queue")
        elif variable is not None:
            shown.append(f"{name}.{variable.name} = {variables.show(variable, variable.read(about))}")
    if "queues" in condition.whole:
        shown.extend(f"queues['{key}'].up = {_up(now)}" for key, now in queues.items() if "/" in key)
    return ", ".join(shown)


def queue_figures(conditions: Iterable[Condition], queues: Mapping[str, QueueNow]) -> list[str]:
    """The current queue figures that conditions read, each once: ``queues['large'].freeNodes = 2``."""
    live = {variable.name: variable for variable in variables.LIVE}
    found: dict[str, None] = {}
    for read in (one for condition in conditions for one in condition.reads if one.root == "queues"):
        variable, now = live.get(read.field), queues.get(read.queue)
        if variable is not None and now is not None:
            found[f"queues['{read.queue}'].{variable.name} = {variables.show(variable, variable.read(now))}"] = None
    return list(found)


def _up(now: QueueNow) -> str:
    up = now.state.up if now.state is not None else None
    return "unset" if up is None else str(up).lower()


def why(condition: Condition, verdict: Verdict, values: str) -> str:
    """Why a rule held or not, for ``explain``."""
    source = " ".join(condition.source.split())
    head = f"{source}, with {values}" if values else source
    return head if isinstance(verdict, bool) else f"{head}: {verdict}"
