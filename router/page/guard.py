"""Who may see the page, and what a browser may do with it.

Shell (HTTP). On a login node every user reaches every port of the loopback interface. So the page is shown only to a
browser that has shown a secret: it is in the address that the command prints, and then in a cookie. Browsers send a
cookie to all ports of a host (RFC 6265, 8.5), and another user may listen on one. So the cookie has a path that nobody
can guess, below which the page is. A web page of somebody else can point its own name at 127.0.0.1 (DNS rebinding), so
the name that the browser asked for is checked.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from flask import Flask, Response, redirect, render_template, request
from werkzeug.middleware.dispatcher import DispatcherMiddleware

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""Headers of every answer. Styles and scripts come from files of the page alone; pictures are part of the text."""
_UNGUARDED: Final = frozenset({"static", "enter"})
_PARAMETER: Final = "token"


@dataclass(frozen=True, slots=True)
class Key:
    """The secret of one run of the command.

    :param cookie: the name of its cookie
    :param folder: the first part of every path that the cookie is sent to; it is no secret without the cookie
    """

    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    cookie: str = field(default_factory=lambda: f"batchgate-{secrets.token_hex(4)}")
    folder: str = field(default_factory=lambda: secrets.token_urlsafe(16))

    def fits(self, given: str) -> bool:
        """Whether this is the secret; takes the same time for every wrong one."""
        return hmac.compare_digest(given.encode(errors="replace"), self.secret.encode())


def guard(app: Flask, key: Key) -> None:
    """Let only browsers in that know the secret, under a name of the loopback interface, and bound what they may do."""

    @app.before_request
    def check() -> Response | tuple[str, int] | None:
        if not named(request.host, LOOPBACK):
            return _refusal(f"this page has other names: {', '.join(sorted(LOOPBACK))}", 421)
        if request.endpoint in _UNGUARDED or key.fits(request.cookies.get(key.cookie, "")):
            return None
        if key.fits(request.args.get(_PARAMETER, "")):
            return _let_in(key, request.path)
        return _refusal("", 401)

    @app.post("/enter")
    def enter() -> Response | tuple[str, int]:
        if foreign():
            return _refusal("this form was sent by another page", 403)
        if key.fits(request.form.get(_PARAMETER, "").strip()):
            return _let_in(key, "/")
        return _refusal("this is not the token of the command that runs now", 401)

    app.after_request(bounded)
    inner = app.wsgi_app
    app.wsgi_app = DispatcherMiddleware(inner, {f"/{key.folder}": inner})  # type: ignore[method-assign]


def named(host: str, host_names: frozenset[str]) -> bool:
    """Whether a Host header has one of the names; its port may be another one's end of a tunnel."""
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdecimal():
        name = host
    return name.lower() in host_names


def _let_in(key: Key, path: str) -> Response:
    """Keep the secret in a cookie, and show the same page under an address without it."""
    answer = redirect(f"/{key.folder}/" + quote(path.lstrip("/\\"), safe="/:@!$&'()*+,;="), 303)
    answer.set_cookie(key.cookie, key.secret, httponly=True, samesite="Strict", path=f"/{key.folder}")
    return answer  # type: ignore[return-value]  # of werkzeug, which Flask's own class extends


def _refusal(problem: str, status: int) -> tuple[str, int]:
    return render_template("enter.html", problem=problem, status=status), status


def foreign() -> bool:
    """Whether another web page has sent this request; browsers say it."""
    return request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none")


def bounded(answer: Response) -> Response:
    """Add the headers of every answer."""
    for name, value in HEADERS.items():
        answer.headers[name] = value
    return answer
