"""Makes the parts that attend to one user's Pods, and connects them.

Shell. The parts do not run yet: ``router.agent.users.attendance`` starts and ends each of them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from router.agent.batch.jobs import BatchJobs
from router.agent.batch.reachability import Reachability
from router.agent.batch.user_observer import ObserverSettings, UserObserver
from router.agent.files.cleaning import Cleaning, Retention
from router.agent.files.log_times import Indexing
from router.agent.files.results import Results
from router.agent.files.spool import Spool
from router.agent.files.wiping import wipe
from router.agent.pods.actions import Tools, tell, tell_doubts
from router.agent.pods.fencing import Fence
from router.agent.pods.reconciler import Deciding, Reconciler, told_as
from router.agent.pods.renewing import Renewing
from router.agent.pods.watching import uids_of
from router.agent.pods.workqueue import Workqueue
from router.agent.records import Record, Records
from router.agent.submission.full_queues import FullQueues
from router.agent.submission.submitting import SubmissionSite, Submitter
from router.agent.users.seats import Seat
from router.agent.users.world import LONGEST_PAUSE, Shared, World, back_off
from router.background.backoff import BackOff
from router.errors import BatchgateError
from router.host import Host
from router.pod.layout import PodDirectory
from router.pod.life import Note
from router.pod.view import PodView

log: Final = logging.getLogger("batchgate.agent")

_IDLE: Final = 10
"""How many times longer the cycles of a user without Pods are, if the site has several users."""

Elsewhere = Callable[[str, str], BatchgateError]
"""See ``Submitter``."""


class Looker(Protocol):
    """A part with a thread of its own."""

    def stop(self) -> None:
        """Let the thread end."""

    def await_end(self) -> None:
        """Wait, after ``stop``, for its end."""


@dataclass(frozen=True, slots=True)
class Parts:
    """All parts that attend to one user's Pods.

    :param directory: the directory with a Pod's files
    :param renewing: None on a site without tokens
    """

    records: Records
    directory: Callable[[PodView], PodDirectory]
    queue: Workqueue
    reach: Reachability
    spool: Spool
    observer: UserObserver
    reconciler: Reconciler
    indexing: Indexing
    cleaning: Cleaning
    renewing: Renewing | None

    def lookers(self) -> tuple[Looker, ...]:
        """The parts with a thread of their own that looks at something again and again."""
        threads = (self.observer, self.spool, self.indexing, self.cleaning, self.renewing)
        return tuple(one for one in threads if one is not None)


@dataclass(frozen=True, slots=True)
class _Base:
    """The objects that the parts of one user are made from."""

    world: World
    seat: Seat
    shared: Shared
    records: Records
    queue: Workqueue
    reach: Reachability


def parts_of(
    world: World,
    seat: Seat,
    shared: Shared,
    *,
    began: Callable[[], bool],
    elsewhere: Elsewhere | None,
    records: Records | None,
) -> Parts:
    """A user's parts.

    :param began: whether the user's Pods are attended to
    :param records: existing records to go on with; None: new ones
    """
    submitter = _submitter(world, seat, elsewhere)
    records = records or Records(submitter.directory, user=seat.user, site=shared.records)
    queue = Workqueue()
    reach = Reachability(partial(say_reach, shared, records, queue), back_off(world.settings))
    base = _Base(world, seat, shared, records, queue, reach)
    spool = Spool(
        seat.host,
        seat.root,
        records,
        lambda record, notes: _noticed(base, tools, record, notes),
        lambda error: _troubled(base, tools, error),
    )
    observer = _observer(base, spool)
    tools = _tools(base, submitter, observer)
    reconciler = Reconciler(queue, records, tools, _deciding(base, spool), submitters=world.settings.hands)
    cleaning = _cleaning(base, lambda: began() and observer.looked.is_set() and world.election.leading)
    indexing = Indexing(seat.host, records, shared.indexes)
    renewing = _renewing(base, submitter)
    return Parts(records, submitter.directory, queue, reach, spool, observer, reconciler, indexing, cleaning, renewing)


def wake(records: Records, queue: Workqueue, uid: str) -> None:
    """Make a Pod due for a look now. A Pod that has a job is left alone until the job's user is known."""
    record = records.get(uid)
    if records.user or record is None or not record.facts.pod.job_id:
        queue.wake(uid)


