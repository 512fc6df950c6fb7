"""Streams a log's bytes, from where the request asks, and follows it while the container runs.

Shell: an event loop, worker threads for the files, the clock. Each block opens the log again, by path and offset: a
network file system shows new bytes only to a newly opened file. So memory is independent of a log's size, and a file
server that hangs stops only the streams that wait for it.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final, ParamSpec, TypeVar

from router.errors import BatchError, RequestError
from router.kubelet import index, printing, tail
from router.kubelet.index import Times
from router.kubelet.indexes import Indexes, Run
from router.kubelet.query import LogQuery
from router.kubelet.runs import LoggedPod, is_written, least_size
from router.kubelet.source import LogSource

P = ParamSpec("P")
T = TypeVar("T")

BLOCK: Final = 32 * 1024
"""Bytes of a log per read."""

PATIENCE_SECONDS: Final = 120.0
"""How long a follower waits while the site's files cannot be read, before its stream is cut."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How followers wait.

    :param poll_seconds: between two reads at a log's end
    :param delay_seconds: how long a follower of an ended log waits while the log is shorter than its script has said:
        a network file system may hide a file's new size for this time (``fs_delay``)
    """

    poll_seconds: float = 0.5
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request for a log: the Pod, the run and the part."""

    pod: LoggedPod
    run: Run
    query: LogQuery


@dataclass(frozen=True, slots=True)
class Opened:
    """A log, and where to begin.

    :param there: whether the log existed; a running container may create it later
    :param end: the offset at which reading ends; None: at the log's end
    """

    wanted: Wanted
    there: bool
    start: int
    end: int | None
    times: Times | None
    printer: printing.Printer


class Cut(Exception):
    """The stream cannot go on. It is incomplete, and the client must notice that."""


class Streams:
    """The logs of one site.

    :param workers: threads that wait for files
    """

    def __init__(self, source: LogSource, indexes: Indexes, workers: Executor, pace: Pace) -> None:
        self._source = source
        self._indexes = indexes
        self._workers = workers
        self._pace = pace

    async def open(self, wanted: Wanted) -> Opened:
        """Find where to begin.

        :raises RequestError: 400 the log does not exist, 502 the site is unreachable
        """
        try:
            return await self._opened(wanted)
        except (OSError, BatchError) as error:
            raise RequestError(
                502, f"the log of {_name(wanted)} cannot be read now, try again later: {error}"
            ) from error

    async def bytes_of(self, opened: Opened) -> AsyncGenerator[bytes, None]:
        """The bytes to send, as they come; ends with the log.

        :raises Cut: the files cannot be read any more
        """
        follow = opened.wanted.query.follow
        position, quiet, failing = opened.start, None, None
        while True:
            ended = not follow or not self._is_written(opened.wanted)
            now = asyncio.get_running_loop().time()
            length = BLOCK if opened.end is None else min(BLOCK, opened.end - position)
            try:
                data = await self._read(opened, position, length)
                failing = None
            except (OSError, BatchError) as error:
                failing = now if failing is None else failing
                if not follow or now - failing >= PATIENCE_SECONDS:
                    raise Cut(f"the log of {_name(opened.wanted)} cannot be read any more: {error}") from error
                data = b""
            position += len(data)
            if out := self._printed(opened, data, position):
                yield out
            if opened.printer.done:
                return
            if data and len(data) == length:
                quiet = None
                continue
            if ended and failing is None:
                quiet = now if quiet is None or data else quiet
                missing = position < self._least_size(opened.wanted)
                if not follow or not missing or now - quiet >= self._pace.delay_seconds:
                    return
            await asyncio.sleep(self._pace.poll_seconds)

    async def _read(self, opened: Opened, position: int, length: int) -> bytes:
        run = opened.wanted.run
        try:
            return await self._call(run.files.read, run.log, position, length)
        except FileNotFoundError:
            if opened.there:
                raise
            return b""

    async def _call(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Call a function in a worker thread. Each block is one call, so that all streams take turns."""
        call = functools.partial(function, *arguments, **named)
        return await asyncio.get_running_loop().run_in_executor(self._workers, call)

    def _printed(self, opened: Opened, data: bytes, position: int) -> bytes:
        now = _now()
        if data and opened.times is not None:
            opened.times.seen(position, now)
        if data and len(data) < BLOCK:  # the log's end was reached
            self._indexes.saw(opened.wanted.run, position, now)
        return opened.printer.feed(data)

    def _is_written(self, wanted: Wanted) -> bool:
        pod = self._source.pod(wanted.pod.namespace, wanted.pod.name)
        return is_written(pod, wanted.pod.uid, wanted.run.container, wanted.run.number)

    def _least_size(self, wanted: Wanted) -> int:
        pod = self._source.pod(wanted.pod.namespace, wanted.pod.name)
        return least_size(pod, wanted.pod.uid, wanted.run.container, wanted.run.number)

    async def _opened(self, wanted: Wanted) -> Opened:
        run, query = wanted.run, wanted.query
        status = await self._call(run.files.status, run.log)
        if (status is None and not self._is_written(wanted)) or (status is not None and status.kind != "file"):
            raise RequestError(
                400,
                f"the log of {_name(wanted)} is not there: the site has removed the Pod's directory, "
                "or its file system does not show it yet",
            )
        size, modified = (0, _now()) if status is None else (status.size, int(status.modified * 1000))
        self._indexes.saw(run, size, modified)
        start = 0 if query.tail is None else await self._tail_start(run, size, query.tail)
        times, skip = None, False
        if query.timestamps or query.since is not None:
            marks = await self._call(self._indexes.marks, run)
            last = index.noted(marks[-1] if marks else None, size, modified, _now())
            marks = marks if last is None else (*marks, last)
            since = 0 if query.since is None else min(size, index.since(marks, query.since))
            if since > start:
                # A line is as old as its first byte. Start one byte earlier and skip to the next newline.
                start, skip = since - 1, True
            times = Times(marks) if query.timestamps else None
        printer = printing.Printer(start, times=times, limit=query.limit, skip=skip)
        end = size if query.tail is not None and not query.follow else None
        return Opened(wanted, status is not None, start, end, times, printer)

    async def _tail_start(self, run: Run, size: int, lines: int) -> int:
        conversation = tail.tail_start(size, lines, tail.BLOCK)
        try:
            offset, length = next(conversation)
            while True:
                offset, length = conversation.send(await self._call(run.files.read, run.log, offset, length))
        except StopIteration as end:
            return int(end.value)


def _name(wanted: Wanted) -> str:
    return f'container "{wanted.run.container}" in pod "{wanted.pod.name}" (run {wanted.run.number})'


def _now() -> int:
    return int(time.time() * 1000)
