"""Which namespaces' Jobs the webhook judges, by the selectors of its registration."""

from __future__ import annotations

from typing import Any

import pytest

from router.operating.gating import judged_namespaces

LABELS = {
    "lab": {"batchgate.dev/gate": "enabled", "kubernetes.io/metadata.name": "lab"},
    "out": {"batchgate.dev/gate": "disabled", "kubernetes.io/metadata.name": "out"},
    "plain": {"kubernetes.io/metadata.name": "plain"},
    "kube-system": {"kubernetes.io/metadata.name": "kube-system"},
}
NOT_SYSTEM = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}


def gate(operator: str, *values: str) -> dict[str, Any]:
    return {"key": "batchgate.dev/gate", "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.parametrize(
    ("selector", "judged"),
    [
        ({"matchExpressions": [gate("In", "enabled"), NOT_SYSTEM]}, {"lab"}),
        ({"matchExpressions": [gate("NotIn", "disabled"), NOT_SYSTEM]}, {"lab", "plain"}),
        ({"matchExpressions": [gate("Exists")]}, {"lab", "out"}),
        ({"matchExpressions": [gate("DoesNotExist")]}, {"plain", "kube-system"}),
        ({"matchLabels": {"batchgate.dev/gate": "disabled"}}, {"out"}),
        ({"matchLabels": {"batchgate.dev/gate": "disabled"}, "matchExpressions": [gate("In", "enabled")]}, set()),
        ({"matchExpressions": [gate("Near", "enabled")]}, set()),
        ({}, set(LABELS)),
        (None, set(LABELS)),
    ],
)
def test_namespaces_are_those_that_the_registration_selects(selector: dict[str, Any] | None, judged: set[str]) -> None:
    switching = {"name": "switching.jobs.batchgate.dev", "namespaceSelector": {}}
    registration = {"webhooks": [switching, {"name": "jobs.batchgate.dev", "namespaceSelector": selector}]}

    assert judged_namespaces(registration, LABELS) == frozenset(judged)


@pytest.mark.parametrize("registration", [None, {}, {"webhooks": []}, {"webhooks": [{"name": "others"}]}])
def test_without_the_entry_they_are_unknown(registration: dict[str, Any] | None) -> None:
    assert judged_namespaces(registration, LABELS) is None