def wake_all(records: Records, queue: Workqueue) -> None:
    """Make each Pod that is not over due for a look now, as a condition of all Pods has changed."""
    for record in records.all():
        if not record.over:
            wake(records, queue, record.uid)


def say_reach(shared: Shared, records: Records, queue: Workqueue, reason: str) -> None:
    """Report that the batch system cannot be reached as a user, or (with an empty reason) that it answers."""
    if records.user:
        fields = {"words": reason or "the batch system answers", "user": records.user}
        log.log(logging.WARNING if reason else logging.INFO, "batch system", extra={"fields": fields})
    shared.changed()
    wake_all(records, queue)


def _submitter(world: World, seat: Seat, elsewhere: Elsewhere | None) -> Submitter:
    place = SubmissionSite(
        world.site, world.cluster, seat.root, seat.user, world.gpu_resources, traced=world.tell_span is not None
    )
    return Submitter(world.api, seat.host, seat.commands, place, world.keys, elsewhere)


def _observer(base: _Base, spool: Spool) -> UserObserver:
    world, seat = base.world, base.seat
    usual, quick = world.settings.cycle_seconds, world.settings.quick_seconds
    idle = usual * _IDLE if len(world.seats.users) > 1 else usual
    return UserObserver(
        BatchJobs(seat.commands),
        ObserverSettings(seat.root, world.cluster, usual, quick, idle, world.settings.lost_seconds),
        base.records,
        base.reach,
        wake=base.queue.wake,
        notice=spool.look,
        site_observer=base.shared.site_observer,
    )


def _tools(base: _Base, submitter: Submitter, observer: UserObserver) -> Tools:
    world, seat = base.world, base.seat
    return Tools(
        api=world.api,
        host=seat.host,
        commands=seat.commands,
        jobs=BatchJobs(seat.commands),
        submitter=submitter,
        observer=observer,
        collector=Results(seat.host, world.site, world.recorder.tell),
        recorder=world.recorder,
        full=FullQueues(BackOff(world.settings.quick_seconds, LONGEST_PAUSE)),
        metrics=world.metrics,
        tell_span=world.tell_span,
    )


def _deciding(base: _Base, spool: Spool) -> Deciding:
    world, seat = base.world, base.seat
    return Deciding(
        terms=world.terms,
        reach=base.reach,
        fence=Fence(world.api, seat.host, base.records, seat.root),
        leads=lambda: world.election.leading,
        finished=partial(_finish, seat.host, spool),
        refusal=base.shared.check.refusal,
    )


def _finish(host: Host, spool: Spool, record: Record) -> None:
    """Remove what a Pod whose state is final leaves: staged credentials, and its notes. May raise OSError."""
    wipe(host, record.directory)
    spool.clear(record.uid)


def _cleaning(base: _Base, ready: Callable[[], bool]) -> Cleaning:
    seat = base.seat
    retention, pods_of = Retention(seat.root, base.world.site.keep), partial(uids_of, base.world.api)
    return Cleaning(seat.host, BatchJobs(seat.commands), base.records, retention, pods_of=pods_of, ready=ready)


def _renewing(base: _Base, submitter: Submitter) -> Renewing | None:
    if base.world.site.tokens != "stage" or not base.seat.user:
        return None
    leads = base.world.election
    return Renewing(base.seat.host, base.records, submitter, ready=lambda: leads.leading, clock=time.time)


def _noticed(base: _Base, tools: Tools, record: Record, notes: list[Note]) -> None:
    """Handle new notes of a Pod's scripts: ask about their jobs at once."""
    if base.world.election.leading:
        tell_doubts(tools, record, notes)
    base.queue.wake(record.uid)
    tools.observer.ask({note.job for note in notes})
    tools.observer.hurry()


def _troubled(base: _Base, tools: Tools, error: OSError) -> None:
    """Report trouble with a user's directory or site helper on that user's Pods, as only the user can mend it."""
    if (reason := told_as(error, "spool")) and base.world.election.leading:
        for record in base.records.all():
            if not record.over:
                tell(tools, record, "Warning", reason, str(error))
