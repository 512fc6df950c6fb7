"""The objects that give the agents of one site, outside the cluster, an account of their own.

Pure. The rules are those of every agent, as ``manifests/base`` has them: here they are only bound. One more is the
account's own, to renew its credential: to create tokens of itself, and of no other account.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from router import names

Json = dict[str, Any]

_RBAC: Final = "rbac.authorization.k8s.io"
_RULES: Final = f"/apis/{_RBAC}/v1"
BINDINGS: Final = f"{_RULES}/clusterrolebindings"
"""Where the one object of a site lies that outlives all namespaces."""
_SYSTEM: Final = "kube-system"
_READER: Final = "extension-apiserver-authentication-reader"
"""Kubernetes' own Role for reading the CA of client certificates."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One object and its path."""

    path: str
    body: Json

    @property
    def words(self) -> str:
        """Its kind, namespace and name, for people."""
        metadata = self.body["metadata"]
        namespace = f"{metadata['namespace']}/" if "namespace" in metadata else ""
        return f"{self.body['kind']} {namespace}{metadata['name']}"


def needed(namespace: str) -> dict[str, str]:
    """The paths of what must be there already, by their names for people.

    :param namespace: that of Batchgate's own objects
    """
    return {
        f"Namespace {namespace}": f"/api/v1/namespaces/{namespace}",
        f"ClusterRole {names.AGENT_ACCOUNT}": f"{_RULES}/clusterroles/{names.AGENT_ACCOUNT}",
        f"Role {namespace}/{names.AGENT_ACCOUNT}": f"{_RULES}/namespaces/{namespace}/roles/{names.AGENT_ACCOUNT}",
        f"Role {names.NODE_LEASES}/{names.AGENT_ACCOUNT}": (
            f"{_RULES}/namespaces/{names.NODE_LEASES}/roles/{names.AGENT_ACCOUNT}"
        ),
    }


def objects(site: str, namespace: str) -> tuple[Placed, ...]:
    """The account and its bindings, in the order of making them: the account first, so that it can be bound."""
    account = names.agent_account(site)
    renewing = f"{account}-token"
    rule = {
        "apiGroups": [""],
        "resources": ["serviceaccounts/token"],
        "resourceNames": [account],
        "verbs": ["create"],
    }
    role = _object(_RBAC, "Role", renewing, namespace, site) | {"rules": [rule]}
    return (
        Placed(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}",
            # Its agent is no Pod; none would get a token of it by naming it.
            _object("", "ServiceAccount", account, namespace, site) | {"automountServiceAccountToken": False},
        ),
        Placed(f"{_RULES}/namespaces/{namespace}/roles/{renewing}", role),
        _binding(site, namespace, renewing, within=namespace, role=renewing),
        _binding(site, namespace, account, within=namespace, role=names.AGENT_ACCOUNT),
        _binding(site, namespace, account, within=names.NODE_LEASES, role=names.AGENT_ACCOUNT),
        _binding(site, namespace, account, within=_SYSTEM, role=_READER),
        _binding(site, namespace, account, within="", role=names.AGENT_ACCOUNT),
    )


def _binding(site: str, namespace: str, name: str, *, within: str, role: str) -> Placed:
    """A binding of a Role in ``within`` or, if that is empty, of a ClusterRole everywhere."""
    kind = "RoleBinding" if within else "ClusterRoleBinding"
    place = f"{_RULES}/namespaces/{within}/rolebindings" if within else BINDINGS
    account = {"kind": "ServiceAccount", "name": names.agent_account(site), "namespace": namespace}
    body = _object(_RBAC, kind, name, within, site) | {
        "roleRef": {"apiGroup": _RBAC, "kind": "Role" if within else "ClusterRole", "name": role},
        "subjects": [account],
    }
    return Placed(f"{place}/{name}", body)


def _object(group: str, kind: str, name: str, namespace: str, site: str) -> Json:
    labels = {"app.kubernetes.io/part-of": "batchgate", names.KEY_SITE: site}
    metadata: Json = {"name": name, "labels": labels} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, "metadata": metadata}
