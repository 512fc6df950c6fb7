"""Whether a site's agent may bring the credentials that the policy says it brings: Secrets, and service account tokens.

Pure. The API server answers the reviews; it alone knows what roles and bindings come to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from router import names
from router.site.schema import Site

ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SELF_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
MOST: Final = 100
"""Most questions of one command: each is a request to the API server."""
_STAGE: Final = "stage"
_ASKS: Final = {
    names.SECRETS_ROLE: {"verb": "get", "resource": "secrets"},
    names.TOKENS_ROLE: {"verb": "create", "resource": "serviceaccounts", "subresource": "token"},
}
_WORDS: Final = {names.SECRETS_ROLE: "read Secrets", names.TOKENS_ROLE: "create tokens"}


@dataclass(frozen=True, slots=True)
class Needed:
    """A right that an agent needs in a namespace.

    :param role: the ClusterRole that has it
    :param account: the agent's user name, ``system:serviceaccount:<namespace>:<name>``
    """

    site: str
    namespace: str
    role: str
    account: str


@dataclass(frozen=True, slots=True)
class Right:
    """An answer. ``allowed`` is None where asking failed; ``change`` is the command that gives the right."""

    site: str
    namespace: str
    right: str
    allowed: bool | None
    change: str = ""


def brings(site: Site) -> bool:
    """Whether a site brings Secrets or tokens."""
    return _STAGE in (site.secrets, site.tokens)


def needed(site: Site, namespaces: Iterable[str], account: str) -> Iterator[Needed]:
    """What the agent of a site needs in these namespaces, by the site's ``secrets`` and ``tokens``."""
    roles = [
        role for role, said in ((names.SECRETS_ROLE, site.secrets), (names.TOKENS_ROLE, site.tokens)) if said == _STAGE
    ]
    for namespace in sorted(set(namespaces)):
        for role in roles:
            yield Needed(site.name, namespace, role, account)


def review(one: Needed) -> dict[str, Any]:
    """The SubjectAccessReview about the agent's account, for who may ask about others."""
    space = one.account.split(":")[2]
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{space}", "system:authenticated"]
    spec = {"user": one.account, "groups": groups, "resourceAttributes": _attributes(one)}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


def own_review(one: Needed) -> dict[str, Any]:
    """The SelfSubjectAccessReview of the agent itself, which everybody may create."""
    spec = {"resourceAttributes": _attributes(one)}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}


def _attributes(one: Needed) -> dict[str, str]:
    return {"namespace": one.namespace, "version": "v1", **_ASKS[one.role]}


def answered(one: Needed, answer: Mapping[str, Any] | None) -> Right:
    """What an answered review says, or None. A Role that names single Secrets or accounts counts as missing."""
    status = (answer or {}).get("status") or {}
    allowed = None if answer is None else status.get("allowed") is True and status.get("denied") is not True
    _, _, space, name = one.account.split(":")
    change = binding(one.namespace, one.role, space, name) if allowed is False else ""
    return Right(one.site, one.namespace, _WORDS[one.role], allowed, change)


def account_of(space: str, name: str) -> str:
    """The user name of a service account."""
    return f"{names.SERVICE_ACCOUNT}{space}:{name}"


def is_account(user: str) -> bool:
    """Whether a user name is that of a service account."""
    return user.startswith(names.SERVICE_ACCOUNT) and user.count(":") == names.SERVICE_ACCOUNT.count(":") + 1


def binding(namespace: str, role: str, space: str, account: str) -> str:
    """The command by which an admin of a namespace gives a right to a service account."""
    kind = role.removeprefix("batchgate-")
    return (
        f"kubectl -n {namespace} create rolebinding {account}-{kind} --clusterrole {role} "
        f"--serviceaccount {space}:{account}"
    )
