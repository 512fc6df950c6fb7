"""Tokens of service accounts, as far as their claims go: nobody here verifies a signature."""

from __future__ import annotations

import base64
import json
from typing import Any

from router import names


def token(namespace: str = "ns", account: str = "a", *, issued: int = 1000, expires: int = 4600, **changes: Any) -> str:
    """A token with these claims; ``changes`` replaces some, and None takes one out."""
    claims = {"sub": f"{names.SERVICE_ACCOUNT}{namespace}:{account}", "iat": issued, "exp": expires} | changes
    parts = ({"alg": "none"}, {key: value for key, value in claims.items() if value is not None})
    return ".".join([*(encoded(json.dumps(part).encode()) for part in parts), "signature"])


def encoded(raw: bytes) -> str:
    """As in a token: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
