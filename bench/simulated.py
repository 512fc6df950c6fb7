"""Simulates an API server with more Pods than a machine of two cores could run, of the fleet of ``bench.simulatedbatch``.

It serves, patches and watches objects in memory, over plain HTTP, without admission or authorization. The measured agent
between it and the simulated batch server is the real one.

``python -m bench.simulated FILE`` serves the API and prints its port.
"""

from __future__ import annotations

import bisect
import json
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from bench.simulatedbatch import NAMESPACE, Fleet, Json
from router import names

_MERGED_BY = {"conditions": "type", "containerStatuses": "name", "initContainerStatuses": "name"}


@dataclass(frozen=True)
class Address:
    """The parts of a path: a kind, a namespace or "", an object's name or ""."""

    kind: str
    namespace: str
    name: str


class Objects:
    """All objects by kind, namespace and name, and their events for watches."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._objects: dict[tuple[str, str, str], Json] = {}
        self._events: list[tuple[int, str, Address]] = []
        self._version = 1

    @property
    def version(self) -> int:
        return self._version

    def get(self, address: Address) -> Json | None:
        return self._objects.get((address.kind, address.namespace, address.name))

    def put(self, address: Address, found: Json) -> Json:
        """Keep an object with a new version, and wake the watches."""
        with self.changed:
            key = (address.kind, address.namespace, address.name)
            event = "MODIFIED" if key in self._objects else "ADDED"
            self._version += 1
            found.setdefault("metadata", {}).setdefault("uid", str(uuid.uuid4()))
            found["metadata"]["name"] = address.name
            found["metadata"]["resourceVersion"] = str(self._version)
            self._objects[key] = found
            self._events.append((self._version, event, address))
            self.changed.notify_all()
            return found

    def all(self, address: Address, query: dict[str, str]) -> list[Json]:
        """The objects of a kind that a list shows, in the order of their creation."""
        with self.changed:
            found = [(key, one) for key, one in self._objects.items() if key[0] == address.kind]
        return [
            one for key, one in found if (not address.namespace or key[1] == address.namespace) and chosen(one, query)
        ]

    def since(self, version: int, address: Address, query: dict[str, str], seconds: float) -> Iterator[Json]:
        """Events of a kind after a version, as they come within ``seconds``."""
        end = time.monotonic() + seconds
        with self.changed:
            at = bisect.bisect_right(self._events, version, key=lambda event: event[0])
        while (left := end - time.monotonic()) > 0:
            with self.changed:
                if at == len(self._events):
                    self.changed.wait(left)
                fresh, at = self._events[at:], len(self._events)
            for _, event, where in fresh:
                found = self.get(where)
                if where.kind == address.kind and found is not None and chosen(found, query):
                    yield {"type": event, "object": found}


def chosen(found: Json, query: dict[str, str]) -> bool:
    """Whether selectors of the forms ``a=b``, ``!a`` and ``spec.x=b`` choose an object."""
    labels = found["metadata"].get("labels") or {}
    for term in filter(None, query.get("labelSelector", "").split(",")):
        key, equals, value = term.lstrip("!").partition("=")
        if (equals and labels.get(key) != value) or (not equals and (key in labels) == term.startswith("!")):
            return False
    for term in filter(None, query.get("fieldSelector", "").split(",")):
        path, _, value = term.partition("=")
        part: Any = found
        for step in path.split("."):
            part = (part or {}).get(step)
        if (part or "") != value:
            return False
    return True


def merged(old: Any, patch: Any, key: str = "") -> Any:
    """The result of a merge patch; lists of a Pod's status are merged as in a strategic merge patch."""
    if isinstance(patch, dict):
        result = dict(old) if isinstance(old, dict) else {}
        for name, value in patch.items():
            if value is None:
                result.pop(name, None)
            elif not name.startswith("$"):
                result[name] = merged(result.get(name), value, name)
        return result
    if isinstance(patch, list) and (by := _MERGED_BY.get(key)):
        items = {one[by]: one for one in old or ()}
        for one in patch:
            items[one[by]] = merged(items.get(one[by]), one)
        return list(items.values())
    return patch


