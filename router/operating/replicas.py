"""The running webhook: its replicas, the policy and errors of each, and pending certificate requests.

Pure. Objects that could not be read are left out here; the caller names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from router import names
from router.pod.status import seconds

Json = Mapping[str, Any]
DIGEST: Final = 12
"""Hexadecimal digits of a policy's digest that are shown."""
_DAY: Final = 86400


@dataclass(frozen=True, slots=True)
class Replica:
    """One Pod of the webhook.

    ``policy``: the beginning of the digest of the policy in force, or empty. ``certificate_days``: whole days until the
    certificate in force expires, negative after that. ``ca_days``: the same for its CA, if ``ca.crt`` is beside the
    certificate. ``trouble``: the reason for each unusable file and other problem.
    ``known``: whether the replica answered.
    """

    name: str
    ready: bool
    known: bool
    policy: str = ""
    loaded: str = ""
    certificate_days: int | None = None
    trouble: Mapping[str, str] | None = None
    ca_days: int | None = None


@dataclass(frozen=True, slots=True)
class Webhook:
    """All replicas. ``wanted``: the number in the Deployment, or None."""

    wanted: int | None
    ready: int
    replicas: tuple[Replica, ...]

    @property
    def policies(self) -> frozenset[str]:
        """The policies in force; with more than one, replicas may decide differently."""
        return frozenset(one.policy for one in self.replicas if one.policy)


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """An agent's request for a serving certificate that waits for approval or denial; ``age`` in seconds."""

    name: str
    requester: str
    created: str
    age: int


def webhook(deployment: Json | None, pods: Iterable[Json], told: Mapping[str, Json | str], now: float) -> Webhook:
    """The webhook from its objects.

    :param told: each Pod's answer (``/statusz``) by its name, or why there is none
    :param now: seconds since 1970
    """
    spec, status = (deployment or {}).get("spec") or {}, (deployment or {}).get("status") or {}
    return Webhook(
        wanted=None if deployment is None else int(spec.get("replicas", 1)),
        ready=int(status.get("readyReplicas", 0)),
        replicas=tuple(_replica(pod, told.get(pod["metadata"]["name"]), now) for pod in pods),
    )


def _replica(pod: Json, said: Json | str | None, now: float) -> Replica:
    name, ready = str(pod["metadata"]["name"]), _is_ready(pod)
    if said is None or isinstance(said, str):
        trouble = {"pod": why} if (why := _waiting(pod) or said) else {}
        return Replica(name, ready, known=False, trouble=trouble)
    policy, certificate = said.get("policy") or {}, said.get("certificate") or {}
    return Replica(
        name=name,
        ready=ready,
        known=True,
        policy=str(policy.get("digest") or "")[:DIGEST],
        loaded=str(policy.get("loadedAt") or ""),
        certificate_days=_days(certificate.get("notAfter"), now),
        trouble={str(key): str(value) for key, value in (said.get("errors") or {}).items()},
        ca_days=_days(certificate.get("caNotAfter"), now),
    )


def _days(until: str | None, now: float) -> int | None:
    """Whole days until then, negative afterwards."""
    return int((datetime.fromisoformat(until).timestamp() - now) // _DAY) if until else None


def _is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _waiting(pod: Json) -> str:
    """Why its container does not run, by the kubelet; empty if it runs.

    It precedes the error of the missing answer: for example, a missing image is no problem of the network.
    """
    for container in (pod.get("status") or {}).get("containerStatuses") or []:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting:
            return ": ".join(str(waiting[key]) for key in ("reason", "message") if waiting.get(key))
    return ""


def pending(requests: Iterable[Json], now: float) -> tuple[PendingRequest, ...]:
    """The pending requests for serving certificates of virtual nodes, the oldest first."""
    waiting = [one for one in requests if is_ours(one) and not (one.get("status") or {}).get("conditions")]
    found = [_request(one, now) for one in waiting]
    return tuple(sorted(found, key=lambda one: (one.created, one.name)))


def is_ours(request: Json) -> bool:
    """Whether a request is an agent's. Its name decides, as an agent outside the cluster may have any account."""
    return str(request["metadata"]["name"]).startswith(names.REQUEST_PREFIX)


def _request(request: Json, now: float) -> PendingRequest:
    metadata, spec = request["metadata"], request["spec"]
    created = str(metadata["creationTimestamp"])
    age = max(0, int(now - (seconds(created) or now)))
    return PendingRequest(str(metadata["name"]), str(spec.get("username") or ""), created, age)
