"""Failed answers as exceptions: the API server's own, and what gateways in front of it write."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import urllib3

from router.errors import ApiError, ApiUnavailable
from router.kube.answers import refusal

DEEP = b"[" * 100_000
SERVER = {
    "kind": "Status",
    "message": "too many",
    "reason": "TooManyRequests",
    "details": {"retryAfterSeconds": 7, "causes": [{"reason": "DisruptionBudget"}]},
}


def refused(body: bytes, **headers: str) -> ApiError:
    answer = urllib3.HTTPResponse(body=io.BytesIO(body), status=503, headers=headers, preload_content=False)
    return refusal(answer, "/api")


def told(error: ApiError) -> tuple[str, str, float | None, str]:
    assert (type(error), error.status, error.path) == (ApiUnavailable, 503, "/api")
    return error.reason, error.message, error.retry_after, error.cause


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (SERVER, ("TooManyRequests", "too many", 7.0, "DisruptionBudget")),
        # As gateways of gRPC write it.
        ({"code": 14, "message": "away", "details": [{"@type": "x"}]}, ("Unknown", "away", None, "")),
        ({"details": {"causes": {"a": "b"}}}, ("Unknown", "no message", None, "")),
        ({"details": {"causes": ["a"], "retryAfterSeconds": "9"}}, ("Unknown", "no message", None, "")),
        ({"details": {"causes": [], "retryAfterSeconds": 10**400}}, ("Unknown", "no message", 60.0, "")),
        ({"details": {"retryAfterSeconds": -5}}, ("Unknown", "no message", None, "")),
        (["a  page"], ("Unknown", '["a page"]', None, "")),
    ],
)
def test_what_an_answer_means(body: Any, expected: tuple[str, str, float | None, str]) -> None:
    assert told(refused(json.dumps(body).encode())) == expected


@pytest.mark.parametrize(
    ("body", "words"),
    [(b"<html>\n away \xff</html>", "<html> away \ufffd</html>"), (DEEP, "[" * 300), (b"", "no message")],
)
def test_an_answer_that_is_no_status(body: bytes, words: str) -> None:
    assert told(refused(body)) == ("Unknown", words, None, "")


@pytest.mark.parametrize(
    ("after", "seconds"),
    [("3", 3.0), ("7200", 60.0), ("\u00b2", None), ("\u0663", None), ("Wed, 21 Oct", None), ("", None)],
)
def test_how_long_to_wait(after: str, seconds: float | None) -> None:
    assert told(refused(b"{}", **{"Retry-After": after})) == ("Unknown", "no message", seconds, "")
