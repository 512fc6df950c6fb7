"""Reads the API server's clock, by which times that others wrote into the cluster are judged.

Shell. The caller's own clock may be wrong: that of a laptop, or of a login node without NTP.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Final

from router.errors import ApiError
from router.kube.client import Api

_REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_KIND: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def server_time(api: Api) -> float:
    """Seconds since 1970, to the second; by the caller's clock where the API server does not say.

    Everybody may ask who they are. The answer, which is stored nowhere, has a time of creation.
    """
    try:
        answer = api.create(_REVIEWS, dict(_KIND))
        return datetime.fromisoformat(answer["metadata"].get("creationTimestamp") or "").timestamp()
    except (ApiError, ValueError):
        return time.time()
