"""The caller of a request and the access that it needs: the kubelet's rules, as objects of the API.

Pure. Builds and reads TokenReviews and SubjectAccessReviews; ``reviews`` sends them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import NameOID

AUTHENTICATED: Final = "system:authenticated"
"""The group of every authenticated user; authenticators add it, as certificates do not contain it."""

PROXY: Final = "proxy"
"""The subresource of Nodes that stands for the whole kubelet API."""

_VERBS: Final[Mapping[str, str]] = {
    "GET": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
# The kubelet's finer subresources, by the first part of the path. A kubelet checks them before ``proxy`` for pods and
# healthz, and instead of it for stats and metrics. Here ``proxy`` is always enough, as it stands for the whole API.
_FINER: Final[Mapping[str, str]] = {
    "pods": "pods",
    "healthz": "healthz",
    "stats": "stats",
    "metrics": "metrics",
}
_STREAMS: Final = frozenset({"attach", "cri", "exec", "portForward", "run"})
# A WebSocket begins with GET, and yet it runs a command: whoever may only read must not.


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user. ``extra`` is sorted by key."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Access:
    """The access that a request needs: a verb on a subresource of a Node; an empty name means all Nodes."""

    verb: str
    subresource: str
    node: str


def accesses(method: str, path: str, node: str) -> tuple[Access, ...]:
    """The accesses of which a request needs one; the finer one comes first."""
    first = path.removeprefix("/").partition("/")[0]
    verb = "create" if first in _STREAMS else _VERBS.get(method, "")
    finer = (_FINER[first],) if first in _FINER else ()
    return tuple(Access(verb, subresource, node) for subresource in (*finer, PROXY))


def user_of_certificate(certificate: bytes) -> User | None:
    """The user that a client certificate names: its common name, and its organizations as groups.

    :param certificate: DER; TLS has checked that it is valid
    """
    subject = x509.load_der_x509_certificate(certificate).subject
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names or not names[-1].value:
        return None
    groups = [str(group.value) for group in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    return User(str(names[-1].value), _with_authenticated(groups))


def bearer_token(authorization: str | None) -> str | None:
    """The bearer token of an Authorization header, or None."""
    parts = (authorization or "").split()
    return parts[1] if len(parts) >= 2 and parts[0].lower() == "bearer" else None


def token_review(token: str) -> dict[str, Any]:
    """The TokenReview that asks whose token this is."""
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}


def user_of_review(answer: Mapping[str, Any]) -> User | None:
    """The token's user in an answered TokenReview; None for an invalid token."""
    status = answer.get("status") or {}
    user = status.get("user") or {}
    if status.get("authenticated") is not True or not user.get("username"):
        return None
    extra = user.get("extra") or {}
    return User(
        name=str(user["username"]),
        groups=_with_authenticated([str(group) for group in user.get("groups") or ()]),
        uid=str(user.get("uid") or ""),
        extra=tuple((str(key), tuple(str(value) for value in extra[key])) for key in sorted(extra)),
    )


def access_review(user: User, access: Access) -> dict[str, Any]:
    """The SubjectAccessReview that asks whether this user has this access."""
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
            "resourceAttributes": {
                "verb": access.verb,
                "version": "v1",
                "resource": "nodes",
                "subresource": access.subresource,
                "name": access.node,
            },
        },
    }


def is_allowed(answer: Mapping[str, Any]) -> bool:
    """Whether the answered SubjectAccessReview allows the access and does not deny it."""
    status = answer.get("status") or {}
    return status.get("allowed") is True and status.get("denied") is not True


def forbidden(user: User, asked: tuple[Access, ...]) -> str:
    """The kubelet's text for a refusal, which the API server passes on."""
    subresources = " ".join(access.subresource for access in asked)
    return f"Forbidden (user={user.name}, verb={asked[0].verb}, resource=nodes, subresource(s)=[{subresources}])"


def _with_authenticated(groups: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*groups, AUTHENTICATED]))
