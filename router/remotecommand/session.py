"""Joins a client's streams to a command in a container: bytes both ways, terminal sizes, the status at the end.

Shell (asyncio). ``router.host.inside`` runs the command on the node, and defines the frames. Its bytes come from a
machine of the site: they are bounded, and mean nothing but output and an exit code.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from router.host import inside, sentences
from router.host.inside import FRAME
from router.remotecommand import requests
from router.remotecommand.requests import Stream, Wanted
from router.remotecommand.streams import HIGH, Client

T = TypeVar("T")

START_SECONDS: Final = 60.0
"""In which the command starts: a batch system may take its time."""
IDLE_SECONDS: Final = 4 * 3600.0
"""After so long without a byte a session ends, as a kubelet's does by default."""
LOOK_SECONDS: Final = 1.0
"""Between two looks whether the container still runs."""
LAST_WORDS_SECONDS: Final = 0.3
"""In which a launcher's error message arrives, after the end of its output."""
END_SECONDS: Final = 5.0
"""In which the node tells how a command ended whose container has ended."""
_ENDS: Final = "the agent of this site ends or begins anew, and has cut this session; run the command again"
_CHATTER: Final = 1 << 16
_STREAMS: Final = {inside.STDOUT: Stream.STDOUT, inside.STDERR: Stream.STDERR}


class Cut(Exception):
    """The command could not be started or followed; the text is one clause."""


class FarSide:
    """The program on the node that runs the command."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        writer.transport.set_write_buffer_limits(high=HIGH)

    async def send(self, kind: bytes, body: bytes = b"") -> None:
        """Send a frame. Raises Cut."""
        try:
            self._writer.write(FRAME.pack(kind, len(body)) + body)
            await self._writer.drain()
        except OSError:
            raise Cut("the connection to the node has ended") from None

    async def begin(self, request: dict[str, Any]) -> None:
        """Send the request, and skip what a launcher prints before the program's mark. Raises Cut."""
        await self.send(inside.REQUEST, json.dumps(request).encode())
        skipped = b""
        while inside.MAGIC not in skipped:
            if len(skipped) > _CHATTER or not (more := await self._reader.read(1)):
                raise Cut("its node could not be reached")
            skipped += more

    async def receive(self) -> tuple[bytes, bytes]:
        """The next frame. Raises Cut."""
        try:
            kind, length = FRAME.unpack(await self._reader.readexactly(FRAME.size))
            if length > inside.MOST_FRAME:
                raise Cut("the connection to the node carries something else")
            return kind, await self._reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            raise Cut("the connection to the node has ended") from None


def request(wanted: Wanted, log: str, *, contained: bool) -> dict[str, Any]:
    """What the program on the node is asked for.

    :param log: the path of the log to which the container writes, by which it is found
    :param contained: whether a container runtime started it
    """
    return {
        "log": log,
        "inside": contained,
        "stdin": wanted.stdin,
        "terminal": wanted.terminal,
        "argv": list(wanted.words),
    }


async def converse(
    client: Client, far: FarSide, asked: dict[str, Any], runs: Callable[[], bool], complaint: Callable[[], str]
) -> str:
    """Run a command for a client until it ends, its container ends, or the client leaves. Returns how, as one clause.

    :param runs: whether the container still runs
    :param complaint: what the batch system's launcher has said
    :raises ConnectionError: the client has left
    """
    try:
        async with asyncio.timeout(START_SECONDS):
            await while_there(client, far.begin(asked))
        status, words = await while_there(client, _carried(client, far, runs))
    except TimeoutError:
        status, words = _failed(f"it could not be started within {START_SECONDS:g} seconds", complaint())
    except Cut as cut:
        await asyncio.sleep(LAST_WORDS_SECONDS)
        status, words = _failed(str(cut), complaint())
    await client.finish(status)
    return words


def _failed(words: str, complaint: str) -> tuple[bytes, str]:
    said = sentences.on_the_way(complaint)
    text = f"{words} ({said})" if said else words
    return requests.failed(f"error executing command in container: {text}"), text


async def while_there(client: Client, work: Coroutine[Any, Any, T]) -> T:
    """The result of work that ends with the client. Raises ConnectionError if the client leaves before it."""
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(client.gone())
    try:
        await asyncio.wait([working, gone], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ConnectionResetError("the client is gone")
        return working.result()
    finally:
        await _end(working, gone)


async def until(ending: asyncio.Event, client: Client, work: Coroutine[Any, Any, object]) -> None:
    """Do work that the end of the agent cuts, and then say so: to kubectl, a connection that only ends is a success.

    Raises ConnectionError if the client leaves.
    """
    working, cut = asyncio.ensure_future(work), asyncio.ensure_future(ending.wait())
    try:
        await asyncio.wait([working, cut], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            return
    finally:
        await _end(working, cut)
    await client.finish(requests.failed(_ENDS))


async def _carried(client: Client, far: FarSide, runs: Callable[[], bool]) -> tuple[bytes, str]:
    """Carry bytes until the command has ended: the status, and how it ended."""
    moved = asyncio.Event()
    beside = [
        asyncio.ensure_future(_stdin(client, far, moved)),
        asyncio.ensure_future(_sizes(client, far)),
    ]
    output = asyncio.ensure_future(_output(client, far, moved))
    watch = asyncio.ensure_future(_watch(runs, moved))
    try:
        await asyncio.wait([output, watch], return_when=asyncio.FIRST_COMPLETED)
        if not output.done():  # its last bytes and its exit code may be on the way
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(output), END_SECONDS)
        return output.result() if output.done() else _failed(watch.result(), "")
    finally:
        await _end(*beside, output, watch)


async def _end(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _stdin(client: Client, far: FarSide, moved: asyncio.Event) -> None:
    with contextlib.suppress(Cut, ConnectionError):  # whoever reads the output is told
        while content := await client.read():
            moved.set()
            await far.send(inside.STDIN, content)
        await far.send(inside.CLOSED)


async def _sizes(client: Client, far: FarSide) -> None:
    with contextlib.suppress(Cut, ConnectionError):
        while True:
            await far.send(inside.SIZE, json.dumps(await client.size()).encode())


async def _output(client: Client, far: FarSide, moved: asyncio.Event) -> tuple[bytes, str]:
    while True:
        kind, body = await far.receive()
        moved.set()
        if kind in _STREAMS:
            await client.write(_STREAMS[kind], body)
        elif kind == inside.EXIT:
            return _outcome(body)


def _outcome(body: bytes) -> tuple[bytes, str]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    code = found.get("code") if isinstance(found, dict) else None
    if isinstance(code, int) and not isinstance(code, bool) and 0 <= code < 1 << 8:
        return requests.ended(code), f"exit code {code}"
    words = found.get("error") if isinstance(found, dict) else None
    return _failed(words[:500] if isinstance(words, str) else "its end is not understood", "")


async def _watch(runs: Callable[[], bool], moved: asyncio.Event) -> str:
    """Why a session must end that would go on: its container has ended, or nobody uses it."""
    loop = asyncio.get_running_loop()
    last = loop.time()
    while runs():
        await asyncio.sleep(LOOK_SECONDS)
        if moved.is_set():
            moved.clear()
            last = loop.time()
        elif loop.time() - last > IDLE_SECONDS:
            return "nothing was sent or printed for hours"
    return "the container has ended"
