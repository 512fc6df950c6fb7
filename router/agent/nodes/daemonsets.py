"""Binds Pods of DaemonSets that tolerate everything, and reports them Running and Ready without running them.

A virtual node takes no Pods from the scheduler (``pods: 0``), so a Pod of a DaemonSet would stay Pending there. A Pod
that is Pending or Failed stops its DaemonSet's rollout on all nodes of the cluster. An annotation and an Event say that
nothing runs.

The DaemonSet controller names a Pod's node in a node affinity on ``metadata.name``. These Pods lack the queue's label
of routed Pods, so they have watches of their own: one for the cluster's Pods without a node (few at any time), and one
for each of our nodes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from typing import Any, Final

from router import names
from router.background.backoff import BackOff
from router.background.loop import Loop
from router.errors import ApiError, Conflict, NotFound
from router.kube.client import STRATEGIC, Api, Json
from router.kube.events import Recorder, Reference
from router.kube.watching import Watch

log: Final = logging.getLogger("batchgate.agent")

NOTE: Final = "not run: Batchgate's virtual nodes run Jobs only; reported Ready so that the DaemonSet's rollout goes on"
_ADVICE: Final = "a node affinity 'type NotIn [virtual-kubelet]' keeps the DaemonSet off"
_PODS: Final = "/api/v1/pods"
_NOT_ROUTED: Final = f"!{names.KEY_QUEUE}"
_SECONDS: Final = 10.0
_BACK_OFF: Final = BackOff(first=2.0, longest=60.0)
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_CONDITIONS: Final = ("Initialized", "ContainersReady", "Ready")


class Act(Enum):
    """An action for a Pod of a DaemonSet."""

    BIND = "bind"
    REPORT = "report"
    END = "end"


def act_on(pod: Mapping[str, Any], nodes: frozenset[str]) -> Act | None:
    """The action for a DaemonSet's Pod that is on one of our nodes or meant for one; else None."""
    if not is_of_daemon_set(pod):
        return None
    node, deleted = pod["spec"].get("nodeName"), pod["metadata"].get("deletionTimestamp") is not None
    if not node:
        return Act.BIND if not deleted and node_meant(pod) in nodes else None
    if node not in nodes:
        return None
    if deleted:
        return Act.END
    status = pod.get("status") or {}
    phase = status.get("phase")
    ready = {one.get("type"): one.get("status") for one in status.get("conditions") or []}
    if phase in _ENDED or (phase == "Running" and all(ready.get(kind) == "True" for kind in _CONDITIONS)):
        return None
    return Act.REPORT


def is_of_daemon_set(pod: Mapping[str, Any]) -> bool:
    """Whether a DaemonSet's controller made the Pod."""
    owners = pod["metadata"].get("ownerReferences") or []
    return any(owner.get("kind") == "DaemonSet" and owner.get("controller") for owner in owners)


