"""Starts all parts of a leading agent in the order of their needs, and ends them together.

Shell: puts the parts together.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from router import names
from router.agent.approval import named_user, owner_of
from router.agent.batch.commands import BatchCommands
from router.agent.batch.jobs import BatchJobs
from router.agent.batch.lines import Lines
from router.agent.batch.site_observer import SiteObserver
from router.agent.files.entering import Entrance
from router.agent.files.log_source import Logged
from router.agent.lastcheck import CheckRecord, LastCheck
from router.agent.leader.figures import Figures
from router.agent.nodes.daemonsets import DaemonSets
from router.agent.nodes.keeping import Endpoint, Nodes
from router.agent.nodes.objects import Condition, declared, queue_condition, reported
from router.agent.nodes.policycomparison import PolicyComparison
from router.agent.nodes.queuestate import Board, QueueStatePublisher
from router.agent.pods.straying import Strays
from router.agent.pods.watching import Pods, let_go
from router.agent.records import Records, SiteRecords
from router.agent.submission.submitting import Withdrawn, WrongUser
from router.agent.users.seats import Seat
from router.agent.users.user import User
from router.agent.users.world import Shared, World, back_off
from router.errors import ApiError, BatchgateError, SignatureError
from router.host import Host
from router.hpc import QueueReport
from router.kube.client import Json
from router.kubelet.indexes import Indexes
from router.kubelet.serve import Kubelet, KubeletSettings
from router.kubelet.streaming import Pace
from router.pod.view import PodView
from router.preflight.record import Kept, praise, sentence, sentence_on_profiles
from router.reconcile import resting
from router.site.schema import Queue

log: Final = logging.getLogger("batchgate.agent")

TURN_SECONDS: Final = 1.0
HAND_OVER_SECONDS: Final = 10.0
_BLIND_SECONDS: Final = 30.0
"""So long after the last sign of life of the watch of Pods, the Nodes are not ready. A short outage is nobody's matter."""
_STRAYS_SECONDS: Final = 5.0
_UNROUTED_SECONDS: Final = 30.0
_RESTING_SECONDS: Final = 5.0
"""Time between two looks for users who can be put to rest."""


