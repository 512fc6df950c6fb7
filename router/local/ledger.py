"""The jobs of one directory in the daemon's memory, and which job starts next.

Keeps jobs, their order and their indexes; saves changed jobs. ``router.local.answering`` handles commands; the daemon
handles sockets and waiting. Only the start walks through all jobs, so that 10,000 jobs and a long history do not slow a
submission.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from router.local import placing, running
from router.local.faults import Faults
from router.local.records import ACTIVE, FINISHED, HELD, QUEUED, RUNNING, SUSPENDED, Config, Job, Queue
from router.local.state import State

Jobs = dict[int, Job]
Shepherd = subprocess.Popen[bytes] | None
_MOST_STARTS: Final = 8
"""The most jobs that one call starts: the daemon answers commands between calls."""
_MOST_FORGOTTEN: Final = 100
NOT_NOW: Final = "Not Running: Not enough free nodes available"


@dataclass(slots=True)
class Ledger:
    """The jobs of one directory, by number and in the orders that queries need.

    ``finished`` is in the order of the jobs' ends. ``changed``: the queues in which a job may be able to start.
    ``started``: the jobs with shepherds to wait for, until the daemon takes them.
    """

    state: State
    config: Config
    faults: Faults
    jobs: Jobs = field(default_factory=dict)
    living: Jobs = field(default_factory=dict)
    active: dict[str, Jobs] = field(default_factory=dict)
    waiting: dict[str, Jobs] = field(default_factory=dict)
    finished: Jobs = field(default_factory=dict)
    of_owner: dict[str, Jobs] = field(default_factory=dict)
    of_name: dict[str, Jobs] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    started: list[tuple[Job, Shepherd]] = field(default_factory=list)

    def runs(self) -> bool:
        """Whether any job has processes."""
        return any(self.active.values())

    def occupying(self, queue: str) -> list[Job]:
        """The jobs that occupy a queue's nodes, without suspended ones."""
        return [job for job in self.active.get(queue, {}).values() if job.state != SUSPENDED]


def opened(state: State) -> Ledger:
    """The ledger of a directory, with every job of earlier daemons. Raises ConfigError."""
    ledger = Ledger(state, state.config(), state.faults())
    state.tidy()
    jobs = state.jobs()
    for job in jobs.values():
        if job.state in ACTIVE:
            _find_again(ledger, job)
        add(ledger, job)
    ledger.finished = dict(sorted(ledger.finished.items(), key=lambda item: item[1].ended or 0))
    ledger.changed = set(ledger.waiting) | set(ledger.active)
    forget_old(ledger)
    return ledger


def _find_again(ledger: Ledger, job: Job) -> None:
    """Adopt a job that an earlier daemon has started, or was about to start."""
    if running.adopt(job, ledger.state):
        ledger.started.append((job, None))
        return
    if job.deleted_by:
        end_unstarted(job)
    ledger.state.save(job)


def end_unstarted(job: Job) -> None:
    """End a job that is deleted before it ran; it gets no exit status."""
    job.state, job.substate, job.ended, job.kill_at = FINISHED, running.DELETED, time.time(), None
    job.comment = f"{job.comment} and terminated" if job.comment else ""


def add(ledger: Ledger, job: Job) -> None:
    """Add a job to all indexes."""
    ledger.jobs[job.seq] = job
    ledger.tokens[job.token] = job.seq
    ledger.of_owner.setdefault(job.owner, {})[job.seq] = job
    ledger.of_name.setdefault(job.name, {})[job.seq] = job
    moved(ledger, job)


def moved(ledger: Ledger, job: Job) -> None:
    """Put a job whose state has changed into the indexes of its new state."""
    places = (
        (ledger.living, job.state != FINISHED),
        (ledger.active.setdefault(job.queue, {}), job.state in ACTIVE),
        (ledger.waiting.setdefault(job.queue, {}), job.state == QUEUED),
        (ledger.finished, job.state == FINISHED),
    )
    for jobs, belongs in places:
        if belongs and job.seq not in jobs:
            jobs[job.seq] = job
        elif not belongs:
            jobs.pop(job.seq, None)
    first = next(iter(ledger.waiting[job.queue].values()), job)
    if job.state != QUEUED or first is job or first.comment != NOT_NOW:  # else an earlier job waits too
        ledger.changed.add(job.queue)


def save(ledger: Ledger, job: Job) -> None:
    """Save a job's record and put the job into the indexes of its state."""
    ledger.state.save(job)
    moved(ledger, job)


