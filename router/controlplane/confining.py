"""Protects this machine from Pods on the real node, which shares its kernel and files, by a rule of the API server.

Shell: applies one ValidatingAdmissionPolicy and waits until it is in force. Without it the node would run any Pod as
root. The rule excludes Pods on virtual nodes, which the guards handle.
"""

from __future__ import annotations

import json
from typing import Any, Final

from router.controlplane.plane import ControlPlane, await_condition
from router.controlplane.processes import Component
from router.names import NODE_SUFFIX

NAME: Final = "batchgate-cloud-node"
SENTENCE: Final = "is refused on this machine's own node, where it would reach the machine"
_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")
_HOST: Final = ("hostNetwork", "hostPID", "hostIPC")


def confine(plane: ControlPlane, node: Component) -> None:
    """Have the API server refuse Pods that could reach the machine. Raises ConfigError if the rule stays inactive."""
    plane.apply(*_objects())
    await_condition(node, lambda: NAME in plane.run_kubectl(*_DRY_RUN, stdin=json.dumps(_probe())).stderr)


_DRY_RUN: Final = ("create", "--dry-run=server", "-f", "-")


def _probe() -> dict[str, Any]:
    volume = {"name": "v", "hostPath": {"path": "/"}}
    spec = {"containers": [{"name": "c", "image": "probe"}], "volumes": [volume]}
    metadata = {"generateName": "probe-", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _objects() -> tuple[dict[str, Any], dict[str, Any]]:
    group = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": NAME}}
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["pods", "pods/ephemeralcontainers"],
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [
            {"name": "cloud", "expression": f"!object.spec.?nodeName.orValue('').endsWith('{NODE_SUFFIX}')"}
        ],
        "validations": [
            {"expression": expression, "message": f"{field} {SENTENCE}"} for field, expression in _rules().items()
        ],
    }
    binding = {"policyName": NAME, "validationActions": ["Deny"]}
    return (
        {**group, "kind": "ValidatingAdmissionPolicy", "spec": spec},
        {**group, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    )


def _rules() -> dict[str, str]:
    """For each field, a CEL expression that is true if the field is harmless."""
    rules = {"hostPath": "!object.spec.?volumes.orValue([]).exists(v, has(v.hostPath))"}
    rules |= {field: f"!object.spec.?{field}.orValue(false)" for field in _HOST}
    for field, harmful in (
        ("privileged", "c.?securityContext.?privileged.orValue(false)"),
        ("capabilities.add", "size(c.?securityContext.?capabilities.?add.orValue([])) > 0"),
    ):
        rules[field] = " && ".join([f"!object.spec.?{one}.orValue([]).exists(c, {harmful})" for one in _LISTS])
    return rules
