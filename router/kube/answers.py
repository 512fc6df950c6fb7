"""What a failed answer of the API server means, as the exception to raise.

Pure, but for the rest of an answer, which is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import urllib3
from urllib3.exceptions import HTTPError

from router.errors import ApiError, ApiUnavailable, Conflict, Gone, NotFound

_MOST_RETRY_SECONDS: Final = 60.0
"""The most that an answer's Retry-After counts: a proxy's page for maintenance may name hours."""
_CLASSES: Final[Mapping[int, type[ApiError]]] = {404: NotFound, 409: Conflict, 410: Gone}
_TRY_AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504})


def refusal(response: urllib3.BaseHTTPResponse, place: str) -> ApiError:
    """The exception for an answer with a status of failure."""
    try:
        data = response.data  # of a stream, this reads it
    except HTTPError:
        data = b""
    try:
        status = json.loads(data)
    except (ValueError, RecursionError):
        status = None
    if not isinstance(status, dict):  # a proxy's page, or the plain text of some filters of the API server
        status = {"message": " ".join(data.decode(errors="replace").split())[:300]}
    return failure(status, response.status, place, response.headers.get("Retry-After"))


def failure(status: dict[str, Any], code: int, place: str, after: str | None = None) -> ApiError:
    """The exception for a Status object; the delay comes from a header of the answer or the Status' details.

    Gateways in between write objects of their own, with the same keys for other types.
    """
    kind = _CLASSES.get(code, ApiUnavailable if code in _TRY_AGAIN else ApiError)
    details = _mapping(status.get("details"))
    causes = details.get("causes")
    first = _mapping(causes[0]) if isinstance(causes, list) and causes else {}
    reason = str(status.get("reason") or "Unknown")
    message = str(status.get("message") or "no message")
    seconds = _seconds(after, details.get("retryAfterSeconds"))
    return kind(code, reason, message, place, retry_after=seconds, cause=str(first.get("reason") or ""))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _seconds(header: str | None, named: object) -> float | None:
    """How long to wait, as the header says it, or else the Status; None if both lack a number of seconds."""
    if header and header.isascii() and header.isdecimal():
        return min(float(header), _MOST_RETRY_SECONDS)
    return float(min(named, _MOST_RETRY_SECONDS)) if isinstance(named, int) and named >= 0 else None


def silence(place: str, words: str) -> ApiUnavailable:
    """The exception where an answer is missing, or cannot be read."""
    return ApiUnavailable(0, "no answer", words, place)


def words(error: BaseException) -> str:
    """An error's own words in one line; its kind if it has none."""
    return " ".join(str(error).split()) or type(error).__name__