class Handler(BaseHTTPRequestHandler):
    """One connection; ``objects`` is set on the class."""

    protocol_version = "HTTP/1.1"
    objects: Objects

    def do_GET(self) -> None:
        if self.path == "/version":
            self._answer(200, {"gitVersion": "v1.36.0"})
            return
        address, query = self._asked()
        if address.name:
            found = self.objects.get(address)
            self._answer(200, found) if found is not None else self._fail(404, "NotFound")
        elif query.get("watch"):
            self._watch(address, query)
        else:
            self._list(address, query)

    def do_POST(self) -> None:
        address, _ = self._asked()
        body = self._body()
        name = body["metadata"].get("name") or body["metadata"]["generateName"] + uuid.uuid4().hex[:5]
        where = Address(address.kind, address.namespace, name)
        if self.objects.get(where) is not None:
            self._fail(409, "AlreadyExists")
        else:
            self._answer(201, self.objects.put(where, body))

    def do_PUT(self) -> None:
        address, _ = self._asked()
        self._answer(200, self.objects.put(address, self._body()))

    def do_PATCH(self) -> None:
        address, _ = self._asked()
        body = self._body()
        found = self.objects.get(address)
        if found is None:
            self._fail(404, "NotFound")
        else:
            self._answer(200, self.objects.put(address, merged(found, body)))

    def _asked(self) -> tuple[Address, dict[str, str]]:
        parts = urlsplit(self.path)
        words = parts.path.strip("/").split("/")
        words = words[2:] if words[0] == "api" else words[3:]
        namespace = ""
        if words[0] == "namespaces" and len(words) > 2:
            namespace, words = words[1], words[2:]
        return Address(words[0], namespace, words[1] if len(words) > 1 else ""), dict(parse_qsl(parts.query))

    def _body(self) -> Json:
        found: Json = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return found

    def _list(self, address: Address, query: dict[str, str]) -> None:
        version = str(self.objects.version)
        found = self.objects.all(address, query)
        first, limit = int(query.get("continue", 0)), int(query.get("limit", len(found) or 1))
        metadata = {"resourceVersion": version}
        if first + limit < len(found):
            metadata["continue"] = str(first + limit)
        self._answer(200, {"metadata": metadata, "items": found[first : first + limit]})

    def _watch(self, address: Address, query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        seconds = float(query.get("timeoutSeconds", 60))
        try:
            self.wfile.flush()
            for event in self.objects.since(int(query["resourceVersion"]), address, query, seconds):
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:  # the agent has gone
            self.close_connection = True

    def _answer(self, code: int, body: Json) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _fail(self, code: int, reason: str) -> None:
        self._answer(code, {"kind": "Status", "code": code, "reason": reason, "message": f"{self.path}: {reason}"})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class' signature
        """Log nothing: a line for each request would cost more than the request."""


class Server(ThreadingHTTPServer):
    """A server with one thread for each connection; the agent has a few dozen."""

    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    """Serve the Pods of the fleet that a file describes, until the process is killed."""
    described = json.loads(Path(sys.argv[1]).read_text())
    fleet, objects = Fleet(**described["fleet"]), Objects()
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    node = names.node_name(described["site"], fleet.queue)
    for number in range(fleet.count):
        pod = fleet.pod(number, described["template"], node, stamp)
        objects.put(Address("pods", NAMESPACE, pod["metadata"]["name"]), pod)
    objects.put(Address("namespaces", "", "kube-system"), {"metadata": {"uid": str(uuid.uuid4())}})
    objects.put(Address("configmaps", "kube-system", "extension-apiserver-authentication"), {"data": {}})
    Handler.objects = objects
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
