"""Keeps one Node object for each queue of a site: labelled, tainted and Ready, with a Lease as its heartbeat.

Shell around ``router.agent.nodes.objects``: a watch of the site's Nodes, and one thread that corrects them.
Level-triggered: each round compares the whole actual state with the whole desired state.

A deleted Node is made again at once, or its Pods would be deleted and their Jobs would run again. This module never
deletes a Node, even if its queue has left the site. A Node of our name with another creator is left alone and
reported.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from router import names
from router.agent.nodes.objects import (
    READY,
    Condition,
    QueueFigures,
    VirtualNode,
    declared,
    is_ours,
    lease_object,
    metadata_patch,
    node_object,
    status_patch,
)
from router.background.backoff import BackOff
from router.background.loop import Loop
from router.errors import ApiError, Conflict, NotFound
from router.kube.client import MERGE, STRATEGIC, Api, Json
from router.kube.election import micro_time
from router.kube.events import Recorder, Reference
from router.kube.watching import Watch
from router.site import nodelabels
from router.site.schema import Site

__all__ = ["Endpoint", "Nodes", "QueueFigures"]

log: Final = logging.getLogger("batchgate.agent")

_NODES: Final = "/api/v1/nodes"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_SECONDS: Final = 5.0
"""Time limit of one request: a hanging one must not hold up the heartbeats of other Nodes."""
_LONGEST_INTERVAL: Final = 10.0
"""Longest time between two heartbeats, as with kubelets."""
_SHORTEST_DELAY: Final = 0.1
_BACK_OFF: Final = BackOff(first=2 * _SHORTEST_DELAY, longest=5.0)
"""Pauses after tries that had to change something."""
_IS_READY: Final = Condition(READY, "True", "AgentReady", "the agent follows this queue's Pods")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The IP and port where the API server reaches the kubelet API.

    :param ports: the ports of queues that have their own, as a request to a kubelet does not name its node
    """

    address: str
    port: int
    ports: Mapping[str, int] = field(default_factory=dict)

    def port_of(self, queue: str) -> int:
        """The port that the Node of a queue publishes."""
        return self.ports.get(queue, self.port)


@dataclass(slots=True)
class _Kept:
    """One queue's Node. Times are monotonic.

    :param found: the object as the watch last showed it
    :param uid: the uid of the object that the Lease belongs to
    :param renew: when the Lease is due to be renewed
    :param again: when the next try may be made
    :param changes: how many tries in a row had to change the Node
    """

    node: VirtualNode
    conditions: dict[str, Condition] = field(default_factory=dict)
    found: Json | None = None
    uid: str = ""
    renew: float = 0.0
    again: float = 0.0
    changes: int = 0
    problem: str = ""


class _NotOursError(Exception):
    """A Node of our name has another creator; the message says how that shows."""


