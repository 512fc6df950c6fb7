"""Elects the one of several processes that acts: the holder of a Lease.

Knows the Lease and clocks. The rules are those of client-go's leader election:

* A candidate takes over once the Lease was unchanged for the time that it names. It counts by its own clock, from when
  it first saw that version.
* The leader counts from the moment before it sent its last successful renewal, and stops after two thirds of the time.
  So it has stopped before another process can begin, whatever the machines' clocks say.
* A change is made only to the version of the Lease that was read.
* A candidate that starts and finds no Lease takes it at once, as on the first day. So a process that starts after somebody
  deleted the Lease can lead beside the leader, until that renews it.

Renewals have a thread of their own, which waits only for the API server.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from router.background.loop import Loop
from router.errors import ApiError, Conflict, NotFound
from router.kube.client import Api, Json

log: Final = logging.getLogger("batchgate.election")

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that, unlike the ordinary monotonic one, goes on while the machine is suspended."""
_RENEWALS: Final = 5
"""Renewals within the Lease's time, so that two may fail."""
_LEAD: Final = 2 / 3
"""The part of the Lease's time, from the start of a renewal, for which the leader trusts it."""
_LONGEST_PAUSE: Final = 1.0
"""Longest pause of a candidate: it sees a released Lease within this time."""


def clock() -> float:
    """Seconds by a clock that is never set and always runs."""
    return time.clock_gettime(_CLOCK)


@dataclass(frozen=True, slots=True)
class Seen:
    """The Lease's version that a candidate last saw (empty without a Lease), and since when it is the same."""

    version: str
    since: float


def is_free(lease: Json | None, identity: str, seen: Seen | None, now: float, seconds: float) -> bool:
    """Whether the Lease may be taken: without a holder, held by this process, or past the time that its holder named.

    :param seen: the Lease that this process saw before, None at its first look
    :param seconds: the time to wait if the Lease names none or was deleted, as its holder may still lead
    """
    if lease is None:
        return seen is None or now - seen.since > seconds
    spec = lease.get("spec") or {}
    if (spec.get("holderIdentity") or "") in ("", identity):
        return True
    return seen is not None and now - seen.since > (spec.get("leaseDurationSeconds") or seconds)


def held(lease: Json | None, identity: str, seconds: int, moment: datetime) -> Json:
    """The spec of a Lease that this process holds from this moment on, made from its present spec."""
    before: Json = (lease or {}).get("spec") or {}
    stamp = micro_time(moment)
    renewed: Json = {**before, "holderIdentity": identity, "leaseDurationSeconds": seconds, "renewTime": stamp}
    if before.get("holderIdentity") == identity:
        return renewed
    changes = int(before.get("leaseTransitions") or 0) + bool(before)
    return {**renewed, "acquireTime": stamp, "leaseTransitions": changes}


def micro_time(moment: datetime) -> str:
    """A time in the format of Leases, with microseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Election:
    """One candidate: ``start`` it, ``wait`` to lead, look at ``leading`` before each act, ``release`` in the end.

    :param identity: shown as the holder; a random part is added, so that each process has its own
    :param seconds: how long the Lease lasts without a renewal; a whole number, at least 1
    """

    def __init__(self, api: Api, namespace: str, lease_name: str, identity: str, seconds: int) -> None:
        self.identity = f"{identity}_{secrets.token_hex(4)}"
        self.problem = ""
        """Why the Lease cannot be read or written now; empty while it can."""
        self._api = api
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = lease_name
        self._seconds = seconds
        self._condition = threading.Condition()
        self._until = -math.inf
        self._term = 0
        self._lease: Json | None = None
        self._seen: Seen | None = None
        self._led = False
        self._loop = Loop("election", self._turn)

    def start(self) -> None:
        """Begin to compete."""
        self._loop.start()

    @property
    def alive(self) -> bool:
        """Whether it competes, or keeps the lead."""
        return self._loop.alive

    @property
    def leading(self) -> bool:
        """Whether this process leads now. False in good time before another can lead, and after ``release``."""
        return clock() < self._until and not self._loop.stopping

    @property
    def term(self) -> int:
        """How often this process took the lead. If it has grown, another process may have led in between."""
        return self._term

    def wait(self, seconds: float | None = None) -> bool:
        """Wait, at most ``seconds``, until this process leads; returns whether it does."""
        with self._condition:
            return self._condition.wait_for(lambda: self.leading, seconds)

    def release(self) -> None:
        """Stop leading and competing; the next leader begins at once. All work that needs the lead must have ended."""
        self._loop.stop()
        self._loop.await_end(self._patience + 1)
        if self._loop.alive or self._lease is None or not self._holds():
            return
        spec = {**self._lease["spec"], "holderIdentity": "", "renewTime": micro_time(datetime.now(UTC))}
        try:
            self._write(spec)
        except ApiError as error:
            log.warning("the lead is not handed over, the next leader waits %d s: %s", self._seconds, error)

    @property
    def _patience(self) -> float:
        """Time limit of one request, which leaves time for a second one before the lead is lost."""
        return self._seconds / 3

    def _turn(self) -> float:
        began = clock()
        try:
            self._try()
            self.problem = ""
        except ApiError as error:
            self.problem = str(error)
        if self._led != self.leading:
            self._led = not self._led
            log.info("leading" if self._led else "not leading any more", extra={"fields": self._fields()})
        pause = self._seconds / _RENEWALS
        return max(0.0, began + (pause if self._led else min(pause, _LONGEST_PAUSE)) - clock())

    def _fields(self) -> dict[str, str]:
        return {"lease": self._name, "identity": self.identity, "problem": self.problem}

    def _try(self) -> None:
        """Renew or take the Lease; without the lead, read it first."""
        if not self.leading:
            before = self._seen
            self._look()
            if not is_free(self._lease, self.identity, before and self._seen, clock(), self._seconds):
                return
        began = clock()
        ours = self._holds()
        try:
            self._lease = self._write(held(self._lease, self.identity, self._seconds, datetime.now(UTC)))
        except (Conflict, NotFound):
            self._look()  # another was quicker, or our own answer got lost: the holder's name says which
            if self._lease and not self._holds():
                self._until = -math.inf  # a Lease that somebody deleted is written anew at the next turn
            return
        self._see()
        with self._condition:
            self._term += not ours
            self._until = began + self._seconds * _LEAD
            self._condition.notify_all()

    def _holds(self) -> bool:
        spec = (self._lease or {}).get("spec") or {}
        return spec.get("holderIdentity") == self.identity

    def _look(self) -> None:
        self._lease = self._api.find(f"{self._collection}/{self._name}", self._patience)
        self._see()

    def _see(self) -> None:
        """Note since when the Lease is as it is now. Its own versions count too: what comes after them is new."""
        version = self._lease["metadata"]["resourceVersion"] if self._lease else ""
        if self._seen is None or self._seen.version != version:
            self._seen = Seen(version, clock())

    def _write(self, spec: Json) -> Json:
        if self._lease is None:
            kind: Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name}}
            return self._api.create(self._collection, {**kind, "spec": spec}, self._patience)
        return self._api.replace(f"{self._collection}/{self._name}", {**self._lease, "spec": spec}, self._patience)
