"""Records Events, which users read below ``kubectl describe``.

Shell (a thread, the API). Knows core/v1 Events. The same text about the same object is one Event whose count goes up,
also after a restart, as the Event's name is a hash of both. ``tell`` never waits or fails: unsent Events are kept while
there is room.
"""

from __future__ import annotations

import hashlib
import logging
import math
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal

from router.background.backoff import BackOff
from router.background.loop import Loop
from router.errors import ApiError, ApiUnavailable, Conflict, NotFound
from router.kube.client import Api, Json

log: Final = logging.getLogger("batchgate.kube")

COMPONENT: Final = "batchgate-agent"
LONGEST_MESSAGE: Final = 1024
"""Bytes of a message: the limit of events.k8s.io/v1, which shows the same objects."""
LONGEST_QUEUE: Final = 10_000
REPEAT_SECONDS: Final = 30.0
"""Repeats within this time after an Event was sent are counted here and sent with the next one: a load limit."""
AT_ONCE: Final = 25
"""Most Events about one object in words of its own programs, as a kubelet limits them; then one in ``_EACH_SECONDS``."""
_EACH_SECONDS: Final = 300.0
_LONGEST_NAME: Final = 253
_REMEMBERED: Final = 10_000
_TRIES: Final = 12
"""Of an Event that the API server fails at (500). One that it cannot be told now is kept."""
_BACK_OFF: Final = BackOff(first=0.2, longest=10.0)

Kind = Literal["Normal", "Warning"]


@dataclass(frozen=True, slots=True)
class Reference:
    """The object of core/v1 that an Event is about. ``namespace`` is empty for Nodes and other things of the whole cluster."""

    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """One unsent Event; ``count`` says how often it was told since it was last sent. Times: seconds since 1970."""

    regarding: Reference
    kind: Kind
    reason: str
    message: str
    first: float
    last: float
    count: int = 1

    @property
    def namespace(self) -> str:
        """The Event's namespace: its object's, or ``default`` for a cluster-scoped object (as the API requires)."""
        return self.regarding.namespace or "default"

    @property
    def name(self) -> str:
        """The Event's name, always the same for the same text about the same object."""
        words = (self.regarding.uid, self.regarding.kind, self.kind, self.reason, self.message)
        digest = hashlib.sha256("\0".join(words).encode(errors="replace")).hexdigest()[:16]
        return f"{self.regarding.name[: _LONGEST_NAME - len(digest) - 1].rstrip('.-')}.{digest}"


def shortened(message: str, limit: int) -> str:
    """The message in at most ``limit`` bytes of UTF-8, cut between characters; a cut is marked by ``…``."""
    data = message.encode(errors="replace")
    if len(data) <= limit:
        return data.decode()
    mark = "…"
    return data[: limit - len(mark.encode())].decode(errors="ignore") + mark


def event_object(told: PendingEvent, instance: str) -> Json:
    """The Event as an API object. ``instance`` names the reporting process."""
    about = told.regarding
    involved = {
        "apiVersion": "v1",
        "kind": about.kind,
        "namespace": about.namespace,
        "name": about.name,
        "uid": about.uid,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": told.name, "namespace": told.namespace},
        "involvedObject": {key: value for key, value in involved.items() if value},
        "type": told.kind,
        "reason": told.reason,
        "message": told.message,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": instance,
        "firstTimestamp": _stamp(told.first),
        "lastTimestamp": _stamp(told.last),
        "count": told.count,
    }


