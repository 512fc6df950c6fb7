"""Serves `kubectl exec` and `attach`: checks the container, changes the connection's protocol, joins both ends.

Shell, in the server's thread; what blocks runs in other threads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from aiohttp import web

from router.errors import BatchError
from router.kubelet.indexes import Run
from router.kubelet.limits import Places
from router.kubelet.query import LogQuery
from router.kubelet.routes import Route, Target
from router.kubelet.runs import LoggedContainer, LoggedPod, RunState, container_of, is_written
from router.kubelet.source import Entered, LogSource
from router.kubelet.streaming import Cut, Streams
from router.kubelet.streaming import Wanted as WantedLog
from router.remotecommand import requests, session
from router.remotecommand.requests import Stream, Wanted
from router.remotecommand.streams import Client, refuse
from router.remotecommand.upgrading import Upgrade

T = TypeVar("T")

TELLING_SECONDS: Final = 2.0
"""In which clients are told that the agent ends."""


@dataclass(frozen=True, slots=True)
class Commanding:
    """Runs commands in the containers of one site, and follows their output.

    :param workers: threads that wait for the site
    """

    source: LogSource
    streams: Streams
    places: Places
    workers: Executor
    _ending: asyncio.Event = field(default_factory=asyncio.Event)
    _served: set[asyncio.Task[Any]] = field(default_factory=set)

    async def end(self) -> None:
        """Cut all sessions, and tell their clients; no further one begins."""
        self._ending.set()
        if self._served:
            await asyncio.wait(self._served, timeout=TELLING_SECONDS)

    async def serve(self, request: web.BaseRequest, asked: Route, pod: LoggedPod) -> web.StreamResponse:
        """Serve one request to its end. Raises RequestError before the connection changes its protocol."""
        self.source.allow(asked.target)
        wanted = requests.wanted(request.query.items(), command=asked.target is Target.EXEC)
        container = container_of(pod, asked.container)
        if container.state is not RunState.RUNNING or container.run is None or asked.uid not in {"", pod.uid}:
            raise refuse(f'container not found ("{asked.container}")')
        with self.places.place(pod.namespace):
            upgrade = Upgrade(request)
            serve = self._attach if asked.target is Target.ATTACH else self._exec
            self._note()
            with contextlib.suppress(ConnectionError):
                await serve(upgrade, wanted, pod, container)
        return await upgrade.left()

    def _note(self) -> None:
        """Have ``end`` wait for this request."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a request is served in one
        self._served.add(task)
        task.add_done_callback(self._served.discard)

    async def _exec(self, upgrade: Upgrade, wanted: Wanted, pod: LoggedPod, container: LoggedContainer) -> None:
        entered = await self._entered(pod, container.name, wanted.words[0])
        try:
            reader, writer = await asyncio.open_connection(sock=entered.piped.end)
            try:
                client = await upgrade.change(wanted)
                path = str(pod.directory.log(container.name, container.run or 0))
                asked = session.request(wanted, path, contained=entered.contained)
                far = session.FarSide(reader, writer)
                runs = self._runs(pod, container)
                talk = session.converse(client, far, asked, runs, entered.piped.complaint)
                await session.until(self._ending, client, talk)
            finally:
                writer.transport.abort()  # all that counts was read
        finally:
            await asyncio.shield(self._work(entered.piped.close))

    async def _attach(self, upgrade: Upgrade, wanted: Wanted, pod: LoggedPod, container: LoggedContainer) -> None:
        if wanted.stdin:
            raise refuse(
                "attach with stdin is not possible, as the program of a batch job has no stdin; "
                "kubectl attach without -i shows its output, and kubectl exec -i starts another program beside it"
            )
        run = Run(self.source.files(pod), pod.directory, container.name, container.run or 0)
        opened = await self.streams.open(WantedLog(pod, run, LogQuery(follow=True, tail=0)))
        client = await upgrade.change(wanted)
        await session.until(self._ending, client, _shown(client, self.streams.bytes_of(opened)))

    async def _entered(self, pod: LoggedPod, container: str, program: str) -> Entered:
        try:
            return await self._work(lambda: self.source.enter(pod, container, program))
        except (OSError, BatchError) as error:
            raise refuse(f"exec is not possible now, try again later; {error}") from error

    def _runs(self, pod: LoggedPod, container: LoggedContainer) -> Callable[[], bool]:
        def runs() -> bool:
            return is_written(self.source.pod(pod.namespace, pod.name), pod.uid, container.name, container.run or 0)

        return runs

    async def _work(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.workers, call)


async def _shown(client: Client, chunks: AsyncGenerator[bytes, None]) -> None:
    """Send a log until it ends, and the status. Raises ConnectionError once the client leaves."""

    async def show() -> None:
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                await client.write(Stream.STDOUT, chunk)

    try:
        await session.while_there(client, show())
    except Cut as error:
        await client.finish(requests.failed(str(error)))
    else:
        await client.finish(requests.success())
