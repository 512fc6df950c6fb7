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
from router.workload.model import Workload

_MOST_NAMED: Final = 50
_LONGEST: Final = 8000
"""Most characters of a list of what is in the way, unless the first thing is longer: it becomes an annotation."""


def asked(workload: Workload) -> str:
    """The resources that a Job asks for: ``2 Pods of 4 cores, 8Gi of memory, 1 GPU, for 1h``."""
    figures = []
    if workload.cpu is not None:
        noun = "core" if workload.cpu.value == 1000 else "cores"
        figures.append(f"{quantity.show_cpu(workload.cpu.value)} {noun}{workload.cpu.aside}")
    if workload.memory is not None:
        figures.append(f"{quantity.show_bytes(workload.memory.value)} of memory{workload.memory.aside}")
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


def in_the_way(found: Sequence[str]) -> str:
    """All that keeps a Job from HPC; after fifty things, or many characters, only the number of the others."""
    told: list[str] = []
    for one in found[:_MOST_NAMED]:
        if told and sum(map(len, told)) + len(one) > _LONGEST:
            break
        told.append(one)
    rest = len(found) - len(told)
    return "; ".join([*told, f"and {rest} more"] if rest else told)


def laid_out(allocation: Allocation, workload: Workload) -> str:
    """The resources requested from the batch system: ``each of 4 Pods: 2 nodes, 8 cores, 16Gi for 1h10m``."""
    cores = sum(chunk.count * chunk.ncpus for chunk in allocation.chunks)
    gpus = sum(chunk.count * chunk.gpus for chunk in allocation.chunks)
    memory = [chunk.count * chunk.memory for chunk in allocation.chunks if chunk.memory is not None]
    cpu_aside = workload.cpu.aside if workload.cpu is not None else ""
    parts = [count(allocation.nodes, "node"), count(cores, "core") + cpu_aside]
    if memory:
        aside = workload.memory.aside if workload.memory is not None else ""
        parts.append(quantity.show_bytes(sum(memory)) + aside)
    if gpus:
        parts.append(count(gpus, "GPU"))
    each = f"{pods}: " if (pods := each_of_pods(workload)) else ""
    return f"{each}{', '.join(parts)} for {durations.show(allocation.walltime)}"


def each_of_pods(workload: Workload) -> str:
    """``each of 1,000 Pods (50 at once)``, as each Pod is a batch job of its own; empty for a Job of one Pod."""
    at_once, all_pods = variables.pods_at_once(workload), workload.completions
    pods = at_once if all_pods is None else all_pods.value
    if pods <= 1:
        return ""
    return f"each of {pods:,} Pods{f' ({at_once:,} at once)' if at_once < pods else ''}"


def sent(route: Route, workload: Workload, states: QueueStates, passed_over: str) -> str:
    """Why a Job goes to a queue. Says that the queue's state is unknown if there are states of other queues."""
    state = states.states.get((route.site.name, route.queue.name))
    known = "" if not states.states or (state and state.up is not None) else ", whose state is not known"
    sentence = (
        f"rule {route.rule.name} sends it to queue {route.queue.name} of site {route.site.name}{known}, "
        f"as {route.identity.user}: {laid_out(route.allocation, workload)}"
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
