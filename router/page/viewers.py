"""Many viewers, each with the token that they bring and with nothing else.

Shell (HTTP, the API). A token comes with each request, by a proxy's header or by a cookie that the browser drops at its
end. It is in memory while its viewer looks, and a few minutes longer; it is written nowhere. Links from other sites bring
the cookie (``Lax``), so all that changes anything is a form, which is refused where another page sends it.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Sequence
from typing import Final

from flask import Flask, Response, redirect, render_template, request

from router import names
from router.background.crowding import surplus
from router.background.loop import Loop
from router.cli.cluster import Cluster
from router.errors import ApiError
from router.kube.clock import ask_who
from router.page.guard import bounded, foreign, named
from router.page.reader import UNWATCHED_SECONDS, Reader

COOKIE: Final = "__Host-batchgate"
"""Browsers keep a cookie of this prefix to https and to this very host."""
PLACE: Final = "__Host-batchgate-namespace"
MOST_VIEWERS: Final = 40
IDLE_SECONDS: Final = 180.0
"""After this time without a look, a viewer's objects and token are forgotten."""
_ASKING: Final = 16
"""Tokens that the API server is asked about at once: anybody may send any, and others need the threads."""
_LONGEST: Final = 3900
"""Bytes of a token: browsers drop larger cookies."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]+")
"""Characters of a bearer token (RFC 6750)."""
_READER: Final = "batchgate.reader"
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_UNAUTHORIZED: Final = 401
_UNGUARDED: Final = frozenset({"static", "enter", "leave", "choose", "livez"})
_Key = tuple[str, str]
"""A token's digest, and the namespace whose Jobs are shown."""


class Viewers:
    """The readers of all viewers, by a digest of their token, and by namespace. All methods may be called by any thread.

    :param cluster_of: the cluster with a token's rights
    """

    def __init__(self, cluster_of: Callable[[str], Cluster]) -> None:
        self._cluster_of = cluster_of
        self._lock = threading.Lock()
        self._readers: dict[_Key, Reader] = {}
        self._people: dict[_Key, str] = {}
        self._asking = threading.BoundedSemaphore(_ASKING)
        self._loop = Loop("viewers", self._turn)

    def start(self) -> None:
        """Begin to forget viewers who have left."""
        self._loop.start(IDLE_SECONDS / 3)

    def stop(self) -> None:
        """Forget all of them."""
        self._loop.stop()
        self._forget(lambda _key, _one: True)

    def find(self, token: str, namespace: str) -> Reader | str:
        """The reader of a token, or why there is none now. Raises ApiError if the API server refuses the token.

        :param namespace: the one whose Jobs are shown, or empty for all
        """
        key = _digest(token), namespace
        with self._lock:
            known = self._readers.get(key)
        # A view is read only while somebody looks at it, so the token of an idle one may be refused by now.
        if known is not None and not (known.refused or known.broken) and known.idle_seconds < UNWATCHED_SECONDS:
            return known
        self._forget_refused()
        cluster = self._cluster_of(token)
        if not self._asking.acquire(blocking=False):
            return "Many ask at this moment whether they may look. Try again soon."
        try:
            user = ask_who(cluster.api).user
        finally:
            self._asking.release()
        if namespace:
            cluster.namespace, cluster.named = namespace, True
        elif user.startswith(names.SERVICE_ACCOUNT) and not cluster.named:  # its own is its to see, if no wider one is
            cluster.namespace = user.removeprefix(names.SERVICE_ACCOUNT).partition(":")[0]
        return self._made(key, cluster, person_of(user))

    def forget(self, token: str) -> None:
        """Drop all views of a token; whatever follows them ends."""
        left = _digest(token)
        self._forget(lambda key, _one: key[0] == left)

    def _made(self, key: _Key, cluster: Cluster, person: str) -> Reader | str:
        with self._lock:
            if key in self._readers:
                return self._readers[key]
            waiting = sorted(self._readers, key=lambda one: -self._readers[one].idle_seconds)
            chosen = giving_way([self._people[one] for one in waiting]) if len(waiting) >= MOST_VIEWERS else -1
            if chosen is None:
                return f"{MOST_VIEWERS} people look already. Try again in some minutes."
            gone = self._readers.pop(waiting[chosen]) if chosen >= 0 else None
            rooms = (one.room for name, one in self._readers.items() if self._people[name] == person)
            made = self._readers[key] = Reader(cluster, next(rooms, None), self._forget_refused)
            self._people[key] = person
            made.start()
        if gone is not None:
            gone.stop()
        return made

    def _turn(self) -> float:
        self._forget(lambda _key, one: one.idle_seconds > IDLE_SECONDS)
        return IDLE_SECONDS / 3

    def _forget_refused(self) -> None:
        """Called by a reader's own thread too, as soon as its token is refused: its pages and logs end with it."""
        self._forget(lambda _key, one: one.refused or one.broken)

    def _forget(self, left: Callable[[_Key, Reader], bool]) -> None:
        with self._lock:
            gone = {key: one for key, one in self._readers.items() if left(key, one)}
            self._readers = {key: one for key, one in self._readers.items() if key not in gone}
            self._people = {key: one for key, one in self._people.items() if key in self._readers}
        for one in gone.values():
            one.stop()


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def person_of(user: str) -> str:
    """Whose view it is: whoever may make accounts in a namespace has as many as they like, so these count as one."""
    return user.rpartition(":")[0] if user.startswith(names.SERVICE_ACCOUNT) else user


