"""Requests to the Kubernetes API: JSON in, JSON out, one pool of connections for all threads of a process.

Shell (the network). Knows HTTP and the API's conventions (Status objects, pages, watches), but no kind of object.
Objects are plain dicts: the official client's model objects are twice as large and far slower to make. That client only
reads the credentials (``credentials``). Paths are the API's own, e.g. ``/api/v1/namespaces/x/pods/y/status``.
"""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import HTTPError, ProtocolError, SSLError

from router import __version__
from router.errors import ApiError, ApiUnavailable, ConfigError, Conflict, Gone, NotFound
from router.kube.answers import failure, refusal, silence, words

if TYPE_CHECKING:
    from router.kube.credentials import Access

__all__ = ["Api", "ApiError", "ApiUnavailable", "Conflict", "Gone", "Json", "NotFound", "Stream", "connect"]

Json = dict[str, Any]

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
_APPLY: Final = "application/apply-patch+yaml"

_CONNECT_SECONDS: Final = 10.0
_RELOAD_SECONDS: Final = 10.0
"""Credentials that were refused are read again at most this often."""
_MOST_OF_A_PAGE: Final = 4 * 1024 * 1024
"""Bytes of a page of a list. As objects of Python they take about eight times as much memory."""
_WATCH_MARGIN: Final = 15.0
"""A watch that is silent for this many seconds beyond its time is given up."""


def connect(kubeconfig: str | None, context: str | None = None) -> Api:
    """The API server of this kubeconfig, else of ``$KUBECONFIG``, else of the cluster in which this Pod runs.

    ``context`` is one of the kubeconfig's; by default its current one. The connection is made with the first request.

    :raises ConfigError: no usable credentials
    """
    from router.kube import credentials  # noqa: PLC0415 - the import takes most of a second

    return Api(lambda: credentials.load(kubeconfig, context))


_PATH: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._:~-]+)+")
"""Paths without ``..`` or escapes. The API server does not check every field of a Pod that names another object, and a
name such as ``../../victim/secrets/x`` would be read with this program's rights."""
_MOST_PLACE: Final = 300


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    query: Mapping[str, object] = field(default_factory=dict)
    body: bytes | None = None
    content: str = "application/json"
    seconds: float = 30
    stream: bool = False
    most: int | None = None
    """Bytes of the answer at most; None for any number."""

    @property
    def place(self) -> str:
        return f"{'WATCH' if self.stream else self.method} {self.path}"

    @property
    def url(self) -> str:
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


