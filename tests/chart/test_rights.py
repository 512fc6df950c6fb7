"""What the chart's accounts may write: who answers the network writes nearly nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.chart.rendering import NEEDED, objects
from tests.chart.test_options import VALUES

Json = dict[str, Any]
_READS = {"get", "list", "watch"}


def written(found: list[Json], account: str) -> set[tuple[str, str, str]]:
    """What an account may write: verb, resource, and the one name that it is limited to, or ``*``."""
    roles = {(one["kind"], one["metadata"]["name"]): one["rules"] for one in found if one["kind"].endswith("Role")}
    bindings = [one for one in found if one["kind"].endswith("RoleBinding")]
    rules: list[Mapping[str, Any]] = [
        rule
        for one in bindings
        if any(subject["name"] == account for subject in one["subjects"])
        for rule in roles.get((one["roleRef"]["kind"], one["roleRef"]["name"]), ())
    ]
    return {
        (verb, resource, name)
        for rule in rules
        for verb in rule["verbs"]
        if verb not in _READS
        for resource in rule["resources"]
        for name in rule.get("resourceNames", ["*"])
    }


@pytest.mark.parametrize("name", VALUES)
def test_the_webhook_writes_only_which_policy_it_has_in_force(name: str) -> None:
    assert written(objects(VALUES[name]), "batchgate-webhook") == {("patch", "configmaps", "batchgate-policy-state")}


@pytest.mark.parametrize("name", VALUES)
def test_the_webhook_reads_no_secret_but_those_that_are_mounted(name: str) -> None:
    found = objects(VALUES[name])
    roles = {
        one["roleRef"]["name"]
        for one in found
        if one["kind"].endswith("RoleBinding") and one["subjects"][0]["name"] == "batchgate-webhook"
    }
    resources = {
        resource
        for one in found
        if one["kind"].endswith("Role") and one["metadata"]["name"] in roles
        for rule in one["rules"]
        for resource in rule["resources"]
    }

    claims = {"persistentvolumeclaims", "persistentvolumes"} if name == "everything" else set()
    assert resources == {"namespaces", "limitranges", "resourcequotas", "runtimeclasses", "configmaps", *claims}


def test_rotation_writes_certificates_keys_and_the_registrations() -> None:
    assert written(objects(VALUES["the least"]), "batchgate-rotation") == {
        ("update", "secrets", "batchgate-webhook-ca"),
        ("update", "secrets", "batchgate-webhook-tls"),
        ("update", "secrets", "batchgate-signing-key"),
        ("update", "configmaps", "batchgate-public-keys"),
        ("update", "mutatingwebhookconfigurations", "batchgate"),
        ("update", "validatingwebhookconfigurations", "batchgate"),
        ("create", "secrets", "*"),
        ("create", "configmaps", "*"),
    }


_LOG: Json = {"decisionLog": {"enabled": True, "claim": "decisions"}}
_READ_IN_CLUSTER = {
    *((resource, "*") for resource in ("jobs", "cronjobs", "namespaces", "limitranges", "runtimeclasses")),
    ("mutatingwebhookconfigurations", "batchgate"),
    ("configmaps", "batchgate-public-keys"),
}


@pytest.mark.parametrize(
    ("values", "read"),
    [
        ({"policyReports": {"enabled": True}}, _READ_IN_CLUSTER),
        (
            {"policyReports": {"enabled": True}, "webhook": {"claims": True}},
            {*_READ_IN_CLUSTER, ("persistentvolumeclaims", "*"), ("persistentvolumes", "*")},
        ),
        ({"policyReports": {"enabled": True, "decisionLog": True}, "webhook": _LOG}, set()),
    ],
)
def test_policy_reports_write_one_name_and_read_what_they_rest_on(values: Json, read: set[tuple[str, str]]) -> None:
    found = objects(NEEDED | values)
    account = "batchgate-policy-reports"
    kinds = ("policyreports", "reports")

    assert written(found, account) == {
        (verb, kind, "batchgate-audit") for verb in ("create", "patch", "delete") for kind in kinds
    }
    assert {
        (resource, name)
        for one in found
        if one["kind"].endswith("Role") and one["metadata"]["name"] == account
        for rule in one["rules"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", ["*"])
    } == {*read, *((kind, "batchgate-audit") for kind in kinds), ("configmaps", "batchgate-policies")}
