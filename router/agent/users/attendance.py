"""One HPC user's Pods attended to while this agent leads: apart from those of the others, as users' troubles are.

Shell: one thread, which begins and ends the others. A user's full disk, locked account or hanging file server holds up
the threads of that user alone. Pods that are nobody's are attended to as well: they are told why they are not run, and
let go.
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
"""The same for a user who was at rest, whose Job waits."""
_CLAIM_SECONDS: Final = 10.0


class Attendance:
    """The time for which a user is attended to: ``start``, and in the end ``stop``, or ``rest``.

    :param after: what attended to them before and was told to rest: its records are gone on with, once it has ended
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
        self._resting = False
        self.ended = threading.Event()
        """Set once nothing of this runs any more, after ``rest``."""

    def start(self) -> None:
        """Begin, once all Pods are known."""
        if self._after is None:
            self._shared.records.join(self.parts.records)
        self._loop.start(self._pause())

    def stop(self, seconds: float) -> bool:
        """Begin nothing more, finish what is in hand within so many seconds, end; whether it was finished."""
        self._loop.stop()
        finished = self.parts.reconciler.stop(seconds)
        self._stop_looking()
        return finished

    def rest(self) -> None:
        """End without being waited for, and end the connection: there is nothing to do. ``ended`` says when."""
        self._resting = True
        self._loop.wake()

    @property
    def busy(self) -> bool:
        """Whether there is anything to do that the records do not tell: a step now or later, a directory to be removed."""
        return not self.parts.queue.empty or self.parts.cleaning.more

    @property
    def visited(self) -> bool:
        """Whether all jobs were looked at, and old directories."""
        return self.parts.observer.looked.is_set() and self.parts.cleaning.turned

    def wake(self, uid: str) -> None:
        """Let somebody look at a Pod."""
        wake(self.parts.records, self.parts.queue, uid)

    def wake_all(self) -> None:
        """Let somebody look at each Pod that is not over."""
        wake_all(self.parts.records, self.parts.queue)

    def alive(self) -> dict[str, bool]:
        """Whether the threads run that should, by name."""
        parts, user = self.parts, self._seat.user
        found = {"attending": self._loop.alive}
        if self.began:
            found["reconciler"] = parts.reconciler.alive
            found["cleaning"] = parts.cleaning.alive or not user
        if parts.observer.began:
            found |= {"observer": parts.observer.alive, "spool": parts.spool.alive, "indexing": parts.indexing.alive}
        return {f"{name} {user}".strip(): alive for name, alive in found.items()}

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

    def _stop_looking(self) -> None:
        for part in (self.parts.observer, self.parts.spool, self.parts.indexing, self.parts.cleaning):
            part.stop()

    def _end(self) -> None:
        """Nobody else uses the connection when it is ended: else whoever does would take the site to be unreachable."""
        parts = self.parts
        self._stop_looking()
        parts.reconciler.finish()
        for part in (parts.observer, parts.spool, parts.indexing, parts.cleaning):
            part.await_end()
        parts.observer.stop()  # once more: one that had just looked has joined the site's observer
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
        """Once the Pods, the notes and the living jobs are known, planning begins: not before, or it would guess.

        Where the site or the batch system cannot be asked it begins too: what does not need them is done.
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
        if not self._again:  # what an earlier leader has said of it may be over
            say_reach(self._shared, parts.records, parts.queue, parts.reach.reason)
        records = parts.records.all()
        parts.reconciler.start()
        if user:
            parts.cleaning.start()
        self.began = True  # only now, as whoever sees it expects the threads to run
        if self._again:
            self._shared.changed()
        elif user or records:
            log.info("adopted", extra={"fields": {"pods": len(records), "user": user}})

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
            if not pod.job_id or named_user(pod.account) != self._seat.user:
                continue
            try:
                there = self._seat.host.status(self.parts.directory(pod).path) is not None
            except OSError as error:
                fields = {"user": self._seat.user, "error": str(error)}
                log.warning("directories of Pods cannot be looked for", extra={"fields": fields})
                return
            if there:
                self.parts.records.found(departed(uid=pod.uid, job_uid=pod.job_uid, index=pod.index), time.time())
                self.parts.queue.wake(pod.uid)
