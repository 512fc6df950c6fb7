"""Finds the run of a container that a request for logs means, by the kubelet's rules.

Pure. The error texts are the kubelet's (``validateContainerLogStatus``): kubectl shows them, and tools look for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from router.errors import RequestError
from router.pod.layout import PodDirectory


class RunState(StrEnum):
    """A container's state, in the words of its status."""

    WAITING = "waiting"
    RUNNING = "running"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True)
class LoggedContainer:
    """One container, init container or sidecar.

    :param run: number of the last run that has started, from 0; None before the first
    :param reason: why it waits
    :param size: bytes of that run's log if its end is known; the file system may show fewer for a while
    """

    name: str
    state: RunState
    run: int | None = None
    reason: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class LoggedPod:
    """One of the agent's Pods, queued, running or ended.

    :param node: the Node that it is bound to, even if its queue is no longer in the policy
    :param directory: the Pod's directory, with its logs
    """

    namespace: str
    name: str
    uid: str
    node: str
    directory: PodDirectory
    containers: tuple[LoggedContainer, ...]


def container_of(pod: LoggedPod, name: str) -> LoggedContainer:
    """The container of that name.

    :raises RequestError: 404, the Pod has no such container
    """
    for container in pod.containers:
        if container.name == name:
            return container
    raise RequestError(404, f'container "{name}" not found in pod "{pod.name}"')


def run_of(pod: LoggedPod, container: LoggedContainer, *, previous: bool) -> int:
    """The number of the run whose log is requested.

    While a container waits to be restarted, its last run is both the current and the previous one.

    :raises RequestError: 400, the run does not exist
    """
    waiting = container.state is RunState.WAITING
    if previous:
        run = container.run if waiting or container.run is None else container.run - 1
        if run is None or run < 0:
            raise RequestError(400, f'previous terminated container "{container.name}" in pod "{pod.name}" not found')
        return run
    if container.run is not None:
        return container.run
    if container.state is RunState.TERMINATED:
        raise RequestError(400, f'container "{container.name}" in pod "{pod.name}" is terminated')
    reason = f": {container.reason}" if container.reason else " - no logs yet"
    raise RequestError(400, f'container "{container.name}" in pod "{pod.name}" is waiting to start{reason}')


def least_size(pod: LoggedPod | None, uid: str, name: str, run: int) -> int:
    """The least size of this run's log in bytes, 0 if unknown. Parameters as for ``is_written``."""
    if pod is None or pod.uid != uid:
        return 0
    return next((one.size for one in pod.containers if one.name == name and one.run == run), 0)


def is_written(pod: LoggedPod | None, uid: str, name: str, run: int) -> bool:
    """Whether this run of a container may still write to its log.

    :param pod: the Pod as it is now; None if it is gone. A new Pod of the same name has another uid.
    """
    if pod is None or pod.uid != uid:
        return False
    return any(
        container.name == name and container.run == run and container.state is RunState.RUNNING
        for container in pod.containers
    )
