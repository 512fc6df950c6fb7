"""The pages and their streams.

Shell (HTTP). A page is whole without scripts; with them its main part is replaced as the server sends newer ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from flask import Flask, Response, abort, render_template, request

from router import __version__
from router.errors import ApiError
from router.page import streams
from router.page.following import Following
from router.page.jobobjects import Found, namespace_labels
from router.page.logs import Log, recent
from router.page.models.decisions import decisions
from router.page.models.explained import states_now
from router.page.models.filters import filters_of
from router.page.models.firstscreen import first_screen
from router.page.models.jobpage import job_page
from router.page.models.logged import Logged
from router.page.models.timeline import shown_steps
from router.page.models.times import may_start, span
from router.page.policysource import Policies
from router.page.reader import Reader
from router.pod.status import rfc3339
from router.policy.decision import Requester
from router.policy.groups import reads_labels

ReaderOf = Callable[[], Reader]
LogOf = Callable[[float], Logged]
_ROOM: Final = "batchgate.room"
"""Of a request's environment: the room of pages that it takes."""
_UNBOUNDED: Final = frozenset({"static", "livez", "enter", "leave", "choose"})
"""Endpoints that read nothing of the cluster. Streams have a room of their own."""
_HERE: Final = Path(__file__).parent
_LARGEST_FORM: Final = 64 * 1024
"""Bytes of a form. Files in one are written to a disk, and nobody needs a token to send one."""
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def create_app(
    reader_of: ReaderOf,
    policies: Policies,
    guard: Callable[[Flask], None],
    most_streams: int = streams.FEW,
    log: LogOf | None = None,
) -> Flask:
    """The app.

    :param reader_of: the reader of the present request
    :param policies: finds the policy by which ``explain`` judges a Job
    :param guard: lets in who may see the page
    :param most_streams: streams at once
    :param log: the decisions of a log that the present viewer may see, at a time; None without a log
    """
    app = Flask(__name__, static_folder=None, template_folder=str(_HERE / "templates"))
    app.jinja_env.filters |= {"span": span, "rfc3339": rfc3339, "may_start": may_start}
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.globals |= {"version": __version__, "shown_steps": shown_steps}
    app.config["MAX_CONTENT_LENGTH"] = _LARGEST_FORM
    app.config[streams.ROOM] = threading.BoundedSemaphore(most_streams)
    guard(app)
    _bound(app, reader_of)
    _add_static(app)
    _add_overview(app, reader_of)
    _add_decisions(app, reader_of, log)
    _add_job(app, reader_of, policies)
    _add_logs(app, reader_of)
    app.register_error_handler(413, lambda _error: _problem("This form is too large.", 413))
    app.register_error_handler(404, lambda _error: _problem("There is no such page here.", 404))
    app.register_error_handler(ApiError, lambda error: _problem(f"The cluster does not answer: {error}", 503))
    return app


def _bound(app: Flask, reader_of: ReaderOf) -> None:
    """Make few pages at once for one viewer: whoever asks for more holds no thread that others need."""

    @app.before_request
    def enter() -> tuple[str, int] | None:
        endpoint = request.endpoint or "static"  # there is no such page
        if endpoint in _UNBOUNDED or endpoint.endswith("stream"):
            return None
        room = reader_of().room.pages
        if not room.acquire(blocking=False):
            return _problem("Many of your pages are being made. Load this one again in a moment.", 503)
        request.environ[_ROOM] = room
        return None

    @app.after_request
    def leave(answer: Response) -> Response:
        if (room := request.environ.pop(_ROOM, None)) is not None:
            room.release()
        return answer


def _add_static(app: Flask) -> None:
    """The few small files of all pages, from memory."""
    files = {path.name: path.read_bytes() for path in (_HERE / "static").iterdir() if path.suffix in _TYPES}

    @app.get("/static/<filename>", endpoint="static")
    def static(filename: str) -> Response:
        if filename not in files:
            abort(404)
        return Response(files[filename], mimetype=_TYPES[Path(filename).suffix])


