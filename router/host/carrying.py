"""A command that a site helper has become, joined to a socket: bytes without an end, over ssh or through sudo.

Shell (asyncio, a socket). Both directions hold their sender back while the other side does not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from router.host import HostUnavailable, answers, sentences
from router.host.eventloop import EventLoop
from router.host.framing import MOST_ANSWER_HEAD, FramingError, Message, encode
from router.host.link import Opener
from router.host.sentences import HelperPlace
from router.host.sitehelper import LENGTHS, MAGIC

_BLOCK: Final = 1 << 15
_COMPLAINT: Final = 4096
_ENDING: Final = 5.0
_START: Final = 60.0
_LAST_WORDS: Final = 1.0
_CHATTER: Final = 1 << 16


class Reading(Protocol):
    """A stream of bytes, as asyncio and asyncssh have them."""

    async def read(self, n: int = ..., /) -> bytes:
        """Some bytes; none at the end."""

    async def readexactly(self, n: int, /) -> bytes:
        """So many bytes. Raises asyncio.IncompleteReadError."""


class Writing(Protocol):
    """Its other direction."""

    def write(self, data: bytes, /) -> None:
        """Send bytes."""

    async def drain(self) -> None:
        """Wait until there is room."""


@dataclass(frozen=True, slots=True)
class Carrier:
    """A running site helper whose streams are read and written here. ``close`` ends it and waits for that."""

    reader: Reading
    writer: Writing
    errors: Reading
    close: Callable[[], Awaitable[None]]


class Way(Opener, Protocol):
    """Starts one user's site helper, for requests or for bytes without an end."""

    async def carrier(self) -> Carrier:
        """Start the site helper, whose streams are then read and written by the caller. Raises HostUnavailable."""


class RemotePiped:
    """See ``router.host.Piped``.

    :param opened: starts a site helper
    """

    def __init__(
        self,
        loop: EventLoop,
        place: HelperPlace,
        opened: Callable[[], Awaitable[Carrier]],
        root: str,
        argv: Sequence[str],
    ) -> None:
        self._loop = loop
        self._place = place
        self._complaint = b""
        self._over = threading.Event()
        self.end, self._ours = socket.socketpair()
        self._ours.setblocking(False)  # noqa: FBT003 - the socket's own signature
        self._task: asyncio.Task[None] | None = None
        try:
            loop.run(self._begin(opened, root, argv), _START)
        except TimeoutError:
            raise sentences.silent(place, _START, alive=False) from None
        finally:
            if self._task is None:
                self.end.close()
                self._ours.close()

    def complaint(self) -> str:
        """See ``Piped``."""
        return self._complaint.decode(errors="replace")

    def close(self) -> None:
        """See ``Piped``."""
        self.end.close()
        if not self._over.wait(_ENDING) and self._task is not None:
            self._loop.call(self._task.cancel)
            self._over.wait(_ENDING)

    async def _begin(self, opened: Callable[[], Awaitable[Carrier]], root: str, argv: Sequence[str]) -> None:
        carrier = await opened()
        try:
            await self._become(carrier, root, argv)
        except (OSError, EOFError, asyncio.IncompleteReadError, FramingError) as error:
            said = await _rest(carrier.errors)
            await carrier.close()
            if isinstance(error, HostUnavailable):
                raise
            raise sentences.ended(self._place, None, said or str(error)) from None
        except asyncio.CancelledError:
            await carrier.close()
            raise
        self._task = asyncio.get_running_loop().create_task(self._carry(carrier))

    async def _become(self, carrier: Carrier, root: str, argv: Sequence[str]) -> None:
        """Greet the site helper, and let it become the command. Raises HostUnavailable, among others."""
        await _skip_to_mark(carrier.reader)
        greeting = await _asked(
            carrier, {"n": 0, "do": "hello", "root": root, "make": True, "at": 0, "seconds": _START}
        )
        if not answers.speaks(greeting):
            raise sentences.other_version(
                self._place, answers.shown(greeting.head.get("version")), answers.served(greeting)
            )
        if (failure := answers.failure(greeting)) is not None:
            raise sentences.no_root(self._place, failure.number, failure.words)
        answer = await _asked(carrier, {"n": 1, "do": "become", "argv": list(argv), "at": 0, "seconds": _START})
        if (failure := answers.failure(answer)) is not None:
            raise sentences.no_entering(self._place, _program(argv), failure.words)

    async def _carry(self, carrier: Carrier) -> None:
        """Carry bytes until either end is closed, then end the command."""
        tasks = [
            asyncio.ensure_future(work)
            for work in (self._outwards(carrier), self._inwards(carrier), self._complain(carrier))
        ]
        try:
            await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(tasks[2:], timeout=_LAST_WORDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._ours.close()
            try:
                await carrier.close()
            finally:
                self._over.set()

    async def _outwards(self, carrier: Carrier) -> None:
        with contextlib.suppress(OSError):
            while content := await asyncio.get_running_loop().sock_recv(self._ours, _BLOCK):
                carrier.writer.write(content)
                await carrier.writer.drain()

    async def _inwards(self, carrier: Carrier) -> None:
        with contextlib.suppress(OSError):
            while content := await carrier.reader.read(_BLOCK):
                await asyncio.get_running_loop().sock_sendall(self._ours, content)

    async def _complain(self, carrier: Carrier) -> None:
        while content := await carrier.errors.read(_COMPLAINT):
            self._complaint = (self._complaint + content)[-_COMPLAINT:]


def _program(argv: Sequence[str]) -> str:
    """The program of a command: what follows ``env -i`` and its variables."""
    return next((word for word in argv if word not in {"env", "-i"} and "=" not in word), "")


async def _skip_to_mark(reader: Reading) -> None:
    """Skip what a login shell prints before the site helper's mark. Raises FramingError, EOFError."""
    skipped = b""
    while not skipped.endswith(MAGIC):
        if len(skipped) > _CHATTER:
            raise FramingError(f"no site helper answers; what came begins with {skipped[:80]!r}")
        if not (more := await reader.read(1)):
            raise EOFError
        skipped += more


async def _asked(carrier: Carrier, head: Mapping[str, object]) -> Message:
    """The answer to a request, and not a byte more. Raises FramingError, IncompleteReadError."""
    carrier.writer.write(encode(head))
    await carrier.writer.drain()
    length, body = LENGTHS.unpack(await carrier.reader.readexactly(LENGTHS.size))
    if length > MOST_ANSWER_HEAD or body:
        raise FramingError(f"a message of {length + body} bytes is announced, which is too long")
    try:
        found = json.loads(await carrier.reader.readexactly(length))
    except (ValueError, RecursionError):
        raise FramingError("an answer is no JSON") from None
    if not isinstance(found, dict):
        raise FramingError("an answer is no JSON object")
    return Message(found, b"")


async def _rest(errors: Reading) -> str:
    """What a site helper that ends has said."""
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(_LAST_WORDS):
            return (await errors.read(_COMPLAINT)).decode(errors="replace")
    return ""
