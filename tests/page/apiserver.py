"""As much of an API server, over HTTP, as the page asks of one Job: lists in pages with selectors, logs, who asks.

For what a real one shows only slowly or never: thousands of objects, names that it would refuse, a token that ends.
"""

from __future__ import annotations

import contextlib
import json
import queue
import re
import secrets
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flask import Flask, Response, request
from werkzeug.serving import WSGIRequestHandler, make_server

from router import names
from router.cli.cluster import Cluster
from router.kube.client import connect
from tests.policies import LARGE_GO_TO_HPC

Json = dict[str, Any]
_PART = 65536


class Quiet(WSGIRequestHandler):
    def log_request(self, *_: object) -> None:
        """Print no line for each request."""


@dataclass
class Answers:
    """The objects, which a test changes. ``asked``: each request's path and query, in order."""

    jobs: list[Json] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    nodes: list[Json] = field(default_factory=list)
    cronjobs: list[Json] = field(default_factory=list)
    log: tuple[str, ...] = ("first\n",)
    """What a log has at once, in parts; one that is followed then goes on without an end."""
    news: queue.Queue[str] = field(default_factory=queue.Queue)
    """What a log that is followed goes on with."""
    refuses: bool = False
    """Whether the token is refused."""
    misspeaks: bool = False
    """Whether it says who asks in a way that nobody understands."""
    forbids: frozenset[str] = frozenset()
    """What the token's owner may not do, such as ``list /api/v1/pods``. A watch that is open goes on to its end."""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    host: str = ""
    ended: threading.Event = field(default_factory=threading.Event)

    def cluster(self, directory: Path, token: str = "t") -> Cluster:
        """With a token; only ``t`` is taken. Requests of a page come to this at the same moment."""
        file = directory / f"answering-{secrets.token_hex(8)}"
        file.write_text(
            "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], "
            f"clusters: [{{name: c, cluster: {{server: '{self.host}'}}}}], users: [{{name: u, user: {{token: {token}}}}}]}}"
        )
        return Cluster(connect(str(file)), "default", named=False, system="batchgate-system")

    def known(self, kind: str) -> list[Json]:
        """All objects of a kind."""
        return {"jobs": self.jobs, "pods": self.pods, "events": self.events}.get(kind, [])

    def lists(self, kind: str) -> list[dict[str, str]]:
        """The queries of the lists of this kind."""
        return [query for path, query in self.asked if path.endswith(f"/{kind}")]


@contextmanager
def answering() -> Iterator[Answers]:
    """Serve until the end of the block."""
    found = Answers()
    server = make_server("127.0.0.1", 0, _app(found), threaded=True, request_handler=Quiet)
    server.daemon_threads = True  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found.host = f"http://127.0.0.1:{server.server_port}"
    yield found
    found.ended.set()
    server.shutdown()
    server.server_close()


def _app(found: Answers) -> Flask:
    app = Flask(__name__)
    _add_lists(app, found)
    _add_log(app, found)

    @app.before_request
    def note() -> tuple[Json, int] | None:
        found.asked.append((request.path, request.args.to_dict()))
        taken = request.headers.get("Authorization") == "Bearer t" and not found.refuses
        if not taken:
            return _status(401, "Unauthorized"), 401
        verb = "watch" if "watch" in request.args else "list"
        forbidden = f"{verb} {request.path}" in found.forbids
        return (_status(403, f"ben cannot {verb} {request.path}"), 403) if forbidden else None

    @app.post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
    def who() -> tuple[Json, int]:
        return {"status": 5 if found.misspeaks else {"userInfo": {"username": "ben"}}}, 201

    def named(objects: list[Json], namespace: str, name: str) -> Any:
        here = (one for one in _chosen(objects, namespace, {}) if one["metadata"]["name"] == name)
        return next(here, (_status(404, "no such object"), 404))

    @app.get("/apis/batch/v1/namespaces/<namespace>/<any(jobs, cronjobs):kind>/<name>")
    def job(namespace: str, kind: str, name: str) -> Any:
        return named(found.jobs if kind == "jobs" else found.cronjobs, namespace, name)

    @app.get("/api/v1/nodes/<name>")
    def node(name: str) -> Any:
        return named(found.nodes, "", name)

    @app.get(f"/api/v1/namespaces/<namespace>/configmaps/{names.POLICIES_CONFIG_MAP}")
    def policy(namespace: str) -> Json:
        return {"metadata": {"name": names.POLICIES_CONFIG_MAP}, "data": {"policy.yaml": LARGE_GO_TO_HPC}}

    app.register_error_handler(404, lambda _error: (_status(404, "the server could not find it"), 404))
    return app