def _problem(words: str, status: int) -> tuple[str, int]:
    return render_template("problem.html", words=words), status


def _add_overview(app: Flask, reader_of: ReaderOf) -> None:
    def first() -> Mapping[str, Any]:
        sight, filters = reader_of().sight(), filters_of(request.args)
        return {"screen": first_screen(sight, filters), "filters": filters, "sight": sight, "now": sight.now}

    _add(app, "/", "overview", first, reader_of)


def _add_decisions(app: Flask, reader_of: ReaderOf, log: LogOf | None) -> None:
    def decided() -> Mapping[str, Any]:
        sight = reader_of().sight()
        told = None if log is None else log(sight.now)
        return {"found": decisions(sight), "log": told, "sight": sight, "now": sight.now}

    _add(app, "/decisions", "decisions", decided, reader_of)


def _add(app: Flask, path: str, name: str, values: Callable[[], Mapping[str, Any]], reader_of: ReaderOf) -> None:
    """A page and the stream of its main part."""

    def page() -> str:
        return render_template(f"{name}.html", stream=_stream_of(path), **values())

    def stream() -> Response:
        return streams.answer(lambda: render_template(f"_{name}.html", **values()), reader_of())

    app.add_url_rule(path, name, page)
    app.add_url_rule(f"{path.rstrip('/')}/stream", f"{name}-stream", stream)


def _stream_of(path: str) -> str:
    query = request.query_string.decode("ascii", "replace")
    return f"{request.script_root}{path.rstrip('/')}/stream" + (f"?{query}" if query else "")


def _add_job(app: Flask, reader_of: ReaderOf, policies: Policies) -> None:
    def values(reader: Reader, found: Found, namespace: str, name: str) -> Mapping[str, Any]:
        objects, why = found
        sight = reader.sight()
        now, states = sight.now, states_now(sight.queues, sight.now)
        known = policies.find(reader.cluster) if objects else (None, "")
        reads = known[0] is not None and reads_labels(known[0])
        labels = namespace_labels(reader.cluster, namespace) if reads else None
        who = Requester(sight.user, sight.groups, namespace, labels)
        shown = job_page(objects, known, now, states, who) if objects else None
        return {"page": shown, "why": why, "namespace": namespace, "name": name, "now": now, "sight": sight}

    @app.get("/jobs/<namespace>/<name>")
    def job(namespace: str, name: str) -> tuple[str, int]:
        reader = reader_of()
        objects = Following(reader, namespace, name).objects(asked_for=True)
        found = values(reader, objects, namespace, name)
        shown = render_template("job.html", stream=_stream_of(request.path), **found)
        return shown, 200 if found["page"] else 404

    @app.get("/jobs/<namespace>/<name>/stream")
    def job_stream(namespace: str, name: str) -> Response:
        reader = reader_of()
        following = Following(reader, namespace, name)

        def render() -> str:
            objects = following.objects(asked_for=False)
            return render_template("_job.html", **values(reader, objects, namespace, name))

        return streams.answer(render, reader, following.await_news)


def _add_logs(app: Flask, reader_of: ReaderOf) -> None:
    @app.get("/logs/<namespace>/<pod>/<container>")
    def logs(namespace: str, pod: str, container: str) -> tuple[str, int]:
        asked = Log(namespace, pod, container)
        found = recent(reader_of().cluster.api, asked)
        shown = render_template("logs.html", log=asked, found=found, follow=_stream_of(request.path))
        return shown, 404 if found.missing else 200

    @app.get("/logs/<namespace>/<pod>/<container>/stream")
    def log_stream(namespace: str, pod: str, container: str) -> Response:
        reader = reader_of()
        return streams.log_answer(reader.cluster.api, Log(namespace, pod, container), reader)