class Lead:
    """One term as the leader: ``stand_by`` before it, then ``start``, ``turn`` again and again, ``stop``."""

    def __init__(self, world: World) -> None:
        self._world = world
        settings, site, api = world.settings, world.site, world.api
        self.records = SiteRecords()
        self._pods = Pods(api, site.name, self.records, admit=self._admit, wake=self._wake)
        self.figures = Figures(self.records, [queue.name for queue in site.queues], self._heard)
        indexes = Indexes()
        self._site_observer = _site_observer(world)
        self._check = LastCheck(CheckRecord(api, settings.namespace, site.name), self._check_changed)
        lines = Lines(observed=world.observer is not None)
        self._shared = Shared(
            self.records, indexes, self._pods.watch.synced, self._reach_changed, self._check, lines, self._site_observer
        )
        self._lock = threading.Lock()
        self._users: dict[str, User] = {}
        self._nobody = User(world, world.nobody, self._shared, self._elsewhere)
        self._strays = Strays(
            api,
            self.records,
            patience=settings.orphan_seconds,
            take=self._pods.take,
            wake=self._wake,
            limit=self._orphan_limit,
        )
        nodes = [names.node_name(site.name, queue.name) for queue in site.queues]
        pace = Pace(delay_seconds=site.fs_delay)
        kubelet = KubeletSettings(nodes[0], (settings.address,), settings.self_signed, settings.certificates, pace)
        entrance = Entrance(site, self.records, self._host_of, self._commands_of, world.recorder)
        source = Logged(api, self._host_of, self.records, site.name, entrance)
        self._kubelet = Kubelet(api, source, indexes, kubelet)
        board = Board(settings.namespace, site, world.accounts)
        self._queue_states = QueueStatePublisher(api, self._queues, board, ready=lambda: world.election.leading)
        self._comparison = PolicyComparison(api, settings.namespace, world.policy, self._policy_compared)
        self._daemonsets = DaemonSets(api, nodes, settings.address, world.recorder)
        self._nodes: Nodes | None = None
        self._credential: str | None = None
        self._began = time.monotonic()
        self._strays_at = self._unrouted_at = self._resting_at = 0.0

    @property
    def problem(self) -> str:
        """Why this process should be restarted; empty while all of its threads run."""
        dead = [name for name, alive in self._alive().items() if not alive]
        return f"ended: {', '.join(dead)}" if dead else ""

    @property
    def ready(self) -> str:
        """Why Pods are not attended to yet; empty once they are."""
        if not self._pods.watch.synced.is_set():
            return self._pods.watch.problem or "the Pods are not listed yet"
        return "" if self._all_began() else "the batch system has not answered yet"

    @property
    def waiting_for(self) -> str:
        """The request for the kubelet API's certificate that an admin has to approve; empty if none is open."""
        return self._kubelet.waiting_for

    def stand_by(self) -> None:
        """Ask for the kubelet API's certificate, as an admin's approval takes longer than a hand-over may."""
        self._kubelet.start()

    def start(self) -> None:
        """Serve the kubelet API, keep the Nodes, list the Pods. Raises ConfigError, ApiError."""
        self._began = time.monotonic()
        world, listen = self._world, self._world.settings.listen
        ports = {}
        for number, queue in enumerate(world.site.queues):  # one port each, as requests do not name their Node
            wanted = listen.port + number if listen.port else 0
            node = names.node_name(world.site.name, queue.name)
            ports[queue.name] = self._kubelet.listen(listen.host, wanted, node)
        log.info("kubelet API", extra={"fields": {"address": world.settings.address, "ports": ports}})
        endpoint = Endpoint(world.settings.address, min(ports.values()), ports)
        self._nodes = Nodes(world.api, world.site, endpoint, world.settings.node_lease_seconds, world.recorder)
        self._orphan_limit("")  # an earlier leader's condition may be out of date
        self._nodes.start()
        self._check.start()
        self._comparison.start()
        if self._site_observer is not None:
            self._site_observer.start()
        self._nobody.start()
        for user in world.seats.users:
            self._of(user)
        self._queue_states.start()
        self._pods.watch.start()
        self._daemonsets.start()

    def turn(self) -> None:
        """Do the work of every second beside the threads."""
        if self._nodes is not None:
            self._nodes.ready(self._blind())
        if not self._all_began():
            return
        now = time.monotonic()
        if now >= self._strays_at:
            self._strays_at = now + _STRAYS_SECONDS
            try:
                reaped = self._strays.look()
            except ApiError as error:
                log.warning("jobs without a Pod cannot be looked at", extra={"fields": {"error": str(error)}})
            else:
                self._world.metrics.orphans.inc(reaped)
        if now >= self._unrouted_at:
            self._unrouted_at = now + _UNROUTED_SECONDS
            self._let_go()
        if now >= self._resting_at:
            self._resting_at = now + _RESTING_SECONDS
            self._rise_and_rest(now)

    def _blind(self) -> str:
        """Why the Pods are out of sight, as for a right that was taken away; empty during a short outage too."""
        return self._pods.watch.problem if time.monotonic() - self._heard() > _BLIND_SECONDS else ""

    def _heard(self) -> float:
        """When the watch of Pods last gave a sign of life, or else when the term began, in monotonic seconds."""
        return max(self._pods.watch.since, self._began)

    def _rise_and_rest(self, now: float) -> None:
        """Attend to users who have work, and let other users rest."""
        with self._lock:
            users = dict(self._users)
        pods = (record.facts.pod for record in self.records.unclaimed())
        claimed = {named_user(pod.account) for pod in pods if pod.job_id}
        seen = [one.seen(now, claimed=user in claimed) for user, one in users.items()]
        change = resting.change(seen, now, idle=self._world.settings.idle_seconds)
        for user in change.rise:
            users[user].rise()
        for user in change.rest:
            users[user].rest()
        if change.rest:
            self._reach_changed()
        for one in users.values():
            one.close_unused(self._world.settings.idle_seconds)

    def _let_go(self) -> None:
        site = self._world.site
        try:
            let_go(self._world.api, site.name, [queue.name for queue in site.queues])
        except ApiError as error:
            log.warning("Pods that were not routed cannot be looked at", extra={"fields": {"error": str(error)}})

    def stop(self, seconds: float) -> None:
        """Begin nothing new, finish the work under way within ``seconds``, end. Logs are served to the very end."""
        until, users = time.monotonic() + seconds, self._all()
        for one in users:
            one.stop()
        finished = [one.await_end(until) for one in users]
        if not all(finished):
            log.warning("some work was not finished; the next leader goes on with it")
        if self._site_observer is not None:
            self._site_observer.stop()
        self._check.stop()
        self._comparison.stop()
        self._queue_states.stop()
        self._pods.watch.stop()
        self._daemonsets.stop()
        if self._nodes is not None:
            self._nodes.stop()
        self._kubelet.end_sessions()

    def _all(self) -> list[User]:
        with self._lock:
            return [self._nobody, *self._users.values()]

    def _all_began(self) -> bool:
        return all(one.began for one in self._all())

    def _alive(self) -> dict[str, bool]:
        world = self._world
        found = {"election": world.election.alive, "events": world.recorder.alive, "kubelet API": self._kubelet.alive}
        if self._nodes is None:
            return found  # stands by
        found |= {
            "watch": self._pods.watch.alive,
            "daemonsets": self._daemonsets.alive,
            "nodes": self._nodes.alive,
            "queue state": self._queue_states.alive,
            "last check": self._check.alive,
            "policy comparison": self._comparison.alive,
            "site observer": self._site_observer is None or self._site_observer.alive,
        }
        for one in self._all():
            found |= one.alive()
        return found

    def _of(self, user: str) -> User:
        """The ``User`` object of an HPC user, made and started if it is new. Raises WrongUser."""
        with self._lock:
            if user not in self._users:
                self._users[user] = User(self._world, self._world.seats.of(user), self._shared)
                self._users[user].start()
            return self._users[user]

    def _admit(self, pod: Json, found: PodView) -> Records:
        """The records of the HPC user for whom a Pod was signed; if that is not proven, the records without a user."""
        try:
            return self._of(owner_of(pod, self._world.site.name, self._world.keys())).records
        except (SignatureError, WrongUser) as error:
            if found.job_id and not found.status.terminal:
                fields = {"pod": found.key, "uid": found.uid, "error": str(error)}
                log.warning("the HPC user of a running Pod is not proven", extra={"fields": fields})
            return self._nobody.records

    def _elsewhere(self, uid: str, user: str) -> BatchgateError:
        """Move a Pod without a proven user to the user whom its signature now shows; returns the error to raise."""
        try:
            owner = self._of(user)
        except WrongUser as error:
            return error
        record = self._nobody.records.get(uid)
        if record is not None:
            owner.records.take_over(record, self._nobody.records)
            owner.wake(uid)
        return Withdrawn(f"is submitted as HPC user {user}")

    def _queues(self) -> Mapping[str, QueueReport]:
        """The state of the queues, which the Nodes show too; empty while no user reaches the batch system.

        The observer asks, or else a user who reaches the batch system. While the site is refused, or its Pods are out
        of sight, its queues are reported to rules as disabled, so that Jobs go elsewhere.
        """
        with self._lock:
            reaching = [one for one in self._users.values() if one.reaches]
        asking = [self._world.observer or one.seat.commands for one in reaching[:1]]
        found = self._shared.lines.learn(asking[0].queues(), self.records.all()) if asking else {}
        for queue in self._world.site.queues if found else ():
            self._show(queue, found.get(queue.name))
        if self._check.refusal() or self._blind():
            found = {name: replace(state, enabled=False) for name, state in found.items()}
        self.figures.tell(found)
        return found

    def _show(self, queue: Queue, state: QueueReport | None) -> None:
        if self._nodes is None:
            return
        if state is not None:
            self._nodes.figures(queue.name, reported(declared(queue), state))
        seen = queue_condition(queue.name, state)
        self._nodes.condition(queue.name, seen.type, seen.status, seen.reason, seen.message)

    def _holding(self, uid: str) -> User | None:
        return next((one for one in self._all() if one.records.get(uid) is not None), None)

    def _wake(self, uid: str) -> None:
        if (holding := self._holding(uid)) is not None:
            holding.wake(uid)

    def _host_of(self, uid: str) -> Host:
        return self._seat_of(uid).host

    def _commands_of(self, uid: str) -> BatchCommands:
        return self._seat_of(uid).commands

    def _seat_of(self, uid: str) -> Seat:
        return (self._holding(uid) or self._nobody).seat

    def _reach_changed(self) -> None:
        """Report the site as unreachable if all users fail to reach it; one user's failure is only logged."""
        with self._lock:
            tried = [one.tried for one in self._users.values()]
        reasons = [words for words in tried if words is not None]
        reason = resting.unreachable(reasons, len(tried) - len(reasons))
        self._world.metrics.reachable.set(0 if reason else 1)
        if self._nodes is not None:
            kind, status = names.CONDITION_HPC_UNAVAILABLE, "True" if reason else "False"
            words = reason or "the batch system answers"
            self._nodes.condition(None, kind, status, "NoAnswer" if reason else "Answers", words)

    def _check_changed(self, kept: Kept) -> None:
        """Handle a new check of the site: the Nodes say whether the site is refused, and waiting Pods are looked at."""
        words = sentence(kept)
        profiles = sentence_on_profiles(kept)
        told = words or (praise(kept) if not profiles else "the site is refused only for Jobs of some MPI profiles")
        wrong = ". ".join(text for text in (words, profiles) if text)
        level = logging.ERROR if wrong else logging.INFO
        log.log(level, "last check of the site", extra={"fields": {"words": wrong or told}})
        if self._nodes is not None:
            status, reason = ("True", "CheckFailed") if words else ("False", "NothingToMend")
            self._nodes.condition(None, names.CONDITION_SITE_REFUSED, status, reason, told)
            status, reason = ("True", "CheckFailed") if profiles else ("False", "NothingToMend")
            told = profiles or "no check has found an MPI profile that must be mended"
            self._nodes.condition(None, names.CONDITION_MPI_REFUSED, status, reason, told)
        for one in self._all():
            one.wake_all()

    def _policy_compared(self, digest: str, seen: Condition | None) -> None:
        if self._nodes is None:
            return
        if digest:
            self._nodes.policy(digest)
        if seen is not None:
            self._nodes.condition(None, seen.type, seen.status, seen.reason, seen.message)

    def tell_credential(self, words: str) -> None:
        """The Nodes say whether the agent's credential ends without another one. ``words``: empty if it is renewed."""
        if self._nodes is None or words == self._credential:
            return
        if words:
            log.error("the agent's credential", extra={"fields": {"words": words}})
        self._credential = words
        fine = "the agent renews its credential"
        self._nodes.trouble(names.CONDITION_CREDENTIAL_ENDING, words, ("NotRenewed", "Renewed"), fine)

    def tell_sources(self, words: str) -> None:
        """The Nodes say which files of the agent are unusable, while the last good ones stay in force. Empty: none."""
        if self._nodes is not None:
            fine = "the agent has read its policy and keys"
            self._nodes.trouble(names.CONDITION_SOURCE_BROKEN, words, ("Unusable", "Usable"), fine)

    def _orphan_limit(self, words: str) -> None:
        if words:
            log.error("too many jobs without a Pod", extra={"fields": {"words": words}})
        if self._nodes is not None:
            fine = "the agent cancels jobs without a Pod"
            self._nodes.trouble(names.CONDITION_ORPHAN_LIMIT, words, ("TooMany", "Few"), fine)


def _site_observer(world: World) -> SiteObserver | None:
    settings = world.settings
    if world.observer is None:
        return None
    return SiteObserver(
        BatchJobs(world.observer),
        usual=settings.cycle_seconds,
        quick=settings.quick_seconds,
        back_off=back_off(settings),
    )