def node_meant(pod: Mapping[str, Any]) -> str | None:
    """The node that a DaemonSet's Pod is for, by its required node affinity; None without one."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or []:
        for rule in term.get("matchFields") or []:
            if rule.get("key") == "metadata.name" and rule.get("operator") == "In" and len(rule["values"]) == 1:
                return str(rule["values"][0])
    return None


def binding(pod: Mapping[str, Any], node: str) -> Json:
    """The Binding of a Pod, identified by its uid, to a node."""
    metadata = pod["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def running(pod: Mapping[str, Any], address: str, now: datetime) -> Json:
    """A strategic merge patch of the status subresource: Running and Ready since now, and a note that nothing runs."""
    stamp = _stamp(now)
    why = {"reason": names.REASON_NOT_RUN, "message": NOTE}
    return {
        "metadata": {"uid": pod["metadata"]["uid"], "annotations": {names.KEY_NOT_RUN: NOTE}},
        "status": {
            "phase": "Running",
            "startTime": (pod.get("status") or {}).get("startTime") or stamp,
            "hostIP": address,
            "hostIPs": [{"ip": address}],
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": stamp, **why} for kind in _CONDITIONS
            ],
            "containerStatuses": [
                _container(one, {"running": {"startedAt": stamp}}, ready=True) for one in pod["spec"]["containers"]
            ],
        },
    }


def ended(pod: Mapping[str, Any], now: datetime) -> Json:
    """A strategic merge patch of the status subresource: Succeeded, as nothing ran."""
    state = {"terminated": {"exitCode": 0, "reason": names.REASON_NOT_RUN, "finishedAt": _stamp(now)}}
    containers = [_container(one, state, ready=False) for one in pod["spec"]["containers"]]
    return {
        "metadata": {"uid": pod["metadata"]["uid"]},
        "status": {"phase": "Succeeded", "containerStatuses": containers},
    }


def _container(container: Mapping[str, Any], state: Json, *, ready: bool) -> Json:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
    }


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(slots=True)
class _Task:
    """An action for a Pod, with the number of tries and the earliest time of the next one (monotonic)."""

    pod: Json
    act: Act
    again: float = 0.0
    tries: int = 0


class DaemonSets:
    """Plays the kubelet for Pods of DaemonSets on our nodes: ``start`` it, ``stop`` it in the end.

    Only the agent that leads may run it.

    :param nodes: names of our virtual nodes
    :param address: the IP that the Nodes publish
    """

    def __init__(self, api: Api, nodes: Iterable[str], address: str, recorder: Recorder) -> None:
        self._api = api
        self._nodes = frozenset(nodes)
        self._address = address
        self._recorder = recorder
        self._lock = threading.Lock()
        self._tasks: dict[tuple[str, str], _Task] = {}
        self._watches = [self._watch(node) for node in ("", *sorted(self._nodes))]
        self._loop = Loop("daemonsets", self._turn)

    @property
    def alive(self) -> bool:
        """Whether its threads run."""
        return self._loop.alive and all(watch.alive for watch in self._watches)

    def start(self) -> None:
        """Start the watches and the thread."""
        for watch in self._watches:
            watch.start()
        self._loop.start()

    def stop(self) -> None:
        """Stop the watches and the thread; the Pods stay as they are."""
        for watch in self._watches:
            watch.stop()
        self._loop.stop()
        self._loop.await_end(_SECONDS)

    def _watch(self, node: str) -> Watch:
        """A watch of a node's unrouted Pods; for an empty ``node``, of unrouted Pods without a node."""
        selectors = {"fieldSelector": f"spec.nodeName={node}", "labelSelector": _NOT_ROUTED}
        return Watch(self._api, _PODS, partial(self._on_list, node), partial(self._on_change, node), selectors)

    def _on_list(self, node: str, pods: Iterator[Json]) -> None:
        found = [(pod, act) for pod in pods if (act := act_on(pod, self._nodes))]
        with self._lock:
            for key in [key for key in self._tasks if key[0] == node]:
                del self._tasks[key]
            for pod, act in found:
                self._tasks[node, pod["metadata"]["uid"]] = _Task(pod, act)
        self._loop.wake()

    def _on_change(self, node: str, kind: str, pod: Json) -> None:
        act = None if kind == "DELETED" else act_on(pod, self._nodes)
        key = (node, pod["metadata"]["uid"])
        with self._lock:
            before = self._tasks.pop(key, None)
            if act is not None:
                self._tasks[key] = _Task(pod, act)
                if before is not None and before.act is act:  # our own change had no effect: slow down
                    self._tasks[key].again, self._tasks[key].tries = before.again, before.tries
        self._loop.wake()

    def _turn(self) -> float | None:
        """Do the action that is due; returns the seconds until the next one, None if all are done."""
        with self._lock:
            task = min(self._tasks.values(), key=lambda one: one.again, default=None)
        if task is None:
            return None
        if (pause := task.again - time.monotonic()) > 0:
            return pause
        try:
            self._perform(task)
        except (NotFound, Conflict):
            pass  # the Pod was replaced or changed: the watch will show it
        except ApiError as error:
            log.warning("Pod %s: cannot %s: %s", _name(task.pod), task.act.value, error)
        with self._lock:  # in any case: the task stays until the watch shows its effect
            task.tries += 1
            task.again = time.monotonic() + _BACK_OFF.after(task.tries)
        return 0.0

    def _perform(self, task: _Task) -> None:
        pod, now = task.pod, datetime.now(UTC)
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        match task.act:
            case Act.BIND:
                self._api.create(f"{path}/binding", binding(pod, str(node_meant(pod))), _SECONDS)
            case Act.REPORT:
                self._api.patch(f"{path}/status", running(pod, self._address, now), STRATEGIC, _SECONDS)
                about = Reference("Pod", metadata["namespace"], metadata["name"], metadata["uid"])
                self._recorder.tell(about, "Warning", names.REASON_NOT_RUN, f"{NOTE}; {_ADVICE}")
            case Act.END:
                if (pod.get("status") or {}).get("phase") not in _ENDED:
                    self._api.patch(f"{path}/status", ended(pod, now), STRATEGIC, _SECONDS)
                self._api.delete(path, grace=0, uid=metadata["uid"])


def _name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
