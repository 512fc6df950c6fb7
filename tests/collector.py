"""A fake of a collector of OpenTelemetry: a real server of OTLP over HTTP, which keeps what it is sent in memory.

It reads requests with the protocol's own types (the package opentelemetry-proto), so what it takes a collector takes.
"""

from __future__ import annotations

import contextlib
import gzip
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

PATH = "/v1/traces"
ERROR = 2


@dataclass(frozen=True)
class Received:
    """One span. Times are seconds since 1970; ids are hexadecimal."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    began: float
    ended: float
    attributes: dict[str, Any]
    links: tuple[str, ...] = ()
    error: str = ""
    kind: int = 0

    @property
    def brief(self) -> tuple[str, str, str]:
        return self.service, self.name, self.error


@dataclass
class Collector:
    """What was sent so far."""

    port: int = 0
    spans: list[Received] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def of(self, trace_id: str) -> list[Received]:
        return [one for one in self.spans if one.trace_id == trace_id]


def _spans(body: bytes) -> Iterator[Received]:
    request = ExportTraceServiceRequest.FromString(body)
    for resource in request.resource_spans:
        known = {one.key: _value(one.value) for one in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Received(
                    service=known["service.name"],
                    name=span.name,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    began=span.start_time_unix_nano // 1000 / 1e6,
                    ended=span.end_time_unix_nano // 1000 / 1e6,
                    attributes={one.key: _value(one.value) for one in span.attributes},
                    links=tuple(one.span_id.hex() for one in span.links),
                    error=span.status.message or "error" if span.status.code == ERROR else "",
                    kind=span.kind,
                )


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


@contextlib.contextmanager
def collector() -> Iterator[Collector]:
    """A collector at a free port of loopback."""
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            found.headers.append({name.lower(): value for name, value in self.headers.items()})
            if self.path == PATH and self.headers["Content-Type"] == "application/x-protobuf":
                found.spans.extend(_spans(body))
            else:
                found.strange.append(self.path)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Nothing: what came is kept."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        found.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield found
        server.shutdown()
        thread.join()
