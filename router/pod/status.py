"""Holds a Pod's status as the agent writes it: a small value, read from and written to the API's form.

Pure. It holds only what the agent decides. Conditions and fields of other programs are left alone: ``as_patch`` is a
strategic merge patch, which keeps them. If two values are equal, there is nothing to write. Times are whole seconds
since 1970, as the API drops fractions of a container's times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from sys import intern
from typing import Any, Final

from router.names import (
    CONDITION_CONTAINERS_READY,
    CONDITION_DELETED,
    CONDITION_DISRUPTION,
    CONDITION_INITIALIZED,
    CONDITION_MEMORY,
    CONDITION_NODE_LOST,
    CONDITION_QUEUED,
    CONDITION_READY,
    CONDITION_SCHEDULED,
    CONDITION_SUSPENDED,
    CONDITION_WALLTIME,
)

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
TERMINAL: Final = frozenset({SUCCEEDED, FAILED})

CONDITIONS: Final = (
    CONDITION_SCHEDULED,
    CONDITION_INITIALIZED,
    CONDITION_CONTAINERS_READY,
    CONDITION_READY,
    CONDITION_QUEUED,
    CONDITION_SUSPENDED,
    CONDITION_NODE_LOST,
    CONDITION_WALLTIME,
    CONDITION_MEMORY,
    CONDITION_DELETED,
    CONDITION_DISRUPTION,
)
"""The conditions that the agent sets, in the order in which it writes them."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not started yet, or between two runs."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """Runs since ``started``."""

    started: int


@dataclass(frozen=True, slots=True)
class Terminated:
    """Has ended. ``started`` and ``finished`` are None if unknown; ``signal`` is 0 if it ended without a signal."""

    code: int
    reason: str
    signal: int = 0
    message: str = ""
    started: int | None = None
    finished: int | None = None


State = Waiting | Running | Terminated


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """One container. ``restarts`` counts its runs after the first; ``last`` is how the run before this state ended.

    ``image_id`` is the repository and digest of its image; empty if unknown.
    """

    name: str
    state: State
    last: Terminated | None = None
    restarts: int = 0
    ready: bool = False
    started: bool = False
    image_id: str = ""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition. ``status`` is ``True`` or ``False``, as the API spells them; ``since`` its last transition."""

    kind: str
    status: str
    since: int
    reason: str = ""
    message: str = ""

    @property
    def holds(self) -> bool:
        """Whether it is ``True``."""
        return self.status == "True"


@dataclass(frozen=True, slots=True)
class PodStatus:
    """The agent's status of a Pod. Containers are in the Pod's order, conditions in that of ``CONDITIONS``."""

    phase: str = PENDING
    reason: str = ""
    message: str = ""
    started: int | None = None
    conditions: tuple[Condition, ...] = ()
    init_containers: tuple[ContainerStatus, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()

    @property
    def terminal(self) -> bool:
        """Whether the Pod is over."""
        return self.phase in TERMINAL

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type."""
        return next((one for one in self.conditions if one.kind == kind), None)

    def holds(self, kind: str) -> bool:
        """Whether the condition of that type is ``True``."""
        found = self.condition(kind)
        return found is not None and found.holds

    def container(self, name: str) -> ContainerStatus | None:
        """The status of the container of that name."""
        return next((one for one in (*self.init_containers, *self.containers) if one.name == name), None)


