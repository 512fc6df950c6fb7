"""Jobs for OpenPBS whose containers tell in a file that they run, and what is to be seen of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.agent.bed.jobs import SECONDS, job_id, pod_of
from tests.agent.pbs import server
from tests.agent.pbs.site import RUNS
from tests.agent.whole.jobs import finished, job_of, unique
from tests.agent.whole.kubectl import Kubectl
from tests.agent.whole.waiting import until

NAMESPACE = "default"
_VOLUME = "runs"


def counted(body: str = "true", *, pod: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A Job that tells of its start, does something, and tells of its end unless a signal is its end.

    :param pod: further fields of its Pods
    """
    name = unique("pbs")
    container = RUNS.container(name, body, volumeMounts=[{"name": _VOLUME, "mountPath": str(RUNS.directory)}])
    volume = {"name": _VOLUME, "hostPath": {"path": str(RUNS.directory)}}
    return job_of(name, [container], pod={"volumes": [volume], **(pod or {})}, annotations={}, **spec)


def waiting(then: str = "true", **spec: Any) -> dict[str, Any]:
    """A Job whose body goes on when it is let go; no time is slept."""
    made = counted(**spec)
    file = RUNS.directory / f"{made['metadata']['name']}.go"
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["command"][2] = container["command"][2].replace(
        "\ntrue\n", f"\nwhile [ ! -e {file} ]; do sleep 0.2; done\n{then}\n"
    )
    return made


def let_go(*names: str) -> None:
    """End the wait of Jobs made by ``waiting``."""
    for name in names:
        (RUNS.directory / f"{name}.go").touch()


def told(name: str) -> list[str]:
    """What the containers of a Job told so far, the oldest first."""
    return [line.event for line in RUNS.lines(name)]


def await_started(*names: str) -> None:
    """Until a container of each of these Jobs runs."""
    until(
        lambda: [name for name in names if "start" not in told(name)],
        lambda left: not left,
        seconds=SECONDS,
        what="for starts",
    )


def await_ends(who: Kubectl, *names: str) -> dict[str, str]:
    """How each of these Jobs ended: ``Complete`` or ``Failed``."""

    def look() -> dict[str, str]:
        every = {one["metadata"]["name"]: finished(one) for one in who.every("jobs")}
        return {name: every.get(name, "gone") for name in names}

    return until(look, lambda seen: all(seen.values()), seconds=SECONDS, what="for the ends of Jobs")


def await_nothing_left(names: Sequence[str], *users: str) -> None:
    """Until the server has no job of these users that is not over, and no container of these Jobs has a process."""

    def left() -> list[str]:
        jobs = [job for user in users for job in server.living(user)]
        return jobs + [words for words in RUNS.alive() if any(name in words for name in names)]

    until(left, lambda found: not found, seconds=SECONDS, what="for nothing left")


@dataclass(frozen=True)
class Seen:
    """What there is to see of a Job that is over, and of its one Pod and container."""

    end: str
    why: str
    phase: str
    reason: str
    code: int
    container: str
    told: tuple[str, ...]


def seen(who: Kubectl, name: str) -> Seen:
    """What kubectl shows of a Job that is over, and what its container told."""
    job, status = who.get("job", name), pod_of(who, name)["status"]
    assert job is not None
    (last,) = [one for one in job["status"]["conditions"] if one["type"] in {"Complete", "Failed"}]
    ended = status["containerStatuses"][0]["state"]["terminated"]
    return Seen(
        end=last["type"],
        why=last["reason"],
        phase=status["phase"],
        reason=status.get("reason", ""),
        code=ended["exitCode"],
        container=ended["reason"],
        told=tuple(told(name)),
    )


def waits(who: Kubectl, name: str) -> tuple[str, str]:
    """Why a Job's one container waits, and the words for it."""
    state: dict[str, Any] = pod_of(who, name)["status"].get("containerStatuses", [{}])[0].get("state", {})
    return state.get("waiting", {}).get("reason", ""), state.get("waiting", {}).get("message", "")


def events(who: Kubectl, name: str) -> dict[str, str]:
    """The messages of the Events of a Job's one Pod, by reason."""
    pod = pod_of(who, name)["metadata"]["name"]
    words = ("get", "events", "--field-selector", f"involvedObject.name={pod}", "-o", "json")
    return {one["reason"]: one["message"] for one in json.loads(who.ok(*words))["items"]}


def submitted(who: Kubectl, name: str) -> str:
    """The batch job of a Job's one Pod, which OpenPBS knows by the Pod's name."""
    found = job_id(who, name)
    assert server.attribute(found, "Job_Name").startswith(f"{pod_of(who, name)['metadata']['name']}.")
    return found