class Nodes:
    """The Nodes of a site's queues: ``start``, set ``condition`` and ``figures``, ``stop`` in the end.

    Only the agent that leads may run it.

    :param lease_seconds: the duration in a Lease, which is renewed at least four times in it
    """

    def __init__(self, api: Api, site: Site, endpoint: Endpoint, lease_seconds: int, recorder: Recorder) -> None:
        self._api = api
        self._site = site.name
        self._lease_seconds = lease_seconds
        self._interval = min(_LONGEST_INTERVAL, lease_seconds / 4)
        self._recorder = recorder
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        for queue in site.queues:
            port = endpoint.port_of(queue.name)
            node = VirtualNode(
                site.name,
                queue.name,
                declared(queue),
                endpoint.address,
                port,
                version="",
                architecture=nodelabels.architecture(queue),
            )
            self._kept[node.name] = _Kept(node)
        self._left_over: set[str] = set()
        self._version = ""
        selector = {"labelSelector": f"{names.KEY_SITE}={site.name}"}
        self._watch = Watch(api, _NODES, self._on_list, self._on_change, selector)
        self._loop = Loop("nodes", self._turn)

    @property
    def problems(self) -> dict[str, str]:
        """The present problems by the Node's name; empty if all is well."""
        with self._lock:
            return {name: kept.problem for name, kept in self._kept.items() if kept.problem}

    @property
    def alive(self) -> bool:
        """Whether its threads run."""
        return self._watch.alive and self._loop.alive

    def start(self) -> None:
        """Start the watch and the thread."""
        self._watch.start()
        self._loop.start()

    def stop(self) -> None:
        """Stop the watch and the thread; the Nodes stay for the next leader."""
        self._loop.stop()
        self._watch.stop()
        self._loop.await_end(_SECONDS)

    def condition(self, queue: str | None, kind: str, status: str, reason: str, message: str) -> None:
        """From now on, set this condition on a queue's Node; for None on all Nodes."""
        told = Condition(kind, status, reason, message)
        with self._lock:
            changed = [kept for kept in self._of(queue) if kept.conditions.get(kind) != told]
            for kept in changed:
                kept.conditions[kind] = told
        if changed:  # some are told each second
            self._loop.wake()

    def trouble(self, kind: str, words: str, reasons: tuple[str, str], fine: str) -> None:
        """From now on, set this condition on all Nodes: true with these words and the first reason, else false."""
        bad, good = reasons
        self.condition(None, kind, str(bool(words)), bad if words else good, words or fine)

    def figures(self, queue: str, figures: QueueFigures) -> None:
        """From now on, publish these figures of a queue."""
        with self._lock:
            for kept in self._of(queue):
                kept.node = replace(kept.node, figures=figures)
        self._loop.wake()

    def ready(self, trouble: str) -> None:
        """From now on, the Nodes are ready; or they are not, if there is a trouble by which the Pods are out of sight."""
        words = f"the agent cannot see its Pods: {trouble}"
        found = Condition(READY, "False", "PodsNotSeen", words) if trouble else _IS_READY
        self.condition(None, READY, found.status, found.reason, found.message)

    def policy(self, digest: str) -> None:
        """From now on, publish the digest of the agent's policy."""
        with self._lock:
            for kept in self._of(None):
                kept.node = replace(kept.node, policy=digest)
        self._loop.wake()

    def _of(self, queue: str | None) -> list[_Kept]:
        found = [kept for kept in self._kept.values() if queue in (None, kept.node.queue)]
        if not found:
            raise ValueError(f"site {self._site} has no queue {queue}")
        return found

    def _on_list(self, objects: Iterator[Json]) -> None:
        found = {node["metadata"]["name"]: node for node in objects}
        with self._lock:
            self._version = ""  # lists are read only at times: the cluster may have been upgraded since the last one
            for name, kept in self._kept.items():
                kept.found = found.get(name)
        for name, node in found.items():
            self._look_at(name, node)
        self._loop.wake()

    def _on_change(self, kind: str, node: Json) -> None:
        name = node["metadata"]["name"]
        gone = kind == "DELETED"
        with self._lock:
            if (kept := self._kept.get(name)) is not None:
                kept.found = None if gone else node
                kept.again = 0.0 if gone else kept.again
        if not gone:
            self._look_at(name, node)
        self._loop.wake()

    def _look_at(self, name: str, node: Json) -> None:
        """Report once a Node of this site that has no queue. It is not deleted, as its Pods would go with it."""
        if name in self._kept or name in self._left_over:
            return
        self._left_over.add(name)
        words = f"site {self._site} has no such queue any more; delete this Node when no Pod is on it"
        log.warning("Node %s: %s", name, words)
        self._recorder.tell(_reference(node), "Warning", names.REASON_NODE_LEFT_OVER, words)

    def _turn(self) -> float:
        if self._watch.synced.wait(_SHORTEST_DELAY):
            for kept in self._kept.values():
                self._attend(kept)
        now = time.monotonic()
        due = min(max(kept.again, min(kept.renew, now + self._interval)) for kept in self._kept.values())
        return max(_SHORTEST_DELAY, due - now)

    def _attend(self, kept: _Kept) -> None:
        """Correct one Node, unless that was tried just now."""
        if self._loop.stopping or time.monotonic() < kept.again:
            return
        problem, changed = "", True
        try:
            changed = self._step(kept)
        except (NotFound, Conflict):
            pass  # the Node was deleted, or its taints were changed: the watch will show it
        except (ApiError, _NotOursError) as error:
            problem = str(error)
        with self._lock:
            if problem and problem != kept.problem:
                log.error("Node %s: %s", kept.node.name, problem)
            kept.problem = problem
            # Also if another program undoes our changes: the API server must not be kept busy.
            kept.changes = kept.changes + 1 if changed else 0
            kept.again = time.monotonic() + max(_SHORTEST_DELAY, _BACK_OFF.after(kept.changes))

    def _step(self, kept: _Kept) -> bool:
        """Try once to correct a Node; returns whether something had to be changed.

        The API server's answers are not kept: only the watch sets ``found``, or a deletion could be missed.
        """
        self._version = self._version or str(self._api.get("/version", _SECONDS)["gitVersion"])
        with self._lock:
            conditions = {READY: _IS_READY, **kept.conditions}
            node = replace(kept.node, version=self._version, conditions=tuple(conditions.values()))
            found = kept.found
        changed = found is None
        if found is None:
            found = self._make(kept, node)
        if not is_ours(found, node):
            raise self._refusal(node, found)
        path = f"{_NODES}/{node.name}"
        if (change := metadata_patch(found, node)) is not None:
            self._api.patch(path, change, MERGE, _SECONDS)
            changed = True
        if (change := status_patch(found, node, datetime.now(UTC))) is not None:
            self._api.patch(f"{path}/status", change, STRATEGIC, _SECONDS)
            changed = True
        self._renew(kept, node, str(found["metadata"]["uid"]))
        return changed

    def _make(self, kept: _Kept, node: VirtualNode) -> Json:
        try:
            made = self._api.create(_NODES, node_object(node), _SECONDS)
        except Conflict:  # the Node lacks the label that the watch selects, or was made just now
            made = self._api.get(f"{_NODES}/{node.name}", _SECONDS)
        else:
            log.info("Node %s made", node.name)
            if kept.uid:
                words = "the Node was deleted; made again, so that its Pods stay"
                self._recorder.tell(_reference(made), "Warning", names.REASON_NODE_DELETED, words)
        return made

    def _refusal(self, node: VirtualNode, found: Json) -> _NotOursError:
        have = (found.get("spec") or {}).get("providerID") or "none"
        words = (
            f"not made by the agent of site {node.site}: its providerID is {have}, not {node.provider_id}; it is left "
            f"alone, and queue {node.queue} has no Node until it is deleted"
        )
        self._recorder.tell(_reference(found), "Warning", names.REASON_NODE_NOT_OURS, words)
        return _NotOursError(words)

    def _renew(self, kept: _Kept, node: VirtualNode, uid: str) -> None:
        now = time.monotonic()
        if now < kept.renew and uid == kept.uid:
            return
        lease = lease_object(node, uid, self._lease_seconds, micro_time(datetime.now(UTC)))
        try:
            self._api.patch(f"{_LEASES}/{node.name}", lease, MERGE, _SECONDS)
        except NotFound:
            self._api.create(_LEASES, lease, _SECONDS)
        kept.uid, kept.renew = uid, now + self._interval


def _reference(node: Json) -> Reference:
    return Reference("Node", "", str(node["metadata"]["name"]), str(node["metadata"]["uid"]))