def forget(ledger: Ledger, job: Job) -> None:
    """Remove a job from all indexes, and its files."""
    indexes: Iterable[Jobs] = (ledger.jobs, ledger.living, ledger.finished, *ledger.active.values())
    for jobs in (*indexes, *ledger.waiting.values()):
        jobs.pop(job.seq, None)
    for index, key in ((ledger.of_owner, job.owner), (ledger.of_name, job.name)):
        index[key].pop(job.seq, None)
        if not index[key]:
            del index[key]
    ledger.tokens.pop(job.token, None)
    ledger.state.forget(job.seq)


def forget_old(ledger: Ledger) -> bool:
    """Forget finished jobs that are older than the history, or all with ``history_lost``. False if more are left.

    It forgets a limited number per call, as removing a job's files takes a while.
    """
    oldest = time.time() - ledger.config.history
    for count, job in enumerate(list(_prefix(ledger.finished, _MOST_FORGOTTEN + 1))):
        if not ledger.faults.history_lost and (job.ended or 0) >= oldest:
            return True
        if count == _MOST_FORGOTTEN:
            return False
        forget(ledger, job)
    return True


def _prefix(jobs: Jobs, count: int) -> Iterator[Job]:
    for _, job in zip(range(count), jobs.values(), strict=False):
        yield job


def end(ledger: Ledger, job: Job) -> None:
    """Record the end of a job whose shepherd has ended."""
    running.finish(job, ledger.state)
    moved(ledger, job)
    if job.purge or ledger.faults.history_lost:
        forget(ledger, job)


# --- starting ----------------------------------------------------------------------------------------------------


def schedule(ledger: Ledger) -> None:
    """Start the jobs that fit, first come first served in each queue; ``changed`` keeps the unfinished queues."""
    room = _MOST_STARTS
    for name in sorted(ledger.changed):
        queue = ledger.config.queue(name)
        if queue is not None and queue.name == name and queue.started:
            room -= _schedule_queue(ledger, queue, room)
        if room <= 0:
            return
        ledger.changed.discard(name)


def _schedule_queue(ledger: Ledger, queue: Queue, room: int) -> int:
    """Start at most ``room`` jobs of a queue; returns how many."""
    occupying = ledger.occupying(queue.name)
    _resume(ledger, queue, occupying)
    started = 0
    for job in list(ledger.waiting.get(queue.name, {}).values()):
        if job.comment.startswith(placing.NEVER):
            continue
        shares = placing.place(job, queue, occupying)
        if shares is None:
            words = placing.never(job, queue)
            _comment(ledger, job, words or NOT_NOW)
            if words:
                continue
            break
        if started == room:
            break
        job.shares = shares
        ledger.started.append((job, running.start(job, ledger.state, ledger.config)))
        moved(ledger, job)
        occupying.append(job)
        started += 1
    return started


def _resume(ledger: Ledger, queue: Queue, occupying: list[Job]) -> None:
    """Let suspended jobs go on that are to be resumed, once their own slots are free, before other jobs start."""
    for job in list(ledger.active.get(queue.name, {}).values()):
        asked = job.state == SUSPENDED and job.substate == running.TO_BE_RESUMED
        if asked and placing.has_room(job, queue, occupying):
            job.state, job.substate, job.modified = RUNNING, running.STARTED, time.time()
            job.away, job.stopped = job.away + job.modified - (job.stopped or job.modified), None
            save(ledger, job)
            running.order(job, ledger.state)
            occupying.append(job)


def _comment(ledger: Ledger, job: Job, words: str) -> None:
    if job.comment != words:
        job.comment, job.modified = words, time.time()
        ledger.state.save(job)


def reconfigure(ledger: Ledger, config: Config) -> None:
    """Use another configuration; jobs that could never run may run now."""
    ledger.config = config
    for jobs in ledger.waiting.values():
        for job in jobs.values():
            job.comment = "" if job.comment.startswith(placing.NEVER) else job.comment
    ledger.changed = set(ledger.waiting) | set(ledger.active)


def hold(ledger: Ledger, job: Job) -> None:
    """Hold a job; a running job goes on and is only marked."""
    job.held, job.modified = True, time.time()
    if job.state == QUEUED:
        job.state, job.substate = HELD, running.HELD_SUBSTATE
        job.comment = f"Job held by {job.owner} on {time.ctime()}"
    save(ledger, job)


def release(ledger: Ledger, job: Job) -> None:
    """Release a held job, so that it waits for its turn."""
    job.held, job.modified = False, time.time()
    if job.state == HELD:
        job.state, job.substate, job.comment = QUEUED, running.WAITING, ""
    save(ledger, job)
    ledger.waiting[job.queue] = dict(sorted(ledger.waiting[job.queue].items()))
    ledger.changed.add(job.queue)