class Api:
    """One API server, for all threads of a process.

    :param load: reads the credentials; called again when the server refuses them (rotated files, a token revoked)

    Every request raises only :class:`ApiError` or a subclass. ``seconds`` bounds the wait for a connection and for each
    part of the answer.
    """

    def __init__(self, load: Callable[[], Access]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._access = load()
        self._loaded = time.monotonic()

    @property
    def host(self) -> str:
        """The server's URL."""
        return self._access.host

    def get(self, path: str, seconds: float = 30, **query: object) -> Json:
        """The object, or the list, at a path."""
        return self._json(_Request("GET", path, query, seconds=seconds))

    def find(self, path: str, seconds: float = 30) -> Json | None:
        """The object at a path, or None if it is missing."""
        try:
            return self.get(path, seconds)
        except NotFound:
            return None

    def create(self, path: str, body: Json, seconds: float = 30, **query: object) -> Json:
        """Create an object below the path of its kind. Conflict means that the name is taken.

        :param query: ``fieldManager``, ``dryRun``
        """
        return self._json(_Request("POST", path, query, body=_bytes(body), seconds=seconds))

    def replace(self, path: str, body: Json, seconds: float = 30, **query: object) -> Json:
        """Replace an object. If it has ``metadata.resourceVersion``, Conflict means that it changed meanwhile.

        :param query: as for ``create``
        """
        return self._json(_Request("PUT", path, query, body=_bytes(body), seconds=seconds))

    def patch(self, path: str, body: Json | list[Json], kind: str = MERGE, seconds: float = 30) -> Json:
        """Patch an object: a merge patch, a strategic one, or a JSON Patch (a list of operations)."""
        return self._json(_Request("PATCH", path, body=_bytes(body), content=kind, seconds=seconds))

    def apply(self, path: str, body: Json, manager: str) -> Json:
        """Create an object, or correct those fields of it that ``body`` names (server-side apply).

        :param path: the object's own
        :param manager: the owner of these fields; it takes them from others
        """
        query = {"fieldManager": manager, "force": "true"}
        return self._json(_Request("PATCH", path, query, body=_bytes(body), content=_APPLY))

    def delete(
        self, path: str, *, grace: int | None = None, uid: str | None = None, propagation: str | None = None
    ) -> None:
        """Delete an object.

        :param grace: seconds; None leaves it to the object
        :param uid: delete only the object with this uid; Conflict means that another one has its name
        :param propagation: ``Foreground``, ``Background`` or ``Orphan``; None is the kind's default
        """
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if propagation is not None:
            options["propagationPolicy"] = propagation
        self._json(_Request("DELETE", path, body=_bytes(options)))

    def pages(
        self, path: str, left: Callable[[int | None], None] = lambda _: None, /, *, limit: int = 500, **query: object
    ) -> Iterator[tuple[list[Json], str]]:
        """The objects of a list, page by page, each with the list's resourceVersion.

        All pages show one moment. :class:`Gone` between pages means that this moment is too old: start again.

        A page of more than ``_MOST_OF_A_PAGE`` bytes is asked for again with fewer objects: each may have a MiB.

        :param left: called before each page with how many objects are to come, its own among them; None if that is unknown
        """
        token, size = "", limit
        while True:
            more = {"continue": token} if token else {}
            try:
                most = _MOST_OF_A_PAGE if size > 1 else None
                request = _Request("GET", path, {"limit": size, **query, **more}, most=most)
                page, length = _decoded(_data(self._answer(request), request), request.place)
            except _TooLargeError:
                size = max(1, size // 4)
                continue
            if 2 * length < _MOST_OF_A_PAGE:
                size = min(limit, 2 * size)
            metadata = page.get("metadata") or {}
            items, token = page.get("items") or [], metadata.get("continue") or ""
            after = metadata.get("remainingItemCount") if token else 0
            left(None if after is None else len(items) + after)
            yield items, str(metadata.get("resourceVersion", ""))
            if not token:
                return

    def watch(self, path: str, resource_version: str, *, seconds: int, **query: object) -> Stream:
        """The changes of a list's objects after a version: events as the API writes them, bookmarks included.

        The request is sent at once, and the server ends it after ``seconds``. The caller closes the stream.
        """
        asked = {
            "watch": 1,
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": seconds,
            **query,
        }
        request = _Request("GET", path, asked, seconds=seconds + _WATCH_MARGIN, stream=True)
        return Stream(self._answer(request), request.place)

    def text(self, path: str, *, seconds: float, **query: object) -> urllib3.BaseHTTPResponse:
        """The answer with a body that is no JSON, such as a Pod's log, unread; the caller reads and closes it.

        :param seconds: for each part of the body
        """
        return self._answer(_Request("GET", path, query, seconds=seconds, stream=True))

    def _json(self, request: _Request) -> Json:
        return _decoded(self._answer(request).data, request.place)[0]

    def _answer(self, request: _Request) -> urllib3.BaseHTTPResponse:
        """The answer to a successful request. After a 401, the credentials are read again and it is repeated once."""
        if not _PATH.fullmatch(request.path):
            words = "no object can have this name; it is not requested, as it would be another path"
            raise NotFound(404, "NotFound", words, request.place[:_MOST_PLACE])
        used = self._access
        response = self._send(request, used)
        if response.status == 401 and self._reload(used, request.place):
            response.drain_conn()
            response = self._send(request, self._access)
        if response.status >= 300:
            raise refusal(response, request.place)
        return response

    def _send(self, request: _Request, access: Access) -> urllib3.BaseHTTPResponse:
        try:
            headers = _headers(request, access.authorization())
        except ConfigError as error:
            raise silence(request.place, str(error)) from error
        try:
            return _once(request, access, headers)
        except ProtocolError as error:
            if request.method != "GET":
                raise silence(request.place, words(error)) from error
        except SSLError as error:
            if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in error.args):
                self._reload(access, request.place)  # the cluster's CA may have been renewed
            raise silence(request.place, words(error)) from error
        except HTTPError as error:
            raise silence(request.place, words(error)) from error
        try:  # a restarting server cuts idle connections, so a GET is repeated once
            return _once(request, access, headers)
        except HTTPError as error:
            raise silence(request.place, words(error)) from error

    def _reload(self, used: Access, place: str) -> bool:
        """Read the credentials again; returns whether they may differ from ``used``."""
        with self._lock:
            if self._access is not used:
                return True
            if time.monotonic() - self._loaded < _RELOAD_SECONDS:
                return False
            self._loaded = time.monotonic()
            try:
                self._access = self._load()
            except ConfigError as error:
                raise silence(place, f"credentials were refused, and cannot be read again: {error}") from error
            return True


class Stream:
    """An open watch. Iterate over its events once, then close it (from any thread; this wakes a waiting reader)."""

    def __init__(self, response: urllib3.BaseHTTPResponse, place: str) -> None:
        self._response = response
        self._place = place
        self._lock = threading.Lock()
        self._reading = False
        self._closed = False

    def __iter__(self) -> Iterator[Json]:
        """Events until the server or ``close`` ends the watch.

        :raises Gone: the version asked for is too old
        :raises ApiUnavailable: the connection was cut, perhaps within an event
        """
        with self._lock:
            if self._closed:
                return
            self._reading = True
        try:
            for line in self._lines():
                yield self._event(line)
        except (HTTPError, OSError, ValueError, RecursionError) as error:
            if not self._closed:
                raise silence(self._place, f"the watch was cut: {words(error)}") from error
        except AttributeError:  # a TLS socket loses its inner object when another thread shuts it down
            if not self._closed:
                raise
        finally:
            self._closed = True
            self._response.close()

    def close(self) -> None:
        """End the watch; it may be called again."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            reading = self._reading
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            self._response.shutdown()  # wakes a reader; fails if all was read
        if not reading:  # else the reader itself closes it, as it may be using it
            self._response.close()

    def _lines(self) -> Iterator[bytes]:
        rest = b""
        while part := self._response.read1(65536):
            *lines, rest = (rest + part).split(b"\n")
            yield from lines
        if rest and not self._closed:
            yield rest

    def _event(self, line: bytes) -> Json:
        event = json.loads(line)
        if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
            raise ValueError("what came is no watch event")
        if event.get("type") == "ERROR":
            code = event["object"].get("code")
            raise failure(event["object"], code if isinstance(code, int) else 0, self._place)
        return event


class _TooLargeError(Exception):
    """An answer has more bytes than were wanted."""


def _decoded(data: bytes, place: str) -> tuple[Json, int]:
    """The JSON object of an answer, and how many bytes it had. They are let go before the object is made of them."""
    length = len(data)
    try:
        text = data.decode()
        del data
        answer = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise silence(place, f"the answer is no JSON ({error}): a proxy in between?") from error
    if not isinstance(answer, dict):
        raise silence(place, "the answer is no JSON object: a proxy in between?")
    return answer, length


def _data(response: urllib3.BaseHTTPResponse, request: _Request) -> bytes:
    """The whole answer. Raises _TooLargeError as soon as it is known to have too many bytes, and ApiUnavailable."""
    if request.most is None:
        return response.data
    try:
        found = response.read(request.most + 1)
    except HTTPError as error:
        raise silence(request.place, words(error)) from error
    if len(found) > request.most:
        response.close()
        raise _TooLargeError
    return found


def _bytes(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _headers(request: _Request, authorization: str | None) -> dict[str, str]:
    headers = {"Accept": "application/json", "User-Agent": f"batchgate/{__version__}"}
    if request.body is not None:
        headers["Content-Type"] = request.content
    if authorization is not None:
        headers["Authorization"] = authorization
    return headers


def _once(request: _Request, access: Access, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
    return access.pool.request(
        request.method,
        access.host + request.url,
        body=request.body,
        headers=headers,
        timeout=urllib3.Timeout(connect=min(request.seconds, _CONNECT_SECONDS), read=request.seconds),
        preload_content=not request.stream and request.most is None,
        retries=False,
    )