def _add_lists(app: Flask, found: Answers) -> None:
    @app.get("/api/v1/<any(pods, events, nodes):kind>")
    @app.get("/api/v1/namespaces/<namespace>/<any(pods, events, limitranges):kind>")
    @app.get("/apis/batch/v1/<any(jobs):kind>")
    @app.get("/apis/batch/v1/namespaces/<namespace>/<any(jobs):kind>")
    @app.get("/apis/coordination.k8s.io/v1/namespaces/<namespace>/<any(leases):kind>")
    def listed(kind: str, namespace: str = "") -> Any:
        if "watch" in request.args:
            seconds = float(request.args["timeoutSeconds"])
            return Response(_until(found.ended, seconds), mimetype="application/json")
        return _page(list(_chosen(found.known(kind), namespace, request.args)), request.args)


def _add_log(app: Flask, found: Answers) -> None:
    @app.get("/api/v1/namespaces/<namespace>/pods/<pod>/log")
    def log(namespace: str, pod: str) -> Any:
        containers = {
            one["metadata"]["name"]: {status["name"] for status in one["status"].get("containerStatuses", ())}
            for one in found.pods
        }
        if pod not in containers:
            return _status(404, f"there is no Pod {pod}"), 404
        query = request.args
        if (name := query["container"]) not in (containers[pod] or {name}):
            return _status(400, f"container {name} is not valid for pod {pod}"), 400

        def parts() -> Iterator[str]:
            yield from _last(found.log, int(query["tailLines"]), int(query.get("limitBytes", sys.maxsize)))
            while "follow" in query and not found.ended.is_set():
                with contextlib.suppress(queue.Empty):
                    yield found.news.get(timeout=0.1)
                    continue
                yield ""  # sends the head

        return Response(parts(), mimetype="text/plain")


def _last(log: tuple[str, ...], lines: int, most: int) -> Iterator[str]:
    """As a kubelet answers: it goes back so many lines, and sends at most so many characters from there on."""
    text = "".join(re.findall(r"[^\n]*\n|[^\n]+", "".join(log))[-lines:])
    for begin in range(0, min(len(text), most), _PART):
        yield text[begin : min(begin + _PART, most)]


def _status(code: int, words: str) -> Json:
    return {"kind": "Status", "code": code, "reason": "x", "message": words}


def _until(ended: threading.Event, seconds: float | None = None) -> Iterator[str]:
    """Nothing, so long or for as long as the server is there: a first empty part sends the head."""
    yield ""
    ended.wait(seconds)


def _chosen(objects: list[Json], namespace: str, query: Mapping[str, str]) -> Iterator[Json]:
    for one in objects:
        if namespace in ("", one["metadata"].get("namespace", namespace)) and _fits(one, query):
            yield one


def _fits(one: Json, query: Mapping[str, str]) -> bool:
    """The selectors of a real server that the page uses."""
    about, metadata = one.get("involvedObject", {}), one["metadata"]
    owners = [owner["uid"] for owner in metadata.get("ownerReferences", ())]
    values = {f"involvedObject.{key}": about.get(key) for key in ("kind", "name", "uid")} | {
        "reason": one.get("reason")
    }
    fields = (term.split("=") for term in query.get("fieldSelector", "").split(",") if term)
    label, _, value = query.get("labelSelector", "").partition("=")
    labels = metadata.get("labels", {})
    wanted = (
        value in owners
        if label == names.CONTROLLER_UID
        else not label or (label in labels and value in ("", labels[label]))
    )
    return wanted and all(values[key] == value for key, value in fields)


def _page(objects: list[Json], query: Mapping[str, str]) -> Json:
    begin = int(query.get("continue") or 0)
    end = begin + int(query.get("limit") or len(objects) + 1)
    more = {"continue": str(end)} if end < len(objects) else {}
    return {"items": json.loads(json.dumps(objects[begin:end])), "metadata": {"resourceVersion": "1", **more}}
