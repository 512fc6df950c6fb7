"""A client's streams and a program on a node, joined: whatever either side does, the other is told or ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from router.host import inside
from router.host.inside import FRAME, MAGIC
from router.remotecommand import session
from router.remotecommand.requests import Stream, Wanted
from router.remotecommand.session import FarSide

ASKED = session.request(Wanted(("sh",), True, True, True, False), "/log", contained=True)
Node = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Client:
    """What was sent to it. ``stdin`` is what it sends itself."""

    def __init__(self, stdin: tuple[bytes, ...] = (b"",), *, leaves: bool = False) -> None:
        self.stdin = list(stdin)
        self.sent: list[tuple[Stream, bytes]] = []
        self.status: dict[str, object] = {}
        self._gone = asyncio.Event()
        if leaves:
            self._gone.set()

    async def read(self) -> bytes:
        return self.stdin.pop(0) if self.stdin else await asyncio.sleep(3600, b"")

    async def size(self) -> tuple[int, int]:
        return await asyncio.sleep(3600, (0, 0))

    async def write(self, stream: Stream, content: bytes) -> None:
        self.sent.append((stream, content))

    async def finish(self, status: bytes) -> None:
        self.status = json.loads(status)

    async def gone(self) -> None:
        await self._gone.wait()


@contextlib.asynccontextmanager
async def far(node: Node) -> AsyncIterator[FarSide]:
    """The way to a program that does this."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=theirs)

    async def run() -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await node(reader, writer)
        writer.transport.abort()

    running = asyncio.create_task(run())
    our_reader, our_writer = await asyncio.open_connection(sock=ours)
    try:
        yield FarSide(our_reader, our_writer)
    finally:
        our_writer.transport.abort()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        writer.transport.abort()
        await asyncio.sleep(0)


def frame(kind: bytes, body: bytes = b"") -> bytes:
    return FRAME.pack(kind, len(body)) + body


async def received(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind, length = FRAME.unpack(await reader.readexactly(FRAME.size))
    return kind, await reader.readexactly(length)


def prints(*parts: bytes) -> Node:
    """A program that ends when it has printed this; its end is read after all of it."""

    async def node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await received(reader)
        for part in parts:
            writer.write(part)
        await writer.drain()
        writer.write_eof()
        await reader.read()

    return node


def conversed(node: Node, client: Client, *, runs: bool = True, complaint: str = "") -> str:
    async def converse() -> str:
        async with far(node) as side:
            return await session.converse(client, side, ASKED, lambda: runs, lambda: complaint)

    return asyncio.run(converse())


def exit_frame(**told: object) -> bytes:
    return frame(inside.EXIT, json.dumps(told).encode())


@pytest.mark.parametrize(
    ("parts", "sent", "words"),
    [
        ([MAGIC, exit_frame(code=0)], [], "exit code 0"),
        (
            [b"srun: chatter\n", MAGIC, frame(b"s"), frame(b"o", b"out"), frame(b"e", b"err"), exit_frame(code=3)],
            [(Stream.STDOUT, b"out"), (Stream.STDERR, b"err")],
            "exit code 3",
        ),
        ([MAGIC, frame(b"?", b"from a later release"), exit_frame(code=0)], [], "exit code 0"),
        ([MAGIC, exit_frame(error="no such thing")], [], "no such thing"),
        ([MAGIC, exit_frame(code=True)], [], "its end is not understood"),
        ([MAGIC, exit_frame(code=-1)], [], "its end is not understood"),
        ([MAGIC, exit_frame(code=256)], [], "its end is not understood"),
        ([MAGIC, frame(inside.EXIT, b"[")], [], "its end is not understood"),
        ([MAGIC, frame(inside.EXIT, b"[" * 60_000)], [], "its end is not understood"),
        ([MAGIC, frame(inside.EXIT, b"[]")], [], "its end is not understood"),
        ([MAGIC, FRAME.pack(b"o", inside.MOST_FRAME + 1)], [], "the connection to the node carries something else"),
        ([MAGIC, b"half"], [], "the connection to the node has ended"),
        ([b"srun: error: no"], [], "its node could not be reached"),
        ([b"x" * 70_000], [], "its node could not be reached"),
    ],
)
def test_what_a_node_may_send(parts: list[bytes], sent: list[tuple[Stream, bytes]], words: str) -> None:
    client = Client()

    assert (conversed(prints(*parts), client), client.sent) == (words, sent)
    assert client.status["status"] == ("Success" if words == "exit code 0" else "Failure")


def test_what_a_launcher_says_is_told() -> None:
    client = Client()
    conversed(prints(b""), client, complaint="\nsrun: error: Invalid job id specified\n")

    assert client.status["message"] == (
        "Internal error occurred: error executing command in container: its node could not be reached "
        "(srun: error: Invalid job id specified)"
    )


def test_stdin_goes_through_to_its_end() -> None:
    got = []

    async def node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(json.loads((await received(reader))[1]))
        writer.write(MAGIC)
        got.extend([await received(reader) for _ in range(3)])
        writer.write(exit_frame(code=0))
        await asyncio.sleep(1)

    assert conversed(node, Client((b"a", b"b", b""))) == "exit code 0"
    assert got == [ASKED, (inside.STDIN, b"a"), (inside.STDIN, b"b"), (inside.CLOSED, b"")]


def test_a_container_that_has_ended_ends_the_session() -> None:
    client = Client()

    async def node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(MAGIC)
        await asyncio.sleep(60)

    assert conversed(node, client, runs=False) == "the container has ended"
    assert client.status["reason"] == "InternalError"


def test_a_client_that_leaves_ends_the_session() -> None:
    with pytest.raises(ConnectionError):
        conversed(prints(MAGIC), Client(leaves=True))


def test_a_program_that_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "START_SECONDS", 0.1)

    async def node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    assert conversed(node, Client()) == "it could not be started within 0.1 seconds"
