"""Answers requests to the kubelet API: checks the caller first, then looks up the Pod or its figures.

Shell, in the server's thread; slow work runs in other threads. Every refusal is one sentence as plain text. The API
server passes it on for the statuses 400, 403 and 500, and writes its own text for others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import ssl
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from aiohttp import web

from router.errors import ApiError, RequestError
from router.kubelet import access, figures
from router.kubelet.commanding import Commanding
from router.kubelet.indexes import Run
from router.kubelet.limits import Places
from router.kubelet.query import log_query
from router.kubelet.reviews import Caller, Reviews
from router.kubelet.routes import STREAMED, Route, Target, route
from router.kubelet.runs import LoggedPod, container_of, run_of
from router.kubelet.server import ADMITTED
from router.kubelet.source import LogSource
from router.kubelet.streaming import Cut, Opened, Streams, Wanted

log: Final = logging.getLogger("batchgate.kubelet")

STUCK_SECONDS: Final = 4 * 3600
"""How long a client may stop reading (e.g. in a pager); a kubelet allows an idle stream as long."""

BUFFER_BYTES: Final = 16 * 1024
"""Bytes that are buffered for a client that reads slowly."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answers:
    """The handler of the server.

    :param workers: threads that wait for the API server and the agent
    """

    source: LogSource
    reviews: Reviews
    streams: Streams
    places: Places
    workers: Executor
    commanding: Commanding

    async def handle(self, node: str, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request that came to a Node's port (empty: the port of all Nodes)."""
        try:
            response = await self._answer(node, request)
        except RequestError as refused:
            response = web.Response(status=refused.status, text=refused.text)
        response.force_close()
        return response

    async def _answer(self, node: str, request: web.BaseRequest) -> web.StreamResponse:
        refused: RequestError | None = None
        asked: Route | None = None
        pod: LoggedPod | None = None
        path = request.rel_url.raw_path
        try:
            asked = route(request.method, path)
        except RequestError as error:
            refused = error
        if asked is not None and asked.pod:
            pod = self._pod(node, asked)
        caller = Caller(_certificate(request), request.headers.get("Authorization"))
        needed = access.accesses(request.method, path, pod.node if pod is not None else node)
        await self._work(lambda: self.reviews.check(caller, needed))
        request[ADMITTED] = True
        if asked is None:
            raise refused or RequestError(404, "404 page not found")
        if not asked.pod:
            return await self._plain(asked.target, node)
        if pod is None:
            raise RequestError(404, f'pod "{asked.pod}" does not exist')
        if asked.target in STREAMED:
            return await self.commanding.serve(request, asked, pod)
        return await self._logs(request, asked, pod)

    def _pod(self, node: str, asked: Route) -> LoggedPod | None:
        pod = self.source.pod(asked.namespace, asked.pod)
        return None if pod is None or node not in {"", pod.node} else pod

    async def _plain(self, target: Target, node: str) -> web.Response:
        if target is Target.HEALTH:
            return web.Response(text="ok")
        if target is Target.PODS:
            body = await self._work(lambda: _pod_list(self.source, node))
            return web.Response(body=body, content_type="application/json")
        usage = await self._work(lambda: self.source.usage(node))
        if target is Target.SUMMARY:
            return web.json_response(figures.summary(usage))
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=figures.resource_metrics(usage), headers=headers)

    async def _logs(self, request: web.BaseRequest, asked: Route, pod: LoggedPod) -> web.StreamResponse:
        query = log_query(request.query.items(), int(time.time() * 1000))
        container = container_of(pod, asked.container)
        number = run_of(pod, container, previous=query.previous)
        with self.places.place(pod.namespace):
            run = Run(self.source.files(pod), pod.directory, container.name, number)
            opened = await self.streams.open(Wanted(pod, run, query))
            return await self._stream(request, opened)

    async def _stream(self, request: web.BaseRequest, opened: Opened) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain", "X-Content-Type-Options": "nosniff"})
        response.force_close()
        response.enable_chunked_encoding()
        try:
            if request.transport is not None:
                request.transport.set_write_buffer_limits(high=BUFFER_BYTES)
            await response.prepare(request)
            async with contextlib.aclosing(self.streams.bytes_of(opened)) as chunks:
                async for chunk in chunks:
                    async with asyncio.timeout(STUCK_SECONDS):
                        await response.write(chunk)
        except (Cut, TimeoutError) as error:
            # The aborted body tells the client that something is missing.
            log.warning("a stream of logs was cut: %s", error or "its client has read nothing for hours")
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            pass  # the client is gone
        return response

    async def _work(self, call: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self.workers, call)
        except ApiError as error:
            raise RequestError(503, f"the API server was asked, and did not answer as it should: {error}") from None


def _certificate(request: web.BaseRequest) -> bytes | None:
    """The client's certificate, DER, which TLS has verified in the handshake; None without one."""
    tls = request.transport.get_extra_info("ssl_object") if request.transport is not None else None
    if tls is None or tls.context.verify_mode is ssl.CERT_NONE:
        return None
    return cast("bytes | None", tls.getpeercert(binary_form=True))


def _pod_list(source: LogSource, node: str) -> bytes:
    pods = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(source.pods(node))}
    return json.dumps(pods, separators=(",", ":")).encode()
