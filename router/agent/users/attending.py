"""All that runs for one HPC user while this agent leads: apart from that of the others, as users' troubles are.

Shell: puts the parts together. A user's full disk, locked account or hanging file server holds up the threads of that
user alone. Pods that are nobody's are attended to as well: they are told why they are not run, and let go.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from router.agent.approval import named_user
from router.agent.batch.commands import BatchCommands
from router.agent.batch.jobs import BatchJobs
from router.agent.batch.observing import Asking, Observer
from router.agent.batch.reachability import Reachability
from router.agent.batch.site_observer import Overseer
from router.agent.election import Election
from router.agent.files.cleaning import Cleaning, Keeping
from router.agent.files.log_times import Indexing
from router.agent.files.results import Results
from router.agent.files.spool import Spool
from router.agent.lastcheck import LastCheck
from router.agent.metrics import Metrics
from router.agent.pods.acting import Tools, tell, tell_doubts
from router.agent.pods.fencing import Fence
from router.agent.pods.steps import Deciding, Steps, told_as
from router.agent.pods.watching import uids_of
from router.agent.pods.workqueue import Workqueue
from router.agent.records import Record, Records, SiteRecords
from router.agent.settings import AgentSettings
from router.agent.submission.full_queues import FullQueues
from router.agent.submission.submitting import Keys, SubmissionSite, Submitter
from router.agent.users.seats import Seat, Seats
from router.background.backoff import BackOff
from router.background.loop import Loop
from router.errors import BatchError, BatchgateError, ConfigError
from router.kube.client import Api
from router.kube.events import Recorder
from router.kubelet.indexes import Indexes
from router.pod.life import Note
from router.pod.view import PodView, departed
from router.reconcile.model import Terms
from router.site.schema import Site
from router.workload.model import GpuVendor

log: Final = logging.getLogger("batchgate.agent")

_TURN_SECONDS: Final = 1.0
_SOON_SECONDS: Final = 0.1
"""The same for a user who was at rest, whose Job waits."""
_CLAIM_SECONDS: Final = 10.0
_LONGEST_PAUSE: Final = 60.0
_IDLE: Final = 10
"""A user without Pods is looked at so much more seldom, where there are others."""


@dataclass(frozen=True, slots=True)
class World:
    """What there is before anybody leads.

    ``cluster`` are its eight digits in jobs' names. ``nobody`` is the seat of Pods that are no HPC user's. ``observer``
    asks as the site's observer, None where each user is asked.
    """

    settings: AgentSettings
    site: Site
    cluster: str
    gpu_resources: Mapping[str, GpuVendor]
    terms: Callable[[PodView], Terms]
    api: Api
    seats: Seats
    nobody: Seat
    metrics: Metrics
    election: Election
    recorder: Recorder
    keys: Callable[[], Keys]
    observer: BatchCommands | None = None


@dataclass(frozen=True, slots=True)
class Shared:
    """What all users of the site share while this agent leads.

    :param listed: set once all Pods are known
    :param check: whether the last check of the site lets anything be submitted
    :param changed: called when the batch system has become unreachable for a user, or answers again
    :param overseer: looks at all users' jobs, where the site has an observer
    """

    records: SiteRecords
    indexes: Indexes
    listed: threading.Event
    changed: Callable[[], None]
    check: LastCheck
    overseer: Overseer | None = None


class Attending:
    """One user's Pods, from that user's seat; ``start``, and in the end ``stop``, or ``rest``.

    :param elsewhere: see ``Submitter``
    :param after: what attended to them before and was told to rest: its records are gone on with, once it has ended
    """

    def __init__(
        self,
        world: World,
        seat: Seat,
        shared: Shared,
        elsewhere: Callable[[str, str], BatchgateError] | None = None,
        after: Attending | None = None,
    ) -> None:
        self._world = world
        self._shared = shared
        self.seat = seat
        settings = world.settings
        place = SubmissionSite(world.site, world.cluster, seat.root, seat.user, world.gpu_resources)
        submitter = Submitter(world.api, seat.host, seat.commands, place, world.keys, elsewhere)
        self._directory = submitter.directory
        self._queue = Workqueue()
        self._after = after
        self._again = after is not None
        fresh = Records(submitter.directory, user=seat.user, site=shared.records)
        self.records: Records = fresh if after is None else after.records
        self.reach = Reachability(self._reach_changed, back_off(settings))
        self._spool = Spool(seat.host, seat.root, self.records, self._notes, self._spool_trouble)
        self._observer = self._make_observer()
        self._tools = tools = _tools(world, seat, submitter, self._observer)
        self._steps = Steps(self._queue, self.records, tools, self._deciding(), submitters=settings.hands)
        self._indexing = Indexing(seat.host, self.records, shared.indexes)
        self._cleaning = self._make_cleaning()
        self._loop = Loop(f"attending {seat.user}".strip(), self._turn)
        self._claims_at = 0.0
        self._resting = False
        self.began = False
        """Whether its Pods are attended to."""
        self.ended = threading.Event()
        """Set once nothing of this runs any more, after ``rest``."""

    def _deciding(self) -> Deciding:
        world, seat, check = self._world, self.seat, self._shared.check
        return Deciding(
            terms=world.terms,
            reach=self.reach,
            fence=Fence(world.api, seat.host, self.records, seat.root),
            acting=lambda: world.election.leading,
            finished=self._finished,
            refusal=check.refusal,
        )

    def _make_observer(self) -> Observer:
        return Observer(
            BatchJobs(self.seat.commands),
            _asking(self._world, self.seat),
            self.records,
            self.reach,
            wake=self._queue.wake,
            notice=self._spool.look,
            overseer=self._shared.overseer,
        )

    def _make_cleaning(self) -> Cleaning:
        seat, keeping = self.seat, Keeping(self.seat.root, self._world.site.keep)
        pods_of = partial(uids_of, self._world.api)
        return Cleaning(seat.host, BatchJobs(seat.commands), self.records, keeping, pods_of=pods_of, ready=self._acts)

    def start(self) -> None:
        """Begin, once all Pods are known."""
        if self._after is None:
            self._shared.records.join(self.records)
        self._loop.start(self._pause())

    def stop(self, seconds: float) -> bool:
        """Begin nothing more, finish what is in hand within so many seconds, end; whether it was finished."""
        self._loop.stop()
        finished = self._steps.stop(seconds)
        self._observer.stop()
        self._spool.stop()
        self._indexing.stop()
        self._cleaning.stop()
        return finished

    def rest(self) -> None:
        """End without being waited for, and end the connection: there is nothing to do. ``ended`` says when."""
        self._resting = True
        self._loop.wake()

    @property
    def busy(self) -> bool:
        """Whether there is anything to do that the records do not tell: a step now or later, a directory to be removed."""
        return not self._queue.empty or self._cleaning.more

    @property
    def visited(self) -> bool:
        """Whether all jobs were looked at, and old directories."""
        return self._observer.looked.is_set() and self._cleaning.turned

    def wake(self, uid: str) -> None:
        """Let somebody look at a Pod. One that has a job is not touched before it is known whose that is."""
        record = self.records.get(uid)
        if self.seat.user or record is None or not record.facts.pod.job_id:
            self._queue.wake(uid)

    def wake_all(self) -> None:
        """Let somebody look at each Pod that is not over: what holds for all of them has changed."""
        for record in self.records.all():
            if not record.over:
                self.wake(record.uid)

    def alive(self) -> dict[str, bool]:
        """Whether the threads run that should."""
        found = {"attending": self._loop.alive}
        if self.began:
            found["steps"] = self._steps.alive
            found["cleaning"] = self._cleaning.alive or not self.seat.user
        if self._observer.began:
            found |= {"observer": self._observer.alive, "spool": self._spool.alive, "indexing": self._indexing.alive}
        return {f"{name} {self.seat.user}".strip(): alive for name, alive in found.items()}

    def _turn(self) -> float:
        if self._after is not None:
            self._after.ended.wait()  # what it still asks is the same user's, and ends by itself
            self._after = None
        try:
            if not self._resting:
                self._attend()
        finally:
            if self._resting:
                self._end()
                self.ended.set()
                self._loop.stop()
        return self._pause()

    def _pause(self) -> float:
        return _SOON_SECONDS if self._again and not self.began else _TURN_SECONDS

    def _end(self) -> None:
        """Nobody else uses the connection when it is ended: else whoever does would take the site to be unreachable."""
        parts = (self._observer, self._spool, self._indexing, self._cleaning)
        for part in parts:
            part.stop()
        self._steps.finish()
        for part in parts:
            part.await_end()
        self._observer.stop()  # once more: one that had just looked has joined the overseer
        self.seat.host.rest(0)

    def _attend(self) -> None:
        if not (self._shared.listed.is_set() and self._shared.check.known.is_set()):
            return
        if not self.seat.user:
            self._begin()
        elif not self._observer.began:
            self._look()
        elif self._observer.looked.is_set() or not self.reach.ok:
            self._begin()
            self._claim()

    def _look(self) -> None:
        """Once the Pods, the notes and the living jobs are known, planning begins: not before, or it would guess.

        Where the site or the batch system cannot be asked it begins too: what does not need them is done.
        """
        if time.monotonic() < self.reach.again:
            return
        try:
            self.seat.host.check()
            self._spool.look()
            self._spool.start()
        except (OSError, BatchError, ConfigError) as error:
            self.reach.failed(error if isinstance(error, BatchError) else str(error))
            self._begin()
            return
        self._indexing.start()
        self._observer.start()

    def _begin(self) -> None:
        if self.began:
            return
        if not self._again:
            self._reach_changed(self.reach.reason)  # what an earlier leader has said of it may be over
        records = self.records.all()
        self._steps.start()
        if self.seat.user:
            self._cleaning.start()
        self.began = True  # only now, as whoever sees it expects the threads to run
        if self._again:
            self._shared.changed()
        elif self.seat.user or records:
            log.info("adopted", extra={"fields": {"pods": len(records), "user": self.seat.user}})

    def _claim(self) -> None:
        """Take over the Pods that are nobody's, say to be this user's, and have a directory among this user's files.

        The key with which a running Pod was signed may have gone since.
        """
        now = time.monotonic()
        if now < self._claims_at:
            return
        self._claims_at = now + _CLAIM_SECONDS
        for record in self._shared.records.unclaimed():
            pod = record.facts.pod
            if not pod.job_id or named_user(pod.account) != self.seat.user:
                continue
            try:
                there = self.seat.host.status(self._directory(pod).path) is not None
            except OSError as error:
                self._say_unreadable(error)
                return
            if there:
                self.records.found(departed(uid=pod.uid, job_uid=pod.job_uid, index=pod.index), time.time())
                self._queue.wake(pod.uid)

    def _say_unreadable(self, error: OSError) -> None:
        fields = {"user": self.seat.user, "error": str(error)}
        log.warning("directories of Pods cannot be looked for", extra={"fields": fields})

    def _acts(self) -> bool:
        """Whether this agent leads and knows all Pods and all living jobs."""
        return self.began and self._observer.looked.is_set() and self._world.election.leading

    def _notes(self, record: Record, notes: list[Note]) -> None:
        """Scripts have told something: their jobs are asked about at once."""
        if self._world.election.leading:
            tell_doubts(self._tools, record, notes)
        self._queue.wake(record.uid)
        self._observer.ask({note.job for note in notes})
        self._observer.hurry()

    def _spool_trouble(self, error: OSError) -> None:
        """What a user's directory or site helper is like is told on that user's Pods: nobody else can mend it."""
        if (reason := told_as(error, "spool")) and self._world.election.leading:
            for record in self.records.all():
                if not record.over:
                    tell(self._tools, record, "Warning", reason, str(error))

    def _finished(self, record: Record) -> None:
        """Nothing of a Pod can change any more: its notes go."""
        self._spool.clear(record.uid)

    def _reach_changed(self, reason: str) -> None:
        words = reason or "the batch system answers"
        fields = {"words": words, "user": self.seat.user}
        if self.seat.user:
            log.log(logging.WARNING if reason else logging.INFO, "batch system", extra={"fields": fields})
        self._shared.changed()
        self.wake_all()


def back_off(settings: AgentSettings) -> BackOff:
    """The pauses before a batch system that does not answer is asked again."""
    return BackOff(settings.quick_seconds, max(_LONGEST_PAUSE, settings.cycle_seconds))


def _asking(world: World, seat: Seat) -> Asking:
    settings = world.settings
    several = len(world.seats.users) > 1
    idle = settings.cycle_seconds * _IDLE if several else settings.cycle_seconds
    usual, quick = settings.cycle_seconds, settings.quick_seconds
    return Asking(seat.root, world.cluster, usual, quick, idle, settings.lost_seconds)


def _tools(world: World, seat: Seat, submitter: Submitter, observer: Observer) -> Tools:
    return Tools(
        api=world.api,
        host=seat.host,
        commands=seat.commands,
        jobs=BatchJobs(seat.commands),
        submitter=submitter,
        observer=observer,
        collector=Results(seat.host, world.site, world.recorder.tell),
        recorder=world.recorder,
        full=FullQueues(BackOff(world.settings.quick_seconds, _LONGEST_PAUSE)),
        metrics=world.metrics,
    )
