"""Simulates an API server and a batch server with more Pods and jobs than a machine of two cores could run.

Only their answers are real. The API server serves, patches and watches objects in memory, over plain HTTP, without
admission or authorization. The batch server's commands print prepared files in OpenPBS' formats. The measured agent
between them is the real one.

``python -m bench.simulated FILE`` serves the API and prints its port.
"""

from __future__ import annotations

import bisect
import json
import os
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

from router import names
from router.host import writing
from router.hpc import job_name, openpbs
from router.local import display
from router.local.records import QUEUED, RUNNING, Job
from router.local.resources import Chunk
from router.pod import files as podfiles
from router.pod import layout
from router.pod.layout import PodDirectory

Json = dict[str, Any]

CLUSTER = "0a1b2c3d"
NAMESPACE = "default"
SERVER = "simulated"
OTHERS, HISTORY = 5, 20
"""Living jobs of other users, and finished jobs of all users, for each job of ours."""
RUN_EVERY = 5
"""Every fifth of our jobs runs, the other jobs wait."""
_MERGED_BY = {"conditions": "type", "containerStatuses": "name", "initContainerStatuses": "name"}


@dataclass(frozen=True)
class Fleet:
    """Our Pods and their jobs, which differ only in names. ``root`` is the cluster's directory on the site."""

    count: int
    root: str
    user: str
    queue: str

    def uid(self, kind: str, number: int) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind} {number}"))

    def pod_name(self, number: int) -> str:
        return f"sweep-{number:05}-x7k2p"

    def job_id(self, number: int) -> str:
        return f"{1000 + number}.{SERVER}"

    def runs(self, number: int) -> bool:
        return number % RUN_EVERY == 0

    def directory(self, number: int) -> PodDirectory:
        return PodDirectory(self.root, self.uid("job", number), layout.NO_INDEX, self.uid("pod", number))

    def pod(self, number: int, template: Json, node: str, stamp: str) -> Json:
        """The Pod in the API server before an agent has written its status."""
        annotations = {**template["metadata"]["annotations"], names.KEY_JOB_ID: self.job_id(number)}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"sweep-{number:05}", "uid": self.uid("job", number)}
        metadata = {
            "name": self.pod_name(number),
            "namespace": NAMESPACE,
            "uid": self.uid("pod", number),
            "creationTimestamp": stamp,
            "labels": {**template["metadata"]["labels"], names.CONTROLLER_UID: self.uid("job", number)},
            "annotations": annotations,
            "finalizers": [names.JOB_TRACKING],
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        }
        spec = {**template["spec"], "nodeName": node}
        return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "qosClass": "Burstable"}}


# --- the batch server --------------------------------------------------------------------------------------------

_COMMANDS = """\
#!/bin/sh
# The words of OpenPBS' commands that the agent uses, answered from files.
cd "${0%/*}" || exit 1
case "$1 $2 $3 $5" in
"qstat -w -u ") exec awk -v user="$4" 'NR <= 5 || $2 == user' table ;;
"qselect -x -N ") exec awk -v name="$4" '$2 == name { print $1 }' names ;;
esac
case "$1 $2 $3 $4 $5" in
"qstat -x -f -F json" | "qstat -x -f -F dsv") cd "$5" && shift 5 && exec cat -- "$@" ;;
esac
echo "simulated: no answer was prepared for: $*" >&2
exit 1
"""


def prepare_batch_server(fleet: Fleet, directory: Path) -> Path:
    """Write the answers; returns the program that prints them."""
    for form in ("json", "dsv"):
        (directory / form).mkdir(parents=True)
    now = time.time()
    ours = [_job(fleet, number, now) for number in range(fleet.count)]
    for job in ours:
        (directory / "dsv" / job.job_id).write_text(display.as_dsv([job]))
        text = display.as_json([job], several_asked=False, server=SERVER, now=now)
        (directory / "json" / job.job_id).write_text(text)
    others = [_other(ours[number % len(ours)], number, now) for number in range(fleet.count * OTHERS)]
    (directory / "table").write_text(display.wide_table([*others, *ours], SERVER, now))
    first = 10 * fleet.count
    history = (f"{first + number}.{SERVER} old-{number}\n" for number in range(fleet.count * HISTORY))
    (directory / "names").write_text("".join((*history, *(f"{job.job_id} {job.name}\n" for job in ours))))
    program = directory / "commands"
    program.write_text(_COMMANDS)
    program.chmod(0o700)
    return program


def _job(fleet: Fleet, number: int, now: float) -> Job:
    place, runs = fleet.directory(number), fleet.runs(number)
    return Job(
        seq=1000 + number,
        server=SERVER,
        name=job_name(fleet.pod_name(number), CLUSTER, fleet.uid("pod", number), openpbs.NAME_LIMIT),
        owner=fleet.user,
        host="login",
        queue=fleet.queue,
        state=RUNNING if runs else QUEUED,
        substate=42 if runs else 10,
        chunks=[Chunk(1, 1, 1, 1, 0, 0)],
        place="free",
        walltime=86400,
        listed={"ncpus": "1", "nodect": "1", "place": "free", "select": "1:ncpus=1", "walltime": "24:00:00"},
        options={"-j": "oe", "-k": "oed", "-S": "/bin/bash"},
        attributes={"umask": "077"},
        variables={names.ENV_DIR: str(place.path)},
        origin={"PBS_O_HOME": f"/home/{fleet.user}", "PBS_O_PATH": "/usr/bin:/bin", "PBS_O_HOST": "login"},
        arguments=f"-f -N {fleet.pod_name(number)} -o {place.output} -j oe -k oed -r n {place.script}",
        output=str(place.output),
        error=str(place.output),
        created=now - 3600,
        modified=now - 3600,
        comment="" if runs else "Not Running: Insufficient amount of resource: ncpus",
        started=now - 1800 if runs else None,
        run_count=int(runs),
        session=40000 + number if runs else None,
    )


def _other(like: Job, number: int, now: float) -> Job:
    """Another user's job, which only shows as a row of a table."""
    values = {field: getattr(like, field) for field in like.__dataclass_fields__}
    return Job(
        **{**values, "seq": 1_000_000 + number, "owner": f"user{number % 400}", "name": "theirs", "created": now}
    )


def write_directories(fleet: Fleet, script: bytes) -> None:
    """Write the Pods' directories on the site, as submissions and running scripts leave them, and their notes."""
    spool = Path(fleet.root, layout.SPOOL)
    spool.mkdir(parents=True)
    now = int(time.time())
    for number in range(fleet.count):
        place, job_id = fleet.directory(number), fleet.job_id(number)
        files = {layout.SCRIPT: script, layout.JOB_ID: f"{job_id}\n".encode()}
        if fleet.runs(number):
            files |= {layout.CLAIM: f"{job_id}.1\n".encode(), layout.ALIVE: b"", f"{layout.LOG}/main.0": b"a line\n"}
            common = {"job": job_id, "host": "node", "time": now}
            for turn, note in enumerate(({"event": "started"}, {"event": "running", "container": "main"}), start=1):
                text = json.dumps({**common, **note}) + "\n"
                (spool / f"{fleet.uid('pod', number)}.{turn}.{note['event']}").write_text(text)
        writing.write(place.path, podfiles.Staged(files))
        if fleet.runs(number):
            # No script touches it here, so a future time stands for its signs of life.
            os.utime(Path(place.path, layout.ALIVE), (now + 86400, now + 86400))


# --- the API server ----------------------------------------------------------------------------------------------


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
