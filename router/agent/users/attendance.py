"""Attends to one HPC user's Pods while this agent leads, apart from other users' Pods.

Shell: one thread, which starts and ends the user's other threads. A user's full disk, locked account or hanging file
server holds up only the threads of that user. Pods without an HPC user are attended to as well: they get the reason why
they do not run, and end when deleted.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from router.agent.approval import named_user
from router.agent.users.parts import Elsewhere, Parts, parts_of, say_reach, wake, wake_all
from router.agent.users.seats import Seat
from router.agent.users.world import Shared, World
from router.background.loop import Loop
from router.errors import BatchError, ConfigError
from router.pod.view import departed

log: Final = logging.getLogger("batchgate.agent")

_TURN_SECONDS: Final = 1.0
_SOON_SECONDS: Final = 0.1
"""Pause between turns for a user who was at rest, until the Pods are attended to: a Job waits."""
_FORMER_SECONDS: Final = 60.0
"""After which it is said that the commands of the attendance before have not ended."""
_CLAIM_SECONDS: Final = 10.0


class Attendance:
    """One period in which a user is attended to: ``start`` it, and in the end ``stop`` it or let it ``rest``.

    :param after: the user's earlier attendance, which was told to rest. This one goes on with its records once it has
        ended
    """

    def __init__(
        self,
        world: World,
        seat: Seat,
        shared: Shared,
        elsewhere: Elsewhere | None = None,
        after: Attendance | None = None,
    ) -> None:
        self._seat = seat
        self._shared = shared
        self._after = after
        self._again = after is not None
        self.began = False
        """Whether the user's Pods are attended to."""
        records = None if after is None else after.parts.records
        self.parts: Parts = parts_of(
            world, seat, shared, began=lambda: self.began, elsewhere=elsewhere, records=records
        )
        self._loop = Loop(f"attending {seat.user}".strip(), self._turn)
        self._claims_at = 0.0
        self._since = time.monotonic()
        self._resting = False
        self.ended = threading.Event()
        """Set after ``rest``, once all of its threads have ended."""

    def start(self) -> None:
        """Start the thread, which begins once all Pods are known."""
        if self._after is None:
            self._shared.records.join(self.parts.records)
        self._loop.start(self._pause())

    def stop(self) -> None:
        """Begin nothing new, without waiting for the work under way."""
        self._loop.stop()
        self.parts.reconciler.stop()

    def await_end(self, until: float) -> bool:
        """Wait, after ``stop``, for the work under way, and end; returns whether it is finished.

        :param until: monotonic time at which the wait ends, whatever is left
        """
        finished = self.parts.reconciler.await_end(until)
        self._stop_looking()
        return finished

    def rest(self) -> None:
        """End the threads and the connection in the background, for lack of work. Sets ``ended`` at the end."""
        self._resting = True
        self._loop.wake()

    @property
    def busy(self) -> bool:
        """Whether there is work beside the records: a step now or later, or a directory to remove."""
        return not self.parts.queue.empty or self.parts.cleaning.more

    @property
    def visited(self) -> bool:
        """Whether all jobs and old directories were looked at once."""
        return self.parts.observer.looked.is_set() and self.parts.cleaning.turned

    def wake(self, uid: str) -> None:
        """Make a Pod due for a look now."""
        wake(self.parts.records, self.parts.queue, uid)

    def wake_all(self) -> None:
        """Make each Pod that is not over due for a look now."""
        wake_all(self.parts.records, self.parts.queue)

    def alive(self) -> dict[str, bool]:
        """For each thread that should run, by name: whether it does."""
        parts, user = self.parts, self._seat.user
        found = {"attending": self._loop.alive}
        if self.began:
            found["reconciler"] = parts.reconciler.alive
            found["cleaning"] = parts.cleaning.alive or not user
            found["tokens"] = parts.renewing is None or parts.renewing.alive
        if parts.observer.began:
            found |= {"observer": parts.observer.alive, "spool": parts.spool.alive, "indexing": parts.indexing.alive}
        return {f"{name} {user}".strip(): alive for name, alive in found.items()}

    def _turn(self) -> float:
        if self._after is not None:
            if not self._after.ended.wait(_TURN_SECONDS):  # its last commands are the same user's
                self._await_former()
                return 0.0
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

    def _await_former(self) -> None:
        """Say so if the commands of the attendance before do not end by themselves, as on a file system that hangs."""
        if time.monotonic() - self._since > _FORMER_SECONDS and self.parts.reach.ok:
            self.parts.reach.failed("the last commands for this user have not ended, so none is begun")

    def _pause(self) -> float:
        return _SOON_SECONDS if self._again and not self.began else _TURN_SECONDS

    def _stop_looking(self) -> None:
        for part in self.parts.lookers():
            part.stop()

    def _end(self) -> None:
        """End all threads, then the connection: a thread that still used it would report the site as unreachable."""
        parts = self.parts
        self._stop_looking()
        parts.reconciler.finish()
        for part in self.parts.lookers():
            part.await_end()
        parts.observer.stop()  # again: a look that just ended may have joined the site's observer
        self._seat.host.rest(0)

    def _attend(self) -> None:
        if not (self._shared.listed.is_set() and self._shared.check.known.is_set()):
            return
        if not self._seat.user:
            self._begin()
        elif not self.parts.observer.began:
            self._look()
        elif self.parts.observer.looked.is_set() or not self.parts.reach.ok:
            self._begin()
            self._claim()

    def _look(self) -> None:
        """Read the notes and start looking at the jobs.

        Planning begins only once the Pods, the notes and the living jobs are known, or it would guess. It also begins
        if the site or the batch system is silent, for actions that need neither.
        """
        parts = self.parts
        if time.monotonic() < parts.reach.again:
            return
        try:
            self._seat.host.check()
            parts.spool.look()
            parts.spool.start()
        except (OSError, BatchError, ConfigError) as error:
            parts.reach.failed(error if isinstance(error, BatchError) else str(error))
            self._begin()
            return
        parts.indexing.start()
        parts.observer.start()

    def _begin(self) -> None:
        if self.began:
            return
        parts, user = self.parts, self._seat.user
        if not self._again:  # an earlier leader's condition may be out of date
            say_reach(self._shared, parts.records, parts.queue, parts.reach.reason)
        records = parts.records.all()
        parts.reconciler.start()
        if user:
            parts.cleaning.start()
        if parts.renewing is not None:
            parts.renewing.start()
        self.began = True  # only now, as readers expect the threads to run
        if self._again:
            self._shared.changed()
        elif user or records:
            log.info("adopted", extra={"fields": {"pods": len(records), "user": user}})

    def _claim(self) -> None:
        """Take over Pods without a proven user that name this user and have a directory among this user's files.

        The key that signed a running Pod may have been removed since.
        """
        now = time.monotonic()
        if now < self._claims_at:
            return
        self._claims_at = now + _CLAIM_SECONDS
        for record in self._shared.records.unclaimed():
            pod = record.facts.pod
            if not pod.job_id or named_user(pod.account) != self._seat.user:
                continue
            try:
                there = self._seat.host.status(self.parts.directory(pod).path) is not None
            except OSError as error:
                fields = {"user": self._seat.user, "error": str(error)}
                log.warning("a user's Pod directories cannot be searched", extra={"fields": fields})
                return
            if there:
                self.parts.records.found(departed(uid=pod.uid, job_uid=pod.job_uid, index=pod.index), time.time())
                self.parts.queue.wake(pod.uid)
