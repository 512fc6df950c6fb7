"""The site helper as a process of this machine: as another user by sudo, or as the agent's own user.

Shell (processes).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from asyncio.subprocess import Process, SubprocessStreamProtocol
from collections.abc import Sequence
from typing import Final

from router.host import HostUnavailable, sentences
from router.host.carrying import Carrier
from router.host.link import Channel, Listener
from router.host.sentences import HelperPlace

_STDERR: Final = 2
_ENDING: Final = 3.0
"""Seconds in which a site helper may end after its stdin was closed, before it is killed."""
_LAST: Final = 1.0
"""The same when the loop itself ends, which waits for it. Then as long again for the killed one to be gone."""


def sudo_argv(user: str, helper: str) -> tuple[str, ...]:
    """The command that starts a user's site helper, without a password prompt and without a shell."""
    return ("sudo", "-n", "-u", user, "--", helper)


class LocalOpener:
    """See ``router.host.link.Opener``.

    :param argv: the command whose stdin and stdout are the site helper's
    """

    def __init__(self, argv: Sequence[str], place: HelperPlace) -> None:
        self.place = place
        self._argv = tuple(argv)

    async def open(self, listener: Listener) -> Channel:
        """See ``router.host.link.Opener``."""
        loop = asyncio.get_running_loop()
        try:
            _, conversation = await loop.subprocess_exec(
                lambda: _Conversation(listener), *self._argv, start_new_session=True
            )
        except OSError as error:
            missing = f"{self._argv[0]}: command not found" if isinstance(error, FileNotFoundError) else str(error)
            raise _unstarted(self.place, missing) from None
        conversation.lasting = loop.create_task(conversation.last())
        return conversation

    async def carrier(self) -> Carrier:
        """See ``router.host.link.Opener``."""
        loop = asyncio.get_running_loop()
        try:
            transport, streams = await loop.subprocess_exec(
                lambda: SubprocessStreamProtocol(limit=1 << 16, loop=loop), *self._argv, start_new_session=True
            )
        except OSError as error:
            missing = f"{self._argv[0]}: command not found" if isinstance(error, FileNotFoundError) else str(error)
            raise _unstarted(self.place, missing) from None
        return _carrier(transport, streams)


def _carrier(transport: asyncio.SubprocessTransport, streams: SubprocessStreamProtocol) -> Carrier:
    process = Process(transport, streams, asyncio.get_running_loop())
    writer, reader, errors = process.stdin, process.stdout, process.stderr
    if writer is None or reader is None or errors is None:
        raise TypeError("the process has no pipes")

    async def close() -> None:
        """It ends with its stdin; sudo, which runs as root, only gets TERM."""
        if not writer.is_closing():
            writer.transport.abort()
        for end in (transport.terminate, transport.close):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _ENDING)
            if process.returncode is not None:
                break
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end()
        with contextlib.suppress(PermissionError):
            transport.close()

    return Carrier(reader, writer, errors, close)


def _unstarted(place: HelperPlace, words: str) -> HostUnavailable:
    return sentences.ended(place, 126 if "not found" not in words else None, words)


class _Conversation(asyncio.SubprocessProtocol):
    """One process, and the Channel to it.

    :ivar lasting: the task of ``last``, kept here because a loop keeps none
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._transport: asyncio.SubprocessTransport | None = None
        self._over = asyncio.Event()
        self._ended_by_us = False
        self.lasting: asyncio.Task[None] | None = None

    async def last(self) -> None:
        """Wait for the process' end. When the loop ends before it, this ends the process, so that none is left."""
        try:
            await self._over.wait()
        except asyncio.CancelledError:
            self.close(doubtful=False)
            await self._wait(_LAST)
            self._end()
            await self._wait(_LAST)
            raise

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        if isinstance(transport, asyncio.SubprocessTransport):
            self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        """Called by the loop."""
        raw = data if isinstance(data, bytes) else data.encode()
        if fd == _STDERR:
            self._listener.complained(raw)
        else:
            self._listener.received(raw)

    def connection_lost(self, _error: Exception | None) -> None:
        """Called by the loop when the process has ended and its pipes are closed."""
        code = None
        if self._transport is not None:
            code = self._transport.get_returncode()
            self._transport.close()
            self._transport = None
        self._over.set()
        # Of a process that is ended here, asyncio may miss the code, and then says 255.
        told = code is not None and code >= 0 and not self._ended_by_us
        self._listener.ended(code if told else None)

    def write(self, data: bytes) -> None:
        """See ``router.host.link.Channel``."""
        stdin = self._transport.get_pipe_transport(0) if self._transport is not None else None
        if isinstance(stdin, asyncio.WriteTransport) and not stdin.is_closing():
            stdin.write(data)

    def close(self, *, doubtful: bool) -> None:
        """See ``router.host.link.Channel``. A site helper ends with its stdin; a doubtful one is ended at once.

        All further output is discarded.
        """
        transport = self._transport
        if transport is None:
            return
        for fd in (1, _STDERR):
            if (pipe := transport.get_pipe_transport(fd)) is not None:
                pipe.close()
        stdin = transport.get_pipe_transport(0)
        if isinstance(stdin, asyncio.WriteTransport) and not stdin.is_closing():  # a lost one has no loop any more
            stdin.abort()
        if doubtful:
            self._end()
        else:
            asyncio.get_running_loop().call_later(_ENDING, self._end)

    def _end(self) -> None:
        """Close all pipes and kill the process; sudo, which runs as root, only gets TERM."""
        if self._transport is not None and self._transport.get_returncode() is None:
            self._ended_by_us = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                self._transport.send_signal(signal.SIGTERM)
            with contextlib.suppress(PermissionError):
                self._transport.close()
