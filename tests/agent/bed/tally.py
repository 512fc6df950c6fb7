"""Jobs whose containers tell in a file that they run: what must be there once is counted there.

A line is written by one append, which no other can tear apart, on a file system that all nodes share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.agent.bed.jobs import SECONDS, job
from tests.agent.bed.site import TALLY, slurm
from tests.agent.whole.jobs import finished
from tests.agent.whole.kubectl import Kubectl
from tests.agent.whole.waiting import until

_VOLUME = "tally"
_ENV = {
    "POD": "metadata.uid",
    "INDEX": "metadata.annotations['batch.kubernetes.io/job-completion-index']",
}


@dataclass(frozen=True)
class Line:
    """One thing that a container told: ``start``, ``end``, or what its body told. ``index`` is ``-`` where there is none."""

    event: str
    pod: str
    index: str


def counted(body: str = "true", *, cpus: int = 2, memory: str = "64Mi", **spec: Any) -> dict[str, Any]:
    """A Job that tells of its start, does something, and tells of its end, unless a signal or ``exit`` comes before it."""
    made = job("", **spec)
    name = made["metadata"]["name"]
    container = made["spec"]["template"]["spec"]["containers"][0]
    told = f'tell() {{ echo "$1 $POD ${{INDEX:--}}" >>{TALLY}/{name}; }}'
    container["command"] = ["/bin/bash", "-c", f"{told}\ntell start\n{body}\ntell end\n"]
    container["env"] = [
        {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}} for variable, path in _ENV.items()
    ]
    container["resources"] = {"requests": {"cpu": str(cpus), "memory": memory}}
    container["volumeMounts"] = [{"name": _VOLUME, "mountPath": str(TALLY)}]
    made["spec"]["template"]["spec"]["volumes"] = [{"name": _VOLUME, "hostPath": {"path": str(TALLY)}}]
    return made


def waiting(made: dict[str, Any]) -> dict[str, Any]:
    """The same Job, but its body goes on when it is let go; no time is slept."""
    container = made["spec"]["template"]["spec"]["containers"][0]
    file = TALLY / f"{made['metadata']['name']}.go"
    container["command"][2] = container["command"][2].replace(
        "\ntell start\n", f"\ntell start\nwhile [ ! -e {file} ]; do sleep 0.2; done\n"
    )
    return made


def let_go(*names: str) -> None:
    """End the wait of Jobs made by ``waiting``."""
    for name in names:
        (TALLY / f"{name}.go").touch()


def lines(name: str) -> list[Line]:
    """What the containers of a Job told so far, the oldest first."""
    try:
        text = (TALLY / name).read_text()
    except FileNotFoundError:
        return []
    return [Line(*line.split()) for line in text.splitlines()]


def told(name: str, event: str) -> int:
    """How often a Job's containers told this."""
    return sum(line.event == event for line in lines(name))


def await_started(*names: str) -> None:
    """Until a container of each of these Jobs runs."""
    until(
        lambda: [name for name in names if not told(name, "start")],
        lambda left: not left,
        seconds=SECONDS,
        what="for starts",
    )


def await_ends(who: Kubectl, names: Sequence[str], seconds: float = SECONDS) -> dict[str, str]:
    """How each of these Jobs ended: ``Complete`` or ``Failed``."""

    def look() -> dict[str, str]:
        every = {one["metadata"]["name"]: finished(one) for one in who.every("jobs")}
        return {name: every.get(name, "gone") for name in names}

    return until(look, lambda seen: all(seen.values()), seconds=seconds, what="for the ends of Jobs")


def queued(names: Sequence[str]) -> list[str]:
    """Batch jobs of these Jobs that Slurm has and that are not over: name and state."""
    listed = slurm("squeue", "--noheader", "--format", "%j %T").splitlines()
    return [line for line in listed if line.startswith(tuple(f"{name}-" for name in names))]


def await_empty(*names: str) -> None:
    """Until Slurm has no batch job of these Jobs any more that is not over."""
    until(lambda: queued(names), lambda left: not left, seconds=SECONDS, what="for nothing left in the queue")


def twice(names: Sequence[str]) -> dict[str, list[Line]]:
    """Starts that happened more than once for one Pod, by Job."""
    found = {}
    for name in names:
        seen = Counter(line for line in lines(name) if line.event == "start")
        if more := [line for line, count in seen.items() if count > 1]:
            found[name] = more
    return found
