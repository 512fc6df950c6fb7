"""Server-sent events: newer versions of a page's main part, and the lines of a log.

Shell (HTTP). Each stream holds one thread of the server, so their number is bounded. A browser that is
refused one asks again later, and its page stays as it is.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Final, Protocol

from flask import Response, copy_current_request_context, current_app

from router.errors import ApiError
from router.kube.client import Api
from router.page.logs import Follower, Log

FEW: Final = 24
"""Streams at once for one viewer."""
_PAGES: Final = 12
"""Pages that are made at once for one viewer."""
_READINGS: Final = 2
"""Lists that are read at once for one viewer: a page of one may take 30 MiB of memory."""
MANY: Final = 200
"""Streams at once for all viewers together."""
ROOM: Final = "STREAMS"
"""The key of an app's configuration with the semaphore of its streams."""
HEARTBEAT: Final = 10.0
"""Seconds after which a page is made anew although nothing was reported: its figures age."""
_SLOWEST: Final = 1.0
"""Seconds between two versions of a page: many Jobs that change at once are one change."""
_LONGEST_REST: Final = 60.0
"""The most seconds after a page that took long to make."""
_LONGEST: Final = 3600.0
"""Seconds that a stream lasts; the browser then opens another one."""


@dataclass(frozen=True, slots=True)
class Room:
    """How much one viewer may have at once, in all their views together."""

    streams: threading.BoundedSemaphore = field(default_factory=partial(threading.BoundedSemaphore, FEW))
    pages: threading.BoundedSemaphore = field(default_factory=partial(threading.BoundedSemaphore, _PAGES))
    readings: threading.BoundedSemaphore = field(default_factory=partial(threading.BoundedSemaphore, _READINGS))


class View(Protocol):
    """The reader's view that a stream belongs to: it ends with it."""

    room: Room
    """The viewer's."""
    refused: bool
    """Whether the API server takes the viewer's token no longer."""

    def await_news(self, version: int, seconds: float) -> int:
        """Wait at most so long for another version than this one; below 0 once the view has ended."""


def answer(render: Callable[[], str], view: View, await_news: Callable[[int, float], int] | None = None) -> Response:
    """A stream of the versions of a page's main part, each different from the one before.

    :param render: makes the present version, within the request's context
    :param await_news: as the view's own, for a page that shows a part of the view
    """
    return _stream(
        _versions(copy_current_request_context(render), view, await_news or view.await_news), view.room.streams
    )


def _versions(render: Callable[[], str], view: View, await_news: Callable[[int, float], int]) -> Iterator[str]:
    sent, version, end = "", -1, time.monotonic() + _LONGEST
    while time.monotonic() < end:
        version = await_news(version, 0)  # of before, so that what changes meanwhile is news
        begun = time.monotonic()
        try:
            now = render()
        except ApiError as error:
            sent = ""  # so that the same page is told again, and with it that the cluster answers
            begun = time.monotonic()  # a time-out is no work
            yield _event("trouble", str(error))
        else:
            yield _event("page", now) if now != sent else ": the same\n\n"
            sent = now
        # A page that takes long to make is made less often.
        yield from _rest(view, min(max(_SLOWEST, 5 * (time.monotonic() - begun)), _LONGEST_REST))
        version = await_news(version, HEARTBEAT)
        if version < 0:
            yield from _end(view)
            return


def _rest(view: View, seconds: float) -> Iterator[str]:
    """Wait so long, or until the view ends. A stream in which nothing comes for a minute is cut by some proxies."""
    now = time.monotonic()
    end, said = now + seconds, now
    while now < end and view.await_news(0, 0) >= 0:
        time.sleep(min(end - now, _SLOWEST))
        now = time.monotonic()
        if now - said > HEARTBEAT:
            said = now
            yield ": rests\n\n"


def _end(view: View) -> Iterator[str]:
    """The end of a stream whose view has ended: a browser asks again, at once if it is told that it is refused."""
    if view.refused:
        yield _event("refused", "")


def log_answer(api: Api, log: Log, view: View) -> Response:
    """A stream of a log's lines, from its last ones on, in the viewer's own room. It ends with the view."""
    return _stream(_lines(Follower(api, log), view), view.room.streams)


def _lines(follower: Follower, view: View) -> Iterator[str]:
    with follower:
        for kind, text in follower.parts():
            if view.await_news(0, 0) < 0:
                yield from _end(view)
                return
            yield _event(kind, text) if kind else ": nothing yet\n\n"
    yield _event("end", "")


def _event(kind: str, text: str) -> str:
    return f"event: {kind}\ndata: {json.dumps(text)}\n\n"


def _stream(parts: Iterator[str], own: threading.BoundedSemaphore) -> Response:
    rooms: list[threading.BoundedSemaphore] = [own, current_app.config[ROOM]]
    taken = list(takewhile(lambda one: one.acquire(blocking=False), rooms))
    if len(taken) < len(rooms):
        for one in taken:
            one.release()
        return Response(
            "too many streams are open; one more is possible when another ends\n", 503, mimetype="text/plain"
        )
    found = Response(parts, mimetype="text/event-stream")
    for one in taken:
        found.call_on_close(one.release)
    found.headers["X-Accel-Buffering"] = "no"  # a proxy in between shall pass each event on
    return found
