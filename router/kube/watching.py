"""Follows the objects of a list on the API server: lists them in pages, then watches.

Shell (a thread). It passes each object on and keeps none, so that a caller who stores a small projection needs memory
only for that.

The rules (Kubernetes API concepts, "Efficient detection of changes"): A watch continues from the resourceVersion of the
last event or bookmark that was passed on. So each event is passed on exactly once, also after a cut connection. The
status 410 means that the version is too old, and the whole list is read again.

A server whose etcd was restored to an older state answers a watch from a later version with silence (measured). So
after a watch without events the current version is queried. A change that was still missed is found when the list is
read again, every hour.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from router.background.backoff import BackOff
from router.background.loop import Loop
from router.errors import ApiError, Gone
from router.kube.client import Api, Json, Stream

log: Final = logging.getLogger("batchgate.kube")

WATCH_SECONDS: Final = 60
"""Length of a watch. Each new watch is a sign of life; bookmarks are unreliable, as an idle server may omit them
(measured)."""
LIST_AGAIN_SECONDS: Final = 3600.0
PAGE: Final = 50
"""Objects asked for at a time: routed Pods carry their script, and two pages of them are in memory at once. Of 200 to a
page an agent of 2,000 Pods took 13 MiB more, and listed them no faster."""
BACK_OFF: Final = BackOff(first=0.2, longest=10.0)
_SECONDS: Final = 30.0
_FORBIDDEN: Final = 403
_SHORT: Final = 1.0
"""A watch that ends sooner without events counts as a failure, which avoids a tight loop."""


class Watch:
    """The objects at a path, listed and watched by a thread of its own; ``start`` it, ``stop`` it in the end.

    :param path: of a list, e.g. ``/api/v1/pods``
    :param on_list: takes all objects, lazily, page by page; other objects are gone. The iterator raises
        :class:`ApiError` if a later page fails: let it pass, and replace the known objects only at the end
    :param on_change: takes ``ADDED``, ``MODIFIED`` or ``DELETED`` and the object
    :param query: ``labelSelector``, ``fieldSelector``
    :param on_refusal: takes the error when the right to list or to watch is lacking, in place of ``problem``; by default
        that is a problem like others

    They are called by this thread alone, in the order of what happened. An exception in them ends the thread, which
    then shows as not ``alive``; it is never swallowed.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        on_list: Callable[[Iterator[Json]], None],
        on_change: Callable[[str, Json], None],
        query: Mapping[str, str] | None = None,
        on_refusal: Callable[[ApiError], None] | None = None,
    ) -> None:
        self.synced = threading.Event()
        """Set after the list was read for the first time."""
        self.problem = ""
        """Why the API server does not answer now; empty while it answers."""
        self._api = api
        self._path = path
        self._on_list = on_list
        self._on_change = on_change
        self._on_refusal = on_refusal or self._note
        self._query = dict(query or {})
        self._since = -math.inf
        self._version = ""
        self._listed = -math.inf
        self._failures = 0
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        self._loop = Loop(f"watch {path}", self._turn)

    @property
    def since(self) -> float:
        """Monotonic time of the last sign of life; minus infinity before the first."""
        return self._since

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._loop.alive

    def start(self) -> None:
        """Begin to list."""
        self._loop.start()

    def await_end(self, seconds: float) -> None:
        """Wait until nothing is listed or watched any more, after ``stop``, at most so long."""
        self._loop.await_end(seconds)

    def stop(self) -> None:
        """List and watch no more."""
        self._loop.stop()
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.close()

    def _turn(self) -> float:
        least = 0.0
        try:
            quick = self._step()
        except Gone as error:
            self._version = ""
            quick = True
            log.info("%s; listing again", error)
        except ApiError as error:
            (self._on_refusal if error.status == _FORBIDDEN else self._note)(error)
            quick, least = True, error.retry_after or 0.0
        self._failures = self._failures + 1 if quick else 0
        return max(_jitter(BACK_OFF.after(self._failures)), least)

    def _step(self) -> bool:
        """List if that is due, then follow one watch to its end; returns whether it ended suspiciously soon."""
        if not self._version or time.monotonic() - self._listed > LIST_AGAIN_SECONDS:
            self._list()
        began, version = time.monotonic(), self._version
        self._follow()
        if self._version != version or self._loop.stopping:
            return False
        if self._went_back():
            log.warning(
                "%s: the versions of objects went backwards, an older state was restored; listing again", self._path
            )
            self._version = ""
        return time.monotonic() - began < _SHORT

    def _went_back(self) -> bool:
        """Whether the server's version is older than ours: versions are decimal numbers that may be compared
        (Kubernetes API concepts, "Resource versions").
        """
        metadata = self._api.get(self._path, _SECONDS, limit=1, **self._query)["metadata"]
        now = str(metadata["resourceVersion"])
        return now.isdecimal() and self._version.isdecimal() and int(now) < int(self._version)

    def _list(self) -> None:
        versions: list[str] = []
        objects = self._objects(versions)
        self._on_list(objects)
        deque(objects, maxlen=0)  # reads the rest, as the version is known only at the end
        self._version = versions[-1]
        self._listed = time.monotonic()
        self.synced.set()

    def _objects(self, versions: list[str]) -> Iterator[Json]:
        for page, version in self._api.pages(self._path, limit=PAGE, **self._query):
            self._heard()
            versions.append(version)
            yield from page

    def _follow(self) -> None:
        stream = self._api.watch(self._path, self._version, seconds=WATCH_SECONDS, **self._query)
        with self._lock:
            self._stream = stream
        if self._loop.stopping:  # asked while the request was on its way
            stream.close()
        self._heard()
        for event in stream:
            self._heard()
            kind, found = event["type"], event["object"]
            if kind in ("ADDED", "MODIFIED", "DELETED"):
                self._on_change(kind, found)
            self._version = found["metadata"]["resourceVersion"]

    def _heard(self) -> None:
        self._since = time.monotonic()
        if self.problem:
            log.info("%s: the API server answers again", self._path)
            self.problem = ""

    def _note(self, error: ApiError) -> None:
        if str(error) != self.problem and not self._loop.stopping:
            self.problem = str(error)
            log.warning("%s; trying again", error)


def _jitter(delay: float) -> float:
    return delay * random.uniform(0.7, 1.3)  # noqa: S311 - only spreads requests over time
