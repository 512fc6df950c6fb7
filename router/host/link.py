"""The conversation with one site helper: requests of many threads, told apart by their numbers.

Shell (threads, a clock); ``router.host.framing`` defines the bytes. An Opener opens the Channel that carries them: a
session of an ssh connection, or a process of this machine. Its callbacks run in the event loop's thread.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Protocol

from router.host import HostUnavailable, answers, sentences
from router.host.eventloop import EventLoop
from router.host.framing import Decoder, FramingError, Message, encode
from router.host.sentences import HelperPlace
from router.host.sitehelper import AFTER_KILL

_ON_THE_WAY: Final = 5.0 + 2 * AFTER_KILL
"""Seconds that an answer may take beyond the request's own limit."""
_PING: Final = 5.0
_COMPLAINT: Final = 4096
_MOST_COMPLAINTS: Final = 1 << 20
"""Bytes of stderr in a site helper's life; it writes there only when it ends."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request that was sent: the future for its answer, and the bytes that the answer may have."""

    answer: Future[Message]
    room: int


class Channel(Protocol):
    """The stdin of a site helper. Both methods are called in the event loop's thread, and do not block."""

    def write(self, data: bytes) -> None:
        """Send these bytes after all earlier ones."""

    def close(self, *, doubtful: bool) -> None:
        """End the site helper. ``doubtful``: its connection is silent, and gets no further sessions."""


class Listener(Protocol):
    """Receives what a site helper prints, and its end."""

    def received(self, data: bytes) -> None:
        """Called with bytes of its stdout."""

    def complained(self, data: bytes) -> None:
        """Called with bytes of its stderr."""

    def ended(self, code: int | None) -> None:
        """Called when the site helper or its connection has ended, with its exit code if known."""


class Opener(Protocol):
    """Starts one user's site helper."""

    place: HelperPlace

    async def open(self, listener: Listener) -> Channel:
        """Start the site helper. Raises HostUnavailable."""


class Link:
    """One site helper, from ``begin`` until it is lost; thread-safe."""

    def __init__(self, loop: EventLoop, place: HelperPlace) -> None:
        self._loop = loop
        self._place = place
        self._lock = threading.Lock()
        self._decoder = Decoder(self._room)
        self._complaint = b""
        self._complaints = 0
        self._waiting: dict[int, _Asked] = {}
        self._late: dict[int, _Asked] = {}
        self._numbers = itertools.count()
        self._begun = 0.0
        self._channel: Channel | None = None
        self.lost: HostUnavailable | None = None
        """The reason why the site helper cannot be used any more."""
        self.gone = threading.Event()
        """Set once the site helper or its connection has ended."""

    def begin(self, opener: Opener, root: str, seconds: float, *, make: bool = True) -> None:
        """Start the site helper and send it the directory, which it makes if missing. Raises HostUnavailable.

        :param make: False for read-only use: the site helper leaves the directory as it is
        """
        try:
            self._channel = self._loop.run(opener.open(self), seconds)
        except TimeoutError:
            raise sentences.silent(self._place, seconds, alive=False) from None
        finally:
            if self._channel is None:
                self.gone.set()
        self._begun = time.monotonic()
        message = self.ask({"do": "hello", "root": root, "make": make}, b"", seconds)
        if not answers.speaks(message):
            found = answers.shown(message.head.get("version"))
            raise self._refused(sentences.other_version(self._place, found, answers.served(message)))
        try:
            failure = answers.failure(message)
        except FramingError as error:
            raise self._refused(sentences.no_helper(self._place, str(error))) from None
        if failure is not None:
            raise self._refused(sentences.no_root(self._place, failure.number, failure.words))

    def received(self, data: bytes) -> None:
        """See ``Listener``."""
        if self.lost is not None:
            return
        try:
            messages = [(answers.number(one), one) for one in self._decoder.feed(data)]
        except FramingError as error:
            self.drop(sentences.no_helper(self._place, str(error)))
            return
        for number, message in messages:
            with self._lock:
                self._late.pop(number, None)
                waiting = self._waiting.pop(number, None)
            if waiting is not None:
                waiting.answer.set_result(message)

    def complained(self, data: bytes) -> None:
        """See ``Listener``."""
        if self._complaints > _MOST_COMPLAINTS:
            return
        self._complaint = (self._complaint + data)[-_COMPLAINT:]
        self._complaints += len(data)
        if self._complaints > _MOST_COMPLAINTS:
            words = f"it wrote more than {_MOST_COMPLAINTS} bytes to stderr"
            self.drop(sentences.no_helper(self._place, words))

    def ended(self, code: int | None) -> None:
        """See ``Listener``."""
        self.drop(sentences.ended(self._place, code, self._complaint.decode(errors="replace")))
        self.gone.set()

    def ask(self, head: Mapping[str, object], body: bytes, seconds: float) -> Message:
        """The answer to a request. HostUnavailable: it is unknown whether it was done; OSError: it was too long."""
        waiting, number = self._send(head, body, seconds)
        try:
            return waiting.result(seconds + _ON_THE_WAY)
        except TimeoutError:
            with self._lock:
                if (asked := self._waiting.pop(number, None)) is not None:
                    self._late[number] = asked
        alive = self.answers()
        error = sentences.silent(self._place, seconds, alive=alive)
        if not alive:
            self.drop(error, doubtful=True)
        raise error

    def answers(self, seconds: float = _PING) -> bool:
        """Whether the site helper itself answers a ping, even while its file system hangs."""
        try:
            waiting, _ = self._send({"do": "ping"}, b"", seconds)
            waiting.result(seconds)
        except (TimeoutError, HostUnavailable):
            return False
        return True

    def drop(self, error: HostUnavailable, *, doubtful: bool = False) -> HostUnavailable:
        """Stop using the site helper. Waiting threads get the error, which is also returned. The first error stays."""
        with self._lock:
            self.lost = self.lost or error
            waiting, self._waiting = list(self._waiting.values()), {}
        for one in waiting:
            one.answer.set_exception(self.lost.again())
        if self._channel is not None:
            self._loop.call(_close, self._channel, doubtful)
        return self.lost.again()

    def _room(self, head: Mapping[str, Any]) -> int:
        """The bytes that may follow an answer's object. Raises FramingError if no request has the answer's number."""
        number = answers.number(Message(head, b""))
        with self._lock:
            asked = self._waiting.get(number) or self._late.get(number)
        if asked is None:
            raise FramingError(f"an answer to question {number} came, which the agent has not asked")
        return asked.room

    def _refused(self, error: HostUnavailable) -> HostUnavailable:
        """Drop the site helper for its answer. This error replaces that of its own end, which may have come first."""
        with self._lock:
            self.lost = error
        return self.drop(error)

    def _send(self, head: Mapping[str, object], body: bytes, seconds: float) -> tuple[Future[Message], int]:
        number = next(self._numbers)
        at = time.monotonic() - self._begun
        raw = encode({**head, "n": number, "at": at, "seconds": seconds}, body)
        waiting: Future[Message] = Future()
        room = answers.room(head)
        with self._lock:
            if self.lost is not None:
                raise self.lost.again()
            assert self._channel is not None  # noqa: S101 - nothing is sent before it is open
            self._waiting[number] = _Asked(waiting, room)
            channel = self._channel
        self._loop.call(channel.write, raw)
        return waiting, number


def _close(channel: Channel, doubtful: bool) -> None:  # noqa: FBT001 - called by the loop, which passes no names
    channel.close(doubtful=doubtful)
