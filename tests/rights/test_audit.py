"""What counts as granted, as used, and as refused."""

from __future__ import annotations

import json
from typing import Any

from tests.rights.audit import Asked, Right, asked, granted, refused, unused

Json = dict[str, Any]
BY = "RoleBinding reads"


def rule(resources: list[str], verbs: list[str], *names: str) -> Json:
    named = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [""], "resources": resources, "verbs": verbs, **named}


def role(*rules: Json) -> Json:
    return {"kind": "Role", "metadata": {"name": "reader", "namespace": "ours"}, "rules": list(rules)}


def binding(kind: str = "RoleBinding", of: str = "Role", name: str = "reader") -> Json:
    metadata = {"name": "reads"} | ({"namespace": "ours"} if kind == "RoleBinding" else {})
    subject = {"kind": "ServiceAccount", "name": "a", "namespace": "ours"}
    return {"kind": kind, "metadata": metadata, "roleRef": {"kind": of, "name": name}, "subjects": [subject]}


def event(verb: str, resource: str, name: str = "", *, code: int = 200, by: str = 'RoleBinding "reads/ours"') -> str:
    reason = f'RBAC: allowed by {by} of Role "reader" to ServiceAccount "a/ours"' if code != 403 else ""
    return json.dumps(
        {
            "user": {"username": "system:serviceaccount:ours:a"},
            "verb": verb,
            "requestURI": f"/api/v1/{resource}",
            "objectRef": {"resource": resource, "apiVersion": "v1", "name": name},
            "responseStatus": {"code": code},
            "annotations": {"authorization.k8s.io/reason": reason},
        }
    )


def test_a_rule_gives_each_verb_on_each_resource_and_name() -> None:
    rules = (rule(["pods", "pods/log"], ["get"]), rule(["secrets"], ["get", "update"], "x", "y"))

    assert granted([role(*rules), binding()]) == {
        Right("a", "", "pods", "get", "", BY),
        Right("a", "", "pods/log", "get", "", BY),
        *(Right("a", "", "secrets", verb, name, BY) for verb in ("get", "update") for name in ("x", "y")),
    }


def test_roles_of_others_and_unbound_ones_give_nothing_of_ours() -> None:
    assert granted([role(rule(["pods"], ["get"]))]) == set()
    assert granted([role(rule(["pods"], ["get"])), binding("ClusterRoleBinding", "ClusterRole", "view")]) == set()


def test_a_right_is_used_by_a_request_that_its_own_binding_allowed() -> None:
    rights = granted([role(rule(["pods", "nodes"], ["get"]), rule(["secrets"], ["get"], "x", "y")), binding()])
    lines = [
        event("get", "pods", "any"),
        event("get", "secrets", "x"),
        event("get", "nodes", "any", by='ClusterRoleBinding "another"'),
        json.dumps({"verb": "get", "requestURI": "/version", "user": {"username": "a"}}),
    ]

    assert [str(one) for one in unused(rights, asked(lines))] == [
        "a: get nodes by RoleBinding reads",
        "a: get secrets y by RoleBinding reads",
    ]


def test_what_is_forbidden_is_told_once() -> None:
    requests = asked([event("list", "pods", code=403)] * 2 + [event("get", "pods", "gone", code=404)])

    assert refused(requests) == ["a: list /api/v1/pods"]
    assert requests[-1] == Asked(Right("a", "", "pods", "get", "gone", BY), 404, "/api/v1/pods")
