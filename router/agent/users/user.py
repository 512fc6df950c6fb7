"""One HPC user while this agent leads: attended to while there is work, else at rest.

Shell (a lock, a clock). At rest the records of the user's Pods stay, but the threads and the connection end. Waking one
of the Pods makes them anew, as at the start of an agent. So a user at rest needs no further state: everything that an
agent finds at its start is found again.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import Final

from router.agent.records import Record
from router.agent.users.attendance import Attendance
from router.agent.users.parts import Elsewhere
from router.agent.users.seats import Seat
from router.agent.users.world import Shared, World
from router.reconcile.resting import Seen

log: Final = logging.getLogger("batchgate.agent")


class User:
    """One HPC user; ``start`` it, and ``stop`` it in the end.

    :param elsewhere: see ``Submitter``
    """

    def __init__(
        self,
        world: World,
        seat: Seat,
        shared: Shared,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self.seat = seat
        self._make = partial(Attendance, world, seat, shared, elsewhere)
        self._lock = threading.Lock()
        self._attendance = self._make()
        self.records = self._attendance.parts.records
        self._awake = True
        self._stopped = False
        self._risen = False
        self._since = time.monotonic()
        self._needed: float | None = None

    def start(self) -> None:
        """Begin to attend to the user, once all Pods are known."""
        self._attendance.start()

    def stop(self) -> None:
        """See ``Attendance``. A user at rest has no work under way and stays at rest."""
        with self._lock:
            self._stopped = True
            if self._awake:
                self._attendance.stop()

    def await_end(self, until: float) -> bool:
        """See ``Attendance``."""
        return not self._awake or self._attendance.await_end(until)

    def wake(self, uid: str) -> None:
        """Make a Pod due for a look now, and end the user's rest."""
        with self._lock:
            self._rise()
            self._attendance.wake(uid)

    def wake_all(self) -> None:
        """Make each Pod that is not over due for a look now. A user at rest only has Pods that are over."""
        with self._lock:
            if self._awake:
                self._attendance.wake_all()

    def rise(self) -> None:
        """Attend to the user from now on."""
        with self._lock:
            self._rise()

    def rest(self) -> None:
        """Let the user rest, unless there is work by now."""
        with self._lock:
            if not self._awake or self._wanted() or self._stopped:
                return
            self._attendance.rest()
            self._awake, self._since = False, time.monotonic()
            if self._needed is not None:
                log.info("at rest", extra={"fields": {"user": self.seat.user}})
            self._needed = None

    def close_unused(self, seconds: float) -> None:
        """End a resting user's connection, which a log request had opened, once it was unused for ``seconds``."""
        with self._lock:
            if not self._awake and self._attendance.ended.is_set():
                self.seat.host.rest(seconds)

    def seen(self, now: float, *, claimed: bool) -> Seen:
        """The state of the user at a moment.

        :param now: monotonic time
        :param claimed: whether a Pod without a proven user names this user
        """
        with self._lock:
            wanted, attendance = claimed or self._wanted(), self._attendance
            if wanted and self._awake:
                self._needed = now
            return Seen(
                user=self.seat.user,
                awake=self._awake,
                wanted=wanted,
                since=self._since,
                needed=self._needed,
                reached=self.reaches,
                visited=attendance.visited,
            )

    @property
    def awake(self) -> bool:
        """Whether the user is attended to."""
        return self._awake

    @property
    def began(self) -> bool:
        """Whether the Pods were attended to once; stays true after a rest, so that the agent stays ready."""
        return self._risen or self._attendance.began

    @property
    def reaches(self) -> bool:
        """Whether the user is attended to, and reached the batch system when it was last asked."""
        return self._awake and self._attendance.began and self._attendance.parts.reach.ok

    @property
    def tried(self) -> str | None:
        """Why the user does not reach the batch system; empty if no failure was seen.

        None while the user is at rest, and after it until the first attempt ends.
        """
        attendance = self._attendance
        reason = attendance.parts.reach.reason
        if not self._awake or (self._risen and not attendance.began and not reason):
            return None
        return reason

    def alive(self) -> dict[str, bool]:
        """For each thread that should run, by name: whether it does."""
        with self._lock:
            return self._attendance.alive() if self._awake else {}

    def _rise(self) -> None:
        if self._awake or self._stopped:
            return
        self._attendance = self._make(after=self._attendance)
        self._awake, self._risen, self._since = True, True, time.monotonic()
        self._attendance.start()

    def _wanted(self) -> bool:
        busy = self._awake and self._attendance.busy
        return busy or any(_is_unfinished(record) for record in self.records.all())


def _is_unfinished(record: Record) -> bool:
    """Whether work for a Pod is left on the site, or under way. Reading its logs does not count."""
    return not record.over or bool(record.busy) or record.owed
