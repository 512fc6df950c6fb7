"""All that runs while this agent leads: started in the order in which one needs the other, ended together.

Shell: puts the parts together.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from router import names
from router.agent.acting import Collector, Tools
from router.agent.backoff import FullQueues
from router.agent.batch import Batch
from router.agent.cleaning import Cleaning, Keeping
from router.agent.daemonsets import DaemonSets
from router.agent.election import Election
from router.agent.fencing import Fence
from router.agent.indexing import Indexing
from router.agent.logged import Logged
from router.agent.metrics import Metrics
from router.agent.nodes import Endpoint, Nodes
from router.agent.observing import Asking, Observer
from router.agent.pods import Pods, let_go, uids_of
from router.agent.queuestate import Board, QueueStates
from router.agent.reach import Reach
from router.agent.records import Record, Records
from router.agent.settings import AgentSettings
from router.agent.spooling import Spool
from router.agent.steps import Deciding, Steps
from router.agent.straying import Strays
from router.agent.submission import Keys, Place, Submitter
from router.agent.workqueue import Workqueue
from router.errors import ApiError
from router.host import Host
from router.kube.client import Api
from router.kube.events import Recorder
from router.kubelet.indexes import Indexes
from router.kubelet.serve import Kubelet, KubeletSettings
from router.podlife import Note
from router.podview import PodView
from router.reconcile.following import followed
from router.reconcile.model import Terms

log: Final = logging.getLogger("batchgate.agent")

TURN_SECONDS: Final = 1.0
HAND_OVER_SECONDS: Final = 10.0
_STRAYS_SECONDS: Final = 5.0
_UNROUTED_SECONDS: Final = 30.0
_LONGEST_BACK_OFF: Final = 60.0


@dataclass(frozen=True, slots=True)
class World:
    """What there is before anybody leads."""

    settings: AgentSettings
    place: Place
    terms: Callable[[PodView], Terms]
    api: Api
    host: Host
    batch: Batch
    metrics: Metrics
    election: Election
    recorder: Recorder
    collector: Collector
    keys: Callable[[], Keys]


class Lead:
    """One term as the leader: ``start``, ``turn`` again and again, ``stop``."""

    def __init__(self, world: World) -> None:
        self._world = world
        settings, place, api = world.settings, world.place, world.api
        submitter = Submitter(api, world.host, world.batch, place, world.keys)
        self._queue = Workqueue()
        self.records = Records(submitter.directory)
        self._reach = Reach(
            self._reach_changed, first=settings.quick_seconds, longest=max(_LONGEST_BACK_OFF, settings.cycle_seconds)
        )
        self._spool = Spool(world.host, place.root, self.records, self._notes)
        asking = Asking(place.root, place.cluster, settings.cycle_seconds, settings.quick_seconds)
        self._observer = Observer(
            world.batch, asking, self.records, self._reach, wake=self._queue.wake, notice=self._spool.look
        )
        self._pods = Pods(api, place.site.name, self.records, self._queue.wake)
        fence = Fence(api, world.host, self.records, place.root)
        deciding = Deciding(world.terms, self._reach, fence, lambda: world.election.leading, self._finished)
        tools = _tools(world, submitter, self._observer)
        self._steps = Steps(self._queue, self.records, tools, deciding, submitters=settings.hands)
        self._strays = Strays(
            api, self.records, patience=settings.orphan_seconds, wake=self._queue.wake, limit=self._orphan_limit
        )
        indexes = Indexes()
        self._indexing = Indexing(world.host, self.records, indexes)
        keeping = Keeping(place.root, place.site.keep)
        self._cleaning = Cleaning(
            world.host, world.batch, self.records, keeping, pods_of=partial(uids_of, api), ready=self._acts
        )
        board = Board(settings.namespace, place.site.name, tuple(queue.name for queue in place.site.queues))
        self._queue_states = QueueStates(
            api, world.batch, board, ready=lambda: self._reach.ok and world.election.leading
        )
        addresses = (settings.address,)
        nodes = [names.node_name(place.site.name, queue.name) for queue in place.site.queues]
        kubelet = KubeletSettings(nodes[0], addresses, settings.self_signed, settings.certificates)
        self._kubelet = Kubelet(api, Logged(api, world.host, self.records, place.site.name), indexes, kubelet)
        self._daemonsets = DaemonSets(api, nodes, settings.address, world.recorder)
        self._nodes: Nodes | None = None
        self._began = False
        self._strays_at = self._unrouted_at = 0.0

    @property
    def problem(self) -> str:
        """Why this process should be started anew; empty while all of its threads run."""
        dead = [name for name, alive in self._alive().items() if not alive]
        return f"ended: {', '.join(dead)}" if dead else ""

    @property
    def ready(self) -> str:
        """Why Pods are not attended to yet; empty once they are."""
        if not self._pods.watch.synced.is_set():
            return self._pods.watch.problem or "the Pods are not listed yet"
        return "" if self._began else "the batch system has not answered yet"

    def start(self) -> None:
        """Serve the kubelet API, keep the Nodes, list the Pods. ConfigError, ApiError."""
        world, listen = self._world, self._world.settings.listen
        self._kubelet.start()
        ports = {}
        for number, queue in enumerate(world.place.site.queues):  # a request does not name the Node that it is for
            wanted = listen.port + number if listen.port else 0
            node = names.node_name(world.place.site.name, queue.name)
            ports[queue.name] = self._kubelet.listen(listen.host, wanted, node)
        log.info("kubelet API", extra={"fields": {"address": world.settings.address, "ports": ports}})
        endpoint = Endpoint(world.settings.address, min(ports.values()), ports)
        self._nodes = Nodes(world.api, world.place.site, endpoint, world.settings.node_lease_seconds, world.recorder)
        self._nodes.start()
        self._pods.watch.start()
        self._daemonsets.start()

    def turn(self) -> None:
        """What is done every second beside the threads' work."""
        if not self._began:
            self._begin()
            return
        now = time.monotonic()
        if now >= self._strays_at:
            self._strays_at = now + _STRAYS_SECONDS
            try:
                reaped = self._strays.look()
            except ApiError as error:
                log.warning("strays cannot be looked at", extra={"fields": {"error": str(error)}})
            else:
                self._world.metrics.orphans.inc(reaped)
        if now >= self._unrouted_at:
            self._unrouted_at = now + _UNROUTED_SECONDS
            self._let_go()

    def _let_go(self) -> None:
        site = self._world.place.site
        try:
            let_go(self._world.api, site.name, [queue.name for queue in site.queues])
        except ApiError as error:
            log.warning("Pods that nobody routed cannot be looked at", extra={"fields": {"error": str(error)}})

    def stop(self, seconds: float) -> None:
        """Begin nothing more, finish what is in hand within so many seconds, end. Logs are served until the very end."""
        finished = self._steps.stop(seconds)
        if not finished:
            log.warning("not everything in hand was finished; the next leader finds it")
        self._observer.stop()
        self._spool.stop()
        self._indexing.stop()
        self._cleaning.stop()
        self._queue_states.stop()
        self._pods.watch.stop()
        self._daemonsets.stop()
        if self._nodes is not None:
            self._nodes.stop()

    def jobs(self) -> Mapping[str, int]:
        """Pods by the state of their job, for the metrics."""
        return Counter(_state(record) for record in self.records.all())

    def ages(self) -> Mapping[str, float]:
        """Seconds since the watches gave a sign of life."""
        return {"pods": max(0.0, time.monotonic() - self._pods.watch.since)}

    def _begin(self) -> None:
        """Once the Pods, the notes and the living jobs are known, planning begins: not before, or it would guess.

        Where the batch system cannot be asked it begins too: what does not need it is done.
        """
        if not self._pods.watch.synced.is_set():
            return
        if not self._observer.alive:
            self._spool.look()
            self._observer.start()
            self._spool.start()
            self._indexing.start()
        if self._observer.looked.is_set() or not self._reach.ok:
            self._began = True
            self._reach_changed(self._reach.reason)  # what an earlier leader has said of it may be over
            self._orphan_limit("")
            records = self.records.all()
            self._steps.start()
            self._cleaning.start()
            self._queue_states.start()
            log.info("adopted", extra={"fields": {"pods": len(records)}})

    def _alive(self) -> dict[str, bool]:
        found = {"watch": self._pods.watch.is_alive(), "daemonsets": self._daemonsets.alive}
        if self._nodes is not None:
            found["nodes"] = self._nodes.alive
        if self._began:
            found |= {"observer": self._observer.alive, "spool": self._spool.alive, "steps": self._steps.alive}
            found |= {"indexing": self._indexing.alive, "cleaning": self._cleaning.alive}
            found["queue state"] = self._queue_states.alive
        return found

    def _acts(self) -> bool:
        """Whether this agent leads and knows all Pods and all living jobs."""
        return self._began and self._observer.looked.is_set() and self._world.election.leading

    def _notes(self, record: Record, notes: list[Note]) -> None:
        """Scripts have told something: their jobs are asked about at once."""
        self._queue.wake(record.uid)
        self._observer.ask({note.job for note in notes})
        self._observer.hurry()

    def _finished(self, record: Record) -> None:
        """Nothing of a Pod can change any more: its notes go."""
        self._spool.clear(record.uid)

    def _reach_changed(self, reason: str) -> None:
        status = "True" if reason else "False"
        words = reason or "the batch system answers"
        log.log(logging.WARNING if reason else logging.INFO, "batch system", extra={"fields": {"words": words}})
        self._world.metrics.reachable.set(0 if reason else 1)
        if self._nodes is not None:
            kind = names.CONDITION_HPC_UNAVAILABLE
            self._nodes.condition(None, kind, status, "NoAnswer" if reason else "Answers", words)
        for record in self.records.all():
            if not record.over:
                self._queue.wake(record.uid)

    def _orphan_limit(self, words: str) -> None:
        if words:
            log.error("too many jobs without a Pod", extra={"fields": {"words": words}})
        if self._nodes is not None:
            status, reason = ("True", "TooMany") if words else ("False", "Few")
            self._nodes.condition(None, names.CONDITION_ORPHAN_LIMIT, status, reason, words or "none is left alone")


def _tools(world: World, submitter: Submitter, observer: Observer) -> Tools:
    return Tools(
        api=world.api,
        host=world.host,
        batch=world.batch,
        submitter=submitter,
        observer=observer,
        collector=world.collector,
        recorder=world.recorder,
        full=FullQueues(first=world.settings.quick_seconds),
        metrics=world.metrics,
    )


def _state(record: Record) -> str:
    facts = record.facts
    if facts.pod.status.terminal:
        return facts.pod.status.phase
    job = followed(facts)
    if job is None:
        return "Waiting"
    return str(job.report.state) if job.report is not None else "Submitted"
