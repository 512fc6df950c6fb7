"""Reads the Secrets of Pods, in namespaces whose admin has given the agent the right to.

Shell. Only Secrets that a signed template names are asked for, and what is read is kept nowhere. No message holds a
value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from router import names
from router.errors import ApiError, BatchgateError, TooLarge
from router.kube.client import Api
from router.site.rights import binding

MOST: Final = 50
"""Most Secrets of one Pod's files. Each may hold a megabyte, and every try reads all of them again."""
_FORBIDDEN: Final = 403
_ACCOUNT: Final = re.compile(r'User "system:serviceaccount:([a-z0-9-]{1,63}):([a-z0-9.-]{1,253})"')
_CHART_VALUES: Final = {
    names.PULL_SECRETS_ROLE: "pullSecrets.enabled",
    names.SECRETS_ROLE: "secrets.enabled",
    names.TOKENS_ROLE: "tokens.enabled",
}

Json = dict[str, Any]


class NotAllowed(BatchgateError):
    """An admin of the cluster has not given the agent a right; the message has the command that gives it."""


def read(api: Api, namespace: str, wanted: Iterable[str]) -> dict[str, Json]:
    """The Secrets of a namespace that exist, by name.

    :raises NotAllowed: the agent may not read them
    :raises TooLarge: more than ``MOST`` are wanted
    :raises ApiError: the API server does not answer
    """
    listed = tuple(wanted)
    if len(listed) > MOST:
        raise TooLarge("spec", f"needs {len(listed)} Secrets; at most {MOST} are brought to a site for one Pod")
    found = {name: find(api, namespace, name, names.SECRETS_ROLE) for name in listed}
    return {name: secret for name, secret in found.items() if secret is not None}


def find(api: Api, namespace: str, name: str, role: str) -> Json | None:
    """One Secret, or None. Raises like ``read``.

    :param role: the ClusterRole that an admin binds for it
    """
    try:
        return api.find(f"/api/v1/namespaces/{namespace}/secrets/{name}")
    except ApiError as error:
        if error.status != _FORBIDDEN:
            raise
        raise NotAllowed(f"the agent may not read Secret {name}: {granting(error, namespace, role)}") from None


def granting(error: ApiError, namespace: str, role: str) -> str:
    """What an admin runs to give a right that the API server has refused.

    Its message names the account, and roles that are bound but missing: `kubectl create rolebinding` does not look.
    """
    kind = role.removeprefix("batchgate-")
    if f'clusterrole.rbac.authorization.k8s.io "{role}" not found' in error.message:
        return (
            f"it is bound to the ClusterRole {role}, which is missing: an admin of the cluster makes it with "
            f"`kubectl apply -k manifests/{kind}`, or with the chart's value {_CHART_VALUES[role]}"
        )
    account = _ACCOUNT.search(error.message)
    space, name = account.groups() if account else (names.SYSTEM_NAMESPACE, names.AGENT_ACCOUNT)
    return f"an admin of namespace {namespace} allows it with `{binding(namespace, role, space, name)}`"
