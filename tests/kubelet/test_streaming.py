"""Streams of logs from real files, without a server."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from pathlib import Path, PurePath
from typing import Any

import pytest

from router.errors import RequestError, Unavailable
from router.host import MOST_READ, Status
from router.kubelet import streaming
from router.kubelet.indexes import Indexes, Run
from router.kubelet.query import LogQuery
from router.kubelet.runs import LoggedContainer, LoggedPod, RunState
from router.kubelet.streaming import Cut, Pace, Streams, Wanted
from tests.kubelet.site import QUICK, Site

FOLLOW = LogQuery(follow=True)
LINES = b"".join(b"line %d\n" % number for number in range(1, 101))


class Trouble:
    """The files of a site that can be told to fail, as a file server does."""

    def __init__(self, site: Site) -> None:
        self.host = site.host
        self.error: Exception | None = None
        self.reads = 0

    def status(self, path: PurePath | str) -> Status | None:
        return self.host.status(path)

    def read(self, path: PurePath | str, offset: int = 0, limit: int = MOST_READ) -> bytes:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return self.host.read(path, offset, limit)

    def put(self, path: PurePath | str, content: bytes) -> None:
        self.host.put(path, content)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    root = tmp_path / "site"
    root.mkdir(mode=0o700)
    return Site(root)


@pytest.fixture
def workers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


async def soon(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - what is waited for happens in threads and files
            await asyncio.sleep(0.01)


class Reader:
    """A client: gathers what comes."""

    def __init__(self) -> None:
        self.got = b""
        self.task: asyncio.Task[None] | None = None

    async def has(self, what: bytes) -> None:
        await soon(lambda: what in self.got)

    async def end(self) -> bytes:
        assert self.task is not None
        await asyncio.wait_for(self.task, 60)
        return self.got


@asynccontextmanager
async def reading(streams: Streams, wanted: Wanted) -> AsyncIterator[Reader]:
    reader = Reader()
    opened = await streams.open(wanted)

    async def read() -> None:
        async with aclosing(streams.bytes_of(opened)) as chunks:
            async for chunk in chunks:
                reader.got += chunk

    reader.task = asyncio.create_task(read())
    try:
        yield reader
    finally:
        reader.task.cancel()


def wanted_of(site: Site, pod: LoggedPod, query: LogQuery, files: Any = None) -> Wanted:
    return Wanted(pod, Run(files or site.host, pod.directory, "main", 0), query)


def streams_of(site: Site, workers: ThreadPoolExecutor, pace: Pace = QUICK, indexes: Indexes | None = None) -> Streams:
    return Streams(site, indexes or Indexes(), workers, pace)


def whole(
    site: Site, workers: ThreadPoolExecutor, pod: LoggedPod, query: LogQuery, indexes: Indexes | None = None
) -> bytes:
    """All that a stream sends until it ends by itself."""

    async def read() -> bytes:
        async with reading(streams_of(site, workers, indexes=indexes), wanted_of(site, pod, query)) as reader:
            return await reader.end()

    return asyncio.run(read())


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (LogQuery(), LINES),
        (FOLLOW, LINES),
        (LogQuery(tail=0), b""),
        (LogQuery(tail=2), b"line 99\nline 100\n"),
        (LogQuery(tail=2, follow=True), b"line 99\nline 100\n"),
        (LogQuery(tail=1000), LINES),
        (LogQuery(limit=10), b"line 1\nlin"),
        (LogQuery(tail=1, limit=3), b"lin"),
    ],
)
def test_a_finished_log_is_sent_as_far_as_it_is_wanted(
    site: Site, workers: ThreadPoolExecutor, query: LogQuery, expected: bytes
) -> None:
    pod = site.ended(content=LINES)

    assert whole(site, workers, pod, query) == expected


def test_a_log_of_many_blocks_is_sent_whole(site: Site, workers: ThreadPoolExecutor) -> None:
    content = os.urandom(3 * streaming.BLOCK + 17)
    pod = site.ended(content=content)

    assert whole(site, workers, pod, LogQuery()) == content
    exact = site.ended("exact", content[: 2 * streaming.BLOCK])
    assert whole(site, workers, exact, LogQuery()) == content[: 2 * streaming.BLOCK]


def seen_growing(site: Site, indexes: Indexes, pod: LoggedPod, steps: list[tuple[int, bytes]]) -> None:
    """The log grows at these seconds since 1970, and the agent looks each time."""
    run = Run(site.host, pod.directory, "main", 0)
    for second, content in steps:
        site.append(pod, content)
        os.utime(run.log, (second, second))
        indexes.look(run)


T0 = 1_700_000_000
STEPS = [(T0, b"one\ntw"), (T0 + 10, b"o\nthree\n"), (T0 + 20, b"four\n")]
AT = [b"2023-11-14T22:13:20.000000000Z ", b"2023-11-14T22:13:30.000000000Z ", b"2023-11-14T22:13:40.000000000Z "]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            LogQuery(timestamps=True),
            AT[0] + b"one\n" + AT[0] + b"two\n" + AT[1] + b"three\n" + AT[2] + b"four\n",
        ),
        (LogQuery(since=T0 * 1000), b"one\ntwo\nthree\nfour\n"),
        (LogQuery(since=(T0 + 1) * 1000), b"three\nfour\n"),
        (LogQuery(since=(T0 + 10) * 1000), b"three\nfour\n"),
        (LogQuery(since=(T0 + 11) * 1000), b"four\n"),
        (LogQuery(since=(T0 + 20) * 1000), b"four\n"),
        (LogQuery(since=(T0 + 21) * 1000), b""),
        (LogQuery(since=(T0 + 1) * 1000, tail=1), b"four\n"),
        (LogQuery(since=(T0 + 11) * 1000, tail=3), b"four\n"),
        (LogQuery(since=(T0 + 11) * 1000, timestamps=True), AT[2] + b"four\n"),
        (LogQuery(tail=1, timestamps=True, limit=33), AT[2] + b"fo"),
    ],
)
def test_times_are_those_of_the_index(
    site: Site, workers: ThreadPoolExecutor, query: LogQuery, expected: bytes
) -> None:
    pod, indexes = site.running(), Indexes()
    seen_growing(site, indexes, pod, STEPS)
    site.end(pod)

    assert whole(site, workers, pod, query, indexes) == expected


def test_a_log_that_nobody_looked_at_has_the_time_of_its_last_line(site: Site, workers: ThreadPoolExecutor) -> None:
    pod = site.ended(content=b"one\ntwo\n")
    os.utime(pod.directory.log("main"), (T0, T0))

    assert whole(site, workers, pod, LogQuery(timestamps=True)) == AT[0] + b"one\n" + AT[0] + b"two\n"
    assert whole(site, workers, pod, LogQuery(since=T0 * 1000)) == b"one\ntwo\n"
    assert whole(site, workers, pod, LogQuery(since=(T0 + 1) * 1000)) == b""


def test_a_follower_gets_what_comes_until_the_container_ends(site: Site, workers: ThreadPoolExecutor) -> None:
    async def read() -> None:
        pod = site.running(content=b"early\n")
        async with reading(streams_of(site, workers), wanted_of(site, pod, FOLLOW)) as reader:
            await reader.has(b"early\n")
            site.append(pod, b"no end yet")
            await reader.has(b"no end yet")
            site.append(pod, b", now\nlast")
            site.end(pod)

            assert await reader.end() == b"early\nno end yet, now\nlast"

    asyncio.run(read())


def test_a_follower_of_a_log_that_is_not_there_yet_waits_for_it(site: Site, workers: ThreadPoolExecutor) -> None:
    async def read() -> None:
        pod = site.add(LoggedContainer("main", RunState.RUNNING, 0))
        query = LogQuery(follow=True, tail=5, timestamps=True)
        async with reading(streams_of(site, workers), wanted_of(site, pod, query)) as reader:
            assert await streams_of(site, workers).open(wanted_of(site, pod, LogQuery()))
            site.append(pod, b"first\n")
            await reader.has(b"Z first\n")

    asyncio.run(read())


def test_a_line_that_comes_while_it_is_followed_has_the_time_of_now(site: Site, workers: ThreadPoolExecutor) -> None:
    async def read() -> None:
        pod, indexes = site.running(), Indexes()
        seen_growing(site, indexes, pod, STEPS)
        query = LogQuery(follow=True, timestamps=True, tail=1)
        async with reading(streams_of(site, workers, indexes=indexes), wanted_of(site, pod, query)) as reader:
            await reader.has(AT[2] + b"four\n")
            before = time.time()
            site.append(pod, b"five\n")
            await reader.has(b"five\n")
            after = time.time()

        marks = indexes.marks(Run(site.host, pod.directory, "main", 0))
        assert int(before * 1000) <= marks[-1].time <= int(after * 1000)
        assert marks[-1].offset == 24
        line = reader.got.splitlines()[-1].decode()
        assert line == f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(marks[-1].time / 1000))}" + line[19:]

    asyncio.run(read())


@pytest.mark.parametrize("change", ["ended", "restarted", "waiting", "gone", "another"])
def test_a_follower_ends_with_the_run_that_it_follows(site: Site, workers: ThreadPoolExecutor, change: str) -> None:
    async def read() -> None:
        pod = site.running(content=b"early\n")
        async with reading(streams_of(site, workers), wanted_of(site, pod, FOLLOW)) as reader:
            await reader.has(b"early\n")
            site.append(pod, b"last words")
            if change == "ended":
                site.end(pod)
            elif change == "restarted":
                site.change(pod, LoggedContainer("main", RunState.RUNNING, 1))
            elif change == "waiting":
                site.change(pod, LoggedContainer("main", RunState.WAITING, 0, "CrashLoopBackOff"))
            elif change == "gone":
                del site.known["ada", "pod"]
            else:
                site.known["ada", "pod"] = LoggedPod("ada", "pod", "new", pod.node, pod.directory, pod.containers)

            assert await reader.end() == b"early\nlast words"

    asyncio.run(read())


def test_what_a_network_file_system_hides_of_a_log_that_has_ended_is_waited_for(
    site: Site, workers: ThreadPoolExecutor
) -> None:
    """What the container wrote last may show up only after its end. Its script has said how much it was."""

    async def read() -> None:
        pod = site.ended(content=b"early\n", size=10)
        pace = Pace(poll_seconds=0.02, delay_seconds=3600)
        async with reading(streams_of(site, workers, pace), wanted_of(site, pod, FOLLOW)) as reader:
            await reader.has(b"early\n")
            site.append(pod, b"la")
            await reader.has(b"early\nla")
            site.append(pod, b"te")

            assert await reader.end() == b"early\nlate"

    asyncio.run(read())


def test_what_somebody_has_taken_out_of_a_log_is_not_waited_for_for_ever(
    site: Site, workers: ThreadPoolExecutor
) -> None:
    async def read() -> None:
        pod = site.ended(content=b"cut\n", size=1000)
        pace = Pace(poll_seconds=0.02, delay_seconds=0.5)
        begun = time.monotonic()
        async with reading(streams_of(site, workers, pace), wanted_of(site, pod, FOLLOW)) as reader:
            assert await reader.end() == b"cut\n"
        assert time.monotonic() - begun >= 0.5

    asyncio.run(read())


def test_a_log_that_is_read_once_is_not_waited_for(site: Site, workers: ThreadPoolExecutor) -> None:
    async def read() -> None:
        pod = site.ended(content=b"all\n", size=1000)
        streams = streams_of(site, workers, Pace(poll_seconds=3600, delay_seconds=3600))
        async with reading(streams, wanted_of(site, pod, LogQuery())) as reader:
            assert await reader.end() == b"all\n"

    asyncio.run(read())


@pytest.mark.parametrize("link", [False, True])
def test_a_log_that_is_not_there_or_is_a_link_is_refused(
    site: Site, workers: ThreadPoolExecutor, link: bool, tmp_path: Path
) -> None:
    pod = site.add(LoggedContainer("main", RunState.TERMINATED, 0))
    if link:
        (tmp_path / "secret").write_bytes(b"of somebody else")
        Path(pod.directory.log("main")).symlink_to(tmp_path / "secret")

    with pytest.raises(RequestError) as refused:
        whole(site, workers, pod, LogQuery())

    assert (refused.value.status, refused.value.text) == (
        400,
        (
            'the log of container "main" in pod "pod" (run 0) is not there: the site has removed the Pod\'s directory, '
            "or its file system does not show it yet"
        ),
    )


def test_a_log_that_becomes_a_link_is_not_followed(site: Site, workers: ThreadPoolExecutor, tmp_path: Path) -> None:
    def swap(log: Path) -> None:
        log.unlink()
        log.symlink_to(tmp_path / "secret")

    async def read() -> None:
        pod, files = site.running(content=b"early\n"), Trouble(site)
        async with reading(streams_of(site, workers), wanted_of(site, pod, FOLLOW, files)) as reader:
            await reader.has(b"early\n")
            swap(Path(pod.directory.log("main")))
            site.end(pod)
            looked = files.reads
            await soon(lambda: files.reads >= looked + 3)

            assert reader.got == b"early\n"

    (tmp_path / "secret").write_bytes(b"of somebody else" * 100)
    asyncio.run(read())


TROUBLES = [OSError(116, "Stale file handle"), Unavailable(["ssh"], 255, "connection refused")]


@pytest.mark.parametrize("error", TROUBLES)
def test_a_site_that_cannot_be_reached_is_told(site: Site, workers: ThreadPoolExecutor, error: Exception) -> None:
    async def read() -> None:
        pod, files = site.ended(content=LINES), Trouble(site)
        files.error = error
        with pytest.raises(RequestError) as refused:
            await streams_of(site, workers).open(wanted_of(site, pod, LogQuery(tail=1), files))
        assert refused.value.status == 502
        assert refused.value.text == (
            f'the log of container "main" in pod "pod" (run 0) cannot be read now, try again later: {error}'
        )

    asyncio.run(read())


@pytest.mark.parametrize("error", TROUBLES)
def test_a_follower_outlives_trouble_with_the_files(site: Site, workers: ThreadPoolExecutor, error: Exception) -> None:
    async def read() -> None:
        pod, files = site.running(content=b"before\n"), Trouble(site)
        async with reading(streams_of(site, workers), wanted_of(site, pod, FOLLOW, files)) as reader:
            await reader.has(b"before\n")
            files.error, files.reads = error, 0
            site.append(pod, b"meanwhile\n")
            site.end(pod)
            await soon(lambda: files.reads >= 3)
            files.error = None

            assert await reader.end() == b"before\nmeanwhile\n"

    asyncio.run(read())


def test_a_stream_that_cannot_go_on_is_cut(
    site: Site, workers: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "PATIENCE_SECONDS", 0.2)

    async def read(query: LogQuery) -> None:
        pod, files = site.running(content=b"before\n"), Trouble(site)
        streams = streams_of(site, workers)
        opened = await streams.open(wanted_of(site, pod, query, files))
        files.error = TROUBLES[0]
        with pytest.raises(Cut, match="cannot be read any more"):
            await anext(streams.bytes_of(opened))

    asyncio.run(read(FOLLOW))
    asyncio.run(read(LogQuery()))


def test_a_log_that_shrinks_is_no_error(site: Site, workers: ThreadPoolExecutor) -> None:
    async def read() -> None:
        pod = site.running(content=LINES)
        async with reading(streams_of(site, workers), wanted_of(site, pod, FOLLOW)) as reader:
            await reader.has(b"line 100\n")
            os.truncate(pod.directory.log("main"), 0)
            site.end(pod)

            assert await reader.end() == LINES

    asyncio.run(read())
