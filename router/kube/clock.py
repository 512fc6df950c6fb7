"""Asks the API server who the caller is, and what time it is, by which times that others wrote are judged.

Shell. The caller's own clock may be wrong: that of a laptop, or of a login node without NTP.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from router.errors import ApiError
from router.kube.client import Api

_REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_KIND: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who the caller is by the API server. ``time``: its clock then, in seconds since 1970, or None if it is unknown."""

    user: str
    groups: tuple[str, ...]
    time: float | None


def ask_who(api: Api) -> Caller:
    """Ask by a SelfSubjectReview (Kubernetes 1.28). Raises ApiError.

    Everybody may ask who they are. The answer, which is stored nowhere, has a time of creation, to the second.
    """
    answer = api.create(_REVIEWS, dict(_KIND))
    who = (answer.get("status") or {}).get("userInfo") or {}
    try:
        moment = datetime.fromisoformat((answer.get("metadata") or {}).get("creationTimestamp") or "").timestamp()
    except ValueError:
        moment = None
    return Caller(str(who.get("username") or ""), tuple(who.get("groups") or ()), moment)


def server_time(api: Api) -> float:
    """Seconds since 1970, to the second; by the caller's clock where the API server does not say."""
    try:
        moment = ask_who(api).time
    except ApiError:
        moment = None
    return time.time() if moment is None else moment
