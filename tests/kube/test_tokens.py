"""Claims of tokens, and when one is renewed."""

from __future__ import annotations

from typing import Any

import pytest

from router.errors import InputError
from router.kube import tokens
from router.kube.tokens import Claims
from tests.jwt import encoded, token

HELD = Claims("ns", "a", issued=1000, expires=4600)


def test_claims() -> None:
    assert (tokens.claims(token()), HELD.user) == (HELD, "system:serviceaccount:ns:a")
    assert tokens.claims(f"{token()}\n") == HELD


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the token is no JSON web token (three parts with dots between them)"),
        ("a.b", "the token is no JSON web token (three parts with dots between them)"),
        ("a.%.c", "the token is no JSON web token: its claims are no JSON"),
        (f"a.{encoded(b'{')}.c", "the token is no JSON web token: its claims are no JSON"),
        (f"a.{encoded(bytes([255]))}.c", "the token is no JSON web token: its claims are no JSON"),
        (f"a.{encoded(b'[]')}.c", "the token is no service account's"),
        (token(sub="ada"), "the token is no service account's"),
        (token(sub="system:serviceaccount:ns:"), "the token is no service account's"),
        (token(exp=None), "the token does not say when it was issued and when it ends"),
        (token(iat="1000"), "the token does not say when it was issued and when it ends"),
        (token(expires=1000), "the token does not say when it was issued and when it ends"),
    ],
)
def test_what_is_no_token_of_a_service_account(text: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        tokens.claims(text)
    assert str(caught.value) == expected


def test_a_token_is_renewed_at_half_its_life() -> None:
    assert tokens.renew_at(HELD) == 2800


@pytest.mark.parametrize(
    ("now", "failed", "expected"),
    [
        (1000, False, 1800),
        (2700, False, 100),
        (2800, True, 60),
        (5000, True, 60),
        (-90_000, False, 3600),  # a clock far behind, which is set right soon
        (9000, False, 60),  # a clock far ahead: each new token seems to be old, and yet the server is left in peace
    ],
)
def test_the_pause_before_the_next_try(now: float, failed: bool, expected: float) -> None:
    assert tokens.pause(HELD, now, failed=failed) == expected


@pytest.mark.parametrize(
    ("problem", "now", "expected"),
    [
        ("", 2900, ""),
        ("no", 2900, "the agent's credential ends 1970-01-01 01:16:40 UTC and is not renewed: no"),
        (
            "no",
            4600,
            (
                "the agent's credential has ended (1970-01-01 01:16:40 UTC): run `batchgate site add` and `batchgate site "
                "install` again; no"
            ),
        ),
    ],
)
def test_what_is_said_of_a_credential(problem: str, now: float, expected: str) -> None:
    assert tokens.warning(HELD, problem, now) == expected


def test_the_request_and_its_answer() -> None:
    assert tokens.path("ns", "a") == "/api/v1/namespaces/ns/serviceaccounts/a/token"
    assert [tokens.request(seconds)["spec"] for seconds in (60, 3600)] == [
        {"expirationSeconds": 600},
        {"expirationSeconds": 3600},
    ]
    assert tokens.granted({"status": {"token": "t"}}) == "t"


@pytest.mark.parametrize("answer", [{}, {"status": {}}, {"status": {"token": ""}}, {"status": {"token": 1}}])
def test_an_answer_without_a_token(answer: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        tokens.granted(answer)
