"""Reads the claims of a service account's token, asks for tokens, and says when one is to be renewed.

Pure. The API server alone judges a token, so nothing is verified here. The claims only say whose the token is, and how
long it lasts. A token is a secret: no message shows it.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from router.errors import InputError
from router.names import SERVICE_ACCOUNT

Json = dict[str, Any]

RENEWED_AT: Final = 0.5
"""The share of a token's life after which it is renewed: the other half is left for an API server that is down."""
LOOK_SECONDS: Final = 3600.0
"""Most seconds between two looks at whether a token is due."""
PAUSE_SECONDS: Final = 60.0
"""Time between two tries, where one has failed."""
LEAST_SECONDS: Final = 600
"""The shortest life that the API server grants."""


@dataclass(frozen=True, slots=True)
class Claims:
    """Whose a token is, and its life, in seconds since 1970."""

    namespace: str
    account: str
    issued: int
    expires: int

    @property
    def user(self) -> str:
        """The user name that the API server gives its bearer."""
        return f"{SERVICE_ACCOUNT}{self.namespace}:{self.account}"


def claims(token: str) -> Claims:
    """The claims of a token. Raises InputError if it is no service account's token with an end."""
    parts = token.strip().split(".")
    if len(parts) != 3:
        raise InputError("the token is no JSON web token (three parts with dots between them)")
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        found = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise InputError("the token is no JSON web token: its claims are no JSON") from None
    subject = str(found.get("sub") if isinstance(found, dict) else "")
    namespace, _, account = subject.removeprefix(SERVICE_ACCOUNT).partition(":")
    if not subject.startswith(SERVICE_ACCOUNT) or not namespace or not account:
        raise InputError("the token is no service account's")
    issued, expires = found.get("iat"), found.get("exp")
    if not isinstance(issued, int) or not isinstance(expires, int) or expires <= issued:
        raise InputError("the token does not say when it was issued and when it ends")
    return Claims(namespace, account, issued, expires)


def renew_at(held: Claims) -> float:
    """When the token is to be renewed, in seconds since 1970."""
    return held.issued + (held.expires - held.issued) * RENEWED_AT


def pause(held: Claims, now: float, *, failed: bool) -> float:
    """Seconds until the next try to renew a token.

    :param now: seconds since 1970
    :param failed: whether the last try has failed
    """
    # A clock may be so wrong that each new token seems to be old, or that none seems to end; it may be set right later.
    return PAUSE_SECONDS if failed else min(LOOK_SECONDS, max(PAUSE_SECONDS, renew_at(held) - now))


def warning(held: Claims, problem: str, now: float) -> str:
    """What to say of a token whose renewal fails; empty while all is well.

    :param problem: why the last try has failed; empty if it has not
    """
    until = shown(held.expires)
    if now >= held.expires:
        words = f"the agent's credential has ended ({until})"
        return f"{words}: run `batchgate site add` and `batchgate site install` again" + (
            f"; {problem}" * bool(problem)
        )
    return f"the agent's credential ends {until} and is not renewed: {problem}" if problem else ""


def shown(moment: float) -> str:
    """A moment in seconds since 1970, as people read it."""
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S} UTC"


def path(namespace: str, account: str) -> str:
    """Where a token of an account is asked for."""
    return f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"


def request(seconds: int) -> Json:
    """The request for a token that lasts this long; the server may grant less."""
    spec = {"expirationSeconds": max(seconds, LEAST_SECONDS)}
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


def granted(answer: Json) -> str:
    """The token in the API server's answer. Raises InputError without one."""
    token = (answer.get("status") or {}).get("token")
    if not isinstance(token, str) or not token:
        raise InputError("the API server's answer has no token")
    return token
