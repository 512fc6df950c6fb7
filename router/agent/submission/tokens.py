"""Asks the API server for tokens of service accounts that are bound to Pods, where an admin has given the right to.

Shell. A token is bound to its Pod, so it ends with it. No message holds one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from router import names
from router.agent.submission.secrets import NotAllowed, granting
from router.errors import ApiError, TooLarge
from router.kube.client import Api
from router.pod.accounttoken import Wanted
from router.workload.expand import SERVICES

MOST: Final = 20
"""Most tokens of one Pod."""
_SHARE: Final = 0.8
"""Part of a token's life after which a kubelet renews it; ``_LONGEST`` are the most seconds."""
_LONGEST: Final = 86400.0
_FORBIDDEN: Final = 403
_PORT: Final = 443

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Given:
    """Tokens by the path of their file below ``files``, and when the first of them ends, in seconds since 1970."""

    tokens: Mapping[str, str] = field(repr=False)
    ends: float | None = None

    def renewal(self, now: float) -> float | None:
        """When to renew tokens that were given now, in seconds since 1970; None without any."""
        return None if self.ends is None else now + min(_SHARE * (self.ends - now), _LONGEST)


def request(api: Api, pod: Json, wanted: Sequence[Wanted]) -> Given:
    """New tokens for a Pod.

    :raises NotAllowed: the agent may not create tokens of the Pod's service account
    :raises TooLarge: more than ``MOST`` are wanted
    :raises ApiError: the API server refuses, e.g. as the account is gone, or does not answer
    """
    if len(wanted) > MOST:
        raise TooLarge(
            "spec.volumes", f"need {len(wanted)} service account tokens; at most {MOST} are brought to a site"
        )
    tokens, ends = {}, []
    for one in wanted:
        status = _request(api, pod, one)
        tokens[one.path] = str(status["token"])
        ends.append(datetime.fromisoformat(status["expirationTimestamp"]).timestamp())
    return Given(tokens, min(ends, default=None))


def _request(api: Api, pod: Json, one: Wanted) -> Json:
    metadata, account = pod["metadata"], pod["spec"].get("serviceAccountName") or "default"
    namespace = metadata["namespace"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
    spec = {
        "audiences": [one.audience] if one.audience else [],
        "expirationSeconds": one.seconds,
        "boundObjectRef": bound,
    }
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    try:
        answer = api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", body)
    except ApiError as error:
        if error.status != _FORBIDDEN:
            raise
        words = f"the agent may not create a token of service account {account}: "
        raise NotAllowed(words + granting(error, namespace, names.TOKENS_ROLE)) from None
    status: Json = answer["status"]
    return status


def service_variables(api_server: str | None) -> dict[str, str]:
    """The variables by which programs in a cluster find the API server.

    :param api_server: ``https://host:port``, as the site's nodes reach it
    """
    if api_server is None:
        return {}
    found = urlsplit(api_server)
    port = str(found.port or _PORT)
    return dict(zip(SERVICES, (found.hostname or "", port, port), strict=True))