def _stamp(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(slots=True)
class _Sent:
    """An Event that the API server has: its count, when it was sent (monotonic), and repeats since then."""

    count: int
    at: float
    unsent: int = 0


class Recorder:
    """Sends Events in a thread of its own; call ``start`` first and ``stop`` at the end.

    :param instance: names this process, e.g. the agent's identity
    """

    def __init__(self, api: Api, instance: str) -> None:
        self.dropped = 0
        """The number of lost Events: no room, or refused by the API server."""
        self._api = api
        self._instance = instance[:128]
        self._condition = threading.Condition()
        self._waiting: OrderedDict[str, PendingEvent] = OrderedDict()
        self._sent: OrderedDict[str, _Sent] = OrderedDict()
        self._spent: OrderedDict[str, float] = OrderedDict()
        """When all Events of programs' words about an object are made up for (monotonic), by its uid."""
        self._busy = False
        self._failures = 0
        self._tries = 0
        self._not_before = -math.inf
        self._refusals: set[tuple[int, str]] = set()
        self._loop = Loop("events", self._turn)

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._loop.alive

    def start(self) -> None:
        """Begin to send."""
        self._loop.start()

    def stop(self, seconds: float = 2.0) -> None:
        """Send waiting Events for at most ``seconds``, and end the thread."""
        self.flush(seconds)
        self._loop.stop()

    def tell(self, regarding: Reference, kind: Kind, reason: str, message: str) -> None:
        """Record an Event about an object, now."""
        now = time.time()
        told = PendingEvent(regarding, kind, reason, shortened(message, LONGEST_MESSAGE), now, now)
        with self._condition:
            self._add(told.name, told)
        self._loop.wake()

    def allows(self, uid: str) -> bool:
        """Whether one more Event in words of an object's own programs may be told. If so, it is counted.

        Each new text is a new object of the API, so a program could fill the server and delay the Events of others.
        """
        now = time.monotonic()
        with self._condition:
            until = max(now, self._spent.pop(uid, now))
            allowed = until - now <= (AT_ONCE - 1) * _EACH_SECONDS
            self._spent[uid] = until + _EACH_SECONDS if allowed else until
            if len(self._spent) > _REMEMBERED:
                self._spent.popitem(last=False)
        return allowed

    def flush(self, seconds: float) -> bool:
        """Wait until all Events are sent, at most ``seconds``; returns whether they are."""
        with self._condition:
            return self._condition.wait_for(lambda: not self._waiting and not self._busy, seconds)

    def _add(self, name: str, told: PendingEvent) -> None:
        sent = self._sent.get(name)
        if (waiting := self._waiting.get(name)) is not None:
            self._waiting[name] = _joined(waiting, told)
        elif sent is not None and time.monotonic() - sent.at < REPEAT_SECONDS:
            sent.unsent += 1
        elif len(self._waiting) >= LONGEST_QUEUE:
            self.dropped += 1
        else:
            self._waiting[name] = told if sent is None else replace(told, count=1 + sent.unsent)
            if sent is not None:
                sent.unsent = 0

    def _turn(self) -> float | None:
        if (pause := self._not_before - time.monotonic()) > 0:
            return pause  # whoever tells something wakes this thread, and does not shorten a pause
        if (told := self._next()) is None:
            return None
        try:
            self._send(told)
        except ApiUnavailable as error:
            self._failures += 1
            self._tries += error.status == 500
            if self._tries < _TRIES:
                self._put_back(told)
                pause = max(_BACK_OFF.after(self._failures), error.retry_after or 0)
                self._not_before = time.monotonic() + pause
                return pause
            self._give_up(told, error)
        except ApiError as error:
            self._give_up(told, error)
        self._failures = self._tries = 0
        self._rest()
        return 0.0

    def _next(self) -> PendingEvent | None:
        """The Event to send next; None while the queue is empty."""
        with self._condition:
            if not self._waiting:
                return None
            self._busy = True
            return self._waiting.popitem(last=False)[1]

    def _rest(self) -> None:
        with self._condition:
            self._busy = False
            self._condition.notify_all()

    def _put_back(self, told: PendingEvent) -> None:
        """The first to be sent again."""
        with self._condition:
            self._busy = False
            later = self._waiting.get(told.name)
            self._waiting[told.name] = _joined(told, later) if later else told
            self._waiting.move_to_end(told.name, last=False)

    def _give_up(self, told: PendingEvent, error: ApiError) -> None:
        self.dropped += told.count
        if (error.status, error.reason) not in self._refusals:  # one log line per kind of refusal
            self._refusals.add((error.status, error.reason))
            log.warning("Events like %s about %s are not written: %s", told.reason, told.regarding.name, error)

    def _send(self, told: PendingEvent) -> None:
        collection = f"/api/v1/namespaces/{told.namespace}/events"
        sent = self._sent.get(told.name)
        if sent is None or not self._count_up(collection, told, sent.count):
            try:
                self._api.create(collection, event_object(told, self._instance))
                count = told.count
            except Conflict:  # made by an earlier process; a patch returns its count, as the agent may not read Events
                found = self._api.patch(f"{collection}/{told.name}", {"lastTimestamp": _stamp(told.last)})
                count = int(found.get("count") or 0)
                self._count_up(collection, told, count)
                count += told.count
        else:
            count = sent.count + told.count
        self._remember(told.name, count)

    def _count_up(self, collection: str, told: PendingEvent, before: int) -> bool:
        """Raise an Event's count; False if the API server has deleted it (after an hour)."""
        change: Json = {"count": before + told.count, "lastTimestamp": _stamp(told.last)}
        try:
            self._api.patch(f"{collection}/{told.name}", change)
        except NotFound:
            return False
        return True

    def _remember(self, name: str, count: int) -> None:
        with self._condition:
            unsent = known.unsent if (known := self._sent.pop(name, None)) else 0
            self._sent[name] = _Sent(count, time.monotonic(), unsent)
            if len(self._sent) > _REMEMBERED:
                self._sent.popitem(last=False)


def _joined(earlier: PendingEvent, later: PendingEvent) -> PendingEvent:
    return replace(earlier, last=later.last, count=earlier.count + later.count)