def giving_way(people: Sequence[str]) -> int | None:
    """The index of the view that makes room for another one; None if each person has one view.

    :param people: whose each view is, the one that was looked at longest ago first
    """
    chosen = surplus(people)
    return chosen if people.count(people[chosen]) > 1 else None


def admit(app: Flask, viewers: Viewers, host_names: frozenset[str], header: str) -> None:
    """Let in whoever brings a token that the API server takes, under one of these names.

    :param header: by which a proxy passes the token, with or without ``Bearer``; empty: viewers paste theirs
    """

    @app.before_request
    def check() -> Response | tuple[str, int] | None:
        if request.endpoint == "livez":
            return None
        if not named(request.host, host_names):
            return _ask(f"this page has other names: {', '.join(sorted(host_names))}", 421)
        if request.endpoint in _UNGUARDED:
            return None
        given = request.headers.get(header, "") if header else request.cookies.get(COOKIE, "")
        token = given.removeprefix("Bearer ").strip()
        if not _TOKEN.fullmatch(token):
            return _refuse(f"the proxy has sent no token in the header {header}" if header else "", 401, header)
        return _look(viewers, token, header)

    @app.context_processor
    def place() -> dict[str, str | None]:
        return {"chosen_namespace": _namespace() if _READER in request.environ else None}

    _add_doors(app, header)
    _add_exit(app, viewers, header)
    app.after_request(bounded)


def _add_doors(app: Flask, header: str) -> None:
    @app.post("/enter")
    def enter() -> Response | tuple[str, int]:
        token = request.form.get("token", "").strip()
        if header or foreign():
            return _refuse("tokens are not taken here", 403, header)
        if not _TOKEN.fullmatch(token) or len(token) > _LONGEST:
            return _ask(f"a token has letters, digits and -._~+/= alone, at most {_LONGEST} of them", 400)
        answer = redirect("/", 303)
        answer.set_cookie(COOKIE, token, secure=True, httponly=True, samesite="Lax", path="/")
        return answer  # type: ignore[return-value]  # of werkzeug, which Flask's own class extends

    @app.post("/namespace")
    def choose() -> Response | tuple[str, int]:
        namespace = request.form.get("namespace", "").strip()
        if foreign():
            return _refuse("this form was sent by another page", 403, header)
        if namespace and not _NAMESPACE.fullmatch(namespace):
            words = "a namespace has small letters, digits and hyphens alone, at most 63 of them"
            return render_template("problem.html", words=words), 400
        answer = redirect("/", 303)
        answer.set_cookie(PLACE, namespace, secure=True, httponly=True, samesite="Lax", path="/")
        return answer  # type: ignore[return-value]  # of werkzeug, as above

    @app.get("/livez")
    def livez() -> str:
        return "ok\n"


def _add_exit(app: Flask, viewers: Viewers, header: str) -> None:
    @app.post("/leave")
    def leave() -> Response | tuple[str, int]:
        if foreign():
            return _refuse("this form was sent by another page", 403, header)
        token = "" if header else request.cookies.get(COOKIE, "")
        answer = redirect("/", 303)
        answer.delete_cookie(COOKIE, secure=True, httponly=True, samesite="Lax", path="/")
        # Once it is sent: a stream that ends before is opened again with the cookie.
        answer.call_on_close(lambda: viewers.forget(token))
        return answer  # type: ignore[return-value]  # of werkzeug, as above


def _namespace() -> str:
    """The namespace that the viewer has chosen; empty for all."""
    found = request.cookies.get(PLACE, "")
    return found if _NAMESPACE.fullmatch(found) else ""


def _look(viewers: Viewers, token: str, header: str) -> tuple[str, int] | None:
    """Find the viewer's reader for this request, or say why there is none."""
    try:
        found = viewers.find(token, _namespace())
    except ApiError as error:
        if error.status == _UNAUTHORIZED:
            return _refuse("the cluster does not take this token: it is wrong, or it has expired", 401, header)
        return render_template("problem.html", words=f"The cluster does not answer: {error}"), 503
    if isinstance(found, str):
        return render_template("problem.html", words=found), 503
    request.environ[_READER] = found  # a stream keeps its request, but not Flask's g
    return None


def reader_of_request() -> Reader:
    """The reader of the present request, which ``admit`` has found."""
    found = request.environ[_READER]
    assert isinstance(found, Reader)  # noqa: S101 - requests without one are refused before
    return found


def _refuse(problem: str, status: int, header: str) -> tuple[str, int]:
    if header:
        return render_template("problem.html", words=problem), status
    return _ask(problem, status)


def _ask(problem: str, status: int) -> tuple[str, int]:
    return render_template("enter.html", problem=problem, status=status, viewers=True), status