def seconds(text: object) -> int | None:
    """An RFC 3339 time of the API as seconds since 1970; None if missing or invalid."""
    if not isinstance(text, str) or not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def rfc3339(moment: float) -> str:
    """Seconds since 1970 as the API writes times."""
    return datetime.fromtimestamp(int(moment), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read(status: Mapping[str, Any]) -> PodStatus:
    """The API's ``status`` of a Pod, as far as the agent decides it. Missing or invalid fields read as unset."""
    found = {
        one.get("type"): _read_condition(one) for one in _mappings(status.get("conditions")) if one.get("type") in _OURS
    }
    return PodStatus(
        phase=str(status.get("phase") or PENDING),
        reason=str(status.get("reason") or ""),
        message=str(status.get("message") or ""),
        started=seconds(status.get("startTime")),
        conditions=tuple(found[kind] for kind in CONDITIONS if kind in found),
        init_containers=tuple(_read_container(one) for one in _mappings(status.get("initContainerStatuses"))),
        containers=tuple(_read_container(one) for one in _mappings(status.get("containerStatuses"))),
    )


_OURS: Final = frozenset(CONDITIONS)


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _read_condition(value: Mapping[str, Any]) -> Condition:
    return Condition(
        kind=str(value.get("type")),
        status=str(value.get("status") or "Unknown"),
        since=seconds(value.get("lastTransitionTime")) or 0,
        reason=str(value.get("reason") or ""),
        message=str(value.get("message") or ""),
    )


def _read_container(value: Mapping[str, Any]) -> ContainerStatus:
    last = _read_state(value.get("lastState"))
    return ContainerStatus(
        name=str(value.get("name")),
        state=_read_state(value.get("state")) or Waiting(""),
        last=last if isinstance(last, Terminated) else None,
        restarts=_number(value.get("restartCount")),
        ready=value.get("ready") is True,
        started=value.get("started") is True,
        image_id=intern(str(value.get("imageID") or "")),
    )


def _read_state(value: object) -> State | None:
    if not isinstance(value, Mapping):
        return None
    if isinstance(one := value.get("terminated"), Mapping):
        return Terminated(
            code=_number(one.get("exitCode")),
            reason=str(one.get("reason") or ""),
            signal=_number(one.get("signal")),
            message=str(one.get("message") or ""),
            started=seconds(one.get("startedAt")),
            finished=seconds(one.get("finishedAt")),
        )
    if isinstance(one := value.get("running"), Mapping):
        return Running(seconds(one.get("startedAt")) or 0)
    if isinstance(one := value.get("waiting"), Mapping):
        return Waiting(str(one.get("reason") or ""), str(one.get("message") or ""))
    return None


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def as_patch(
    status: PodStatus, *, uid: str, images: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, Any]:
    """A strategic merge patch for the Pod's ``status`` subresource, which also takes annotations.

    One write in place of two: etcd keeps the whole Pod of each write until its next compaction.

    Conditions are merged by type, so those of other programs stay. The uid makes the patch fail with a conflict if
    another Pod of this name has taken the Pod's place. Conditions and phase go in one write, so a reader always sees
    the phase together with the conditions that a podFailurePolicy asks about.
    """
    body: dict[str, Any] = {
        "phase": status.phase,
        "reason": status.reason or None,
        "message": status.message or None,
        "conditions": [_condition(one) for one in status.conditions],
    }
    if status.started is not None:
        body["startTime"] = rfc3339(status.started)
    if status.init_containers:
        body["initContainerStatuses"] = _containers(status.init_containers, images)
    if status.containers:
        body["containerStatuses"] = _containers(status.containers, images)
    metadata = {"uid": uid, "annotations": dict(annotations)} if annotations else {"uid": uid}
    return {"metadata": metadata, "status": body}


def _condition(value: Condition) -> dict[str, Any]:
    return {
        "type": value.kind,
        "status": value.status,
        "lastTransitionTime": rfc3339(value.since),
        "reason": value.reason or None,
        "message": value.message or None,
    }


def _containers(values: Sequence[ContainerStatus], images: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "image": images.get(one.name, ""),
            "imageID": one.image_id,
            "state": _state(one.state),
            **({"lastState": _state(one.last)} if one.last else {}),
            "restartCount": one.restarts,
            "ready": one.ready,
            "started": one.started,
        }
        for one in values
    ]


def _state(value: State) -> dict[str, Any]:
    match value:
        case Waiting():
            return {"waiting": _set({"reason": value.reason, "message": value.message})}
        case Running():
            return {"running": {"startedAt": rfc3339(value.started)}}
        case Terminated():
            return {
                "terminated": {
                    "exitCode": value.code,
                    **_set(
                        {
                            "signal": value.signal,
                            "reason": value.reason,
                            "message": value.message,
                            "startedAt": None if value.started is None else rfc3339(value.started),
                            "finishedAt": None if value.finished is None else rfc3339(value.finished),
                        }
                    ),
                }
            }


def _set(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value}
