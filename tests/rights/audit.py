"""Which rights the roles give, and which of them the API server's audit log shows in use.

Pure: the objects of the chart and lines of the log come in as values.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from router import names

Json = dict[str, Any]

_ACCOUNT: Final = "system:serviceaccount:"
_ALLOWED: Final = re.compile(r'RBAC: allowed by (?P<kind>\w+) "(?P<name>[^"/]+)(?:/[^"]+)?" of ')
POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": [f"{_ACCOUNT[:-1]}s:{names.SYSTEM_NAMESPACE}"]}, {"level": "None"}],
}
"""An audit policy: who asked for what, of the programs' own accounts, and by which binding they may."""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource that a binding gives an account.

    ``account``: the service account's name. ``name``: of the object, or empty for every one. ``binding``: its kind and
    name.
    """

    account: str
    group: str
    resource: str
    verb: str
    name: str
    binding: str

    def __str__(self) -> str:
        where = f" {self.name}" * bool(self.name)
        return f"{self.account}: {self.verb} {self.resource}.{self.group}".rstrip(".") + where + f" by {self.binding}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of an account, and the binding that allowed it; ``code`` is the answer's status."""

    right: Right
    code: int
    path: str


def asked(lines: Iterable[str]) -> list[Asked]:
    """The requests of an audit log that concern resources of the API."""
    return [_asked(event) for event in map(json.loads, lines) if "objectRef" in event]


def _asked(event: Json) -> Asked:
    target = event["objectRef"]
    resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
    allowed = _ALLOWED.match(event.get("annotations", {}).get("authorization.k8s.io/reason", ""))
    right = Right(
        account=event["user"]["username"].rpartition(":")[2],
        group=target.get("apiGroup", ""),
        resource=resource,
        verb=event["verb"],
        name=target.get("name", ""),
        binding=f"{allowed['kind']} {allowed['name']}" if allowed else "",
    )
    return Asked(right, event.get("responseStatus", {}).get("code", 0), event["requestURI"])


def granted(objects: Iterable[Json]) -> set[Right]:
    """Every right that bindings of these objects give programs, by roles among them. People's are left out."""
    found = list(objects)
    rules = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one["rules"]
        for one in found
        if one["kind"] in {"Role", "ClusterRole"}
    }
    return {right for one in found if one["kind"].endswith("Binding") and "roleRef" in one for right in _of(one, rules)}


def _of(binding: Json, rules: dict[tuple[str, str, str], list[Json]]) -> Iterator[Right]:
    role = binding["roleRef"]
    where = binding["metadata"].get("namespace", "") if role["kind"] == "Role" else ""
    named = f"{binding['kind']} {binding['metadata']['name']}"
    programs = [one for one in binding["subjects"] if one["kind"] == "ServiceAccount"]
    for rule, subject in itertools.product(rules.get((role["kind"], where, role["name"]), ()), programs):
        for group, resource, verb, name in itertools.product(
            rule["apiGroups"], rule["resources"], rule["verbs"], rule.get("resourceNames", [""])
        ):
            yield Right(subject["name"], group, resource, verb, name, named)


def unused(rights: Iterable[Right], requests: Iterable[Asked]) -> list[Right]:
    """The rights by which no request was allowed."""
    used = {one.right for one in requests}
    used |= {Right(one.account, one.group, one.resource, one.verb, "", one.binding) for one in used}
    return sorted(set(rights) - used)


def refused(requests: Iterable[Asked]) -> list[str]:
    """The requests that were forbidden, each once."""
    return sorted({f"{one.right.account}: {one.right.verb} {one.path}" for one in requests if one.code == 403})
