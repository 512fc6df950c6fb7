"""Reads when a container runs again: its own restartPolicy and its rules.

Pure. Kubernetes 1.35 and later have both for containers that are no sidecars (KEP-5307).
"""

from __future__ import annotations

from typing import Final

from router.errors import JobError
from router.workload.fields import Fields, Findings, as_integer, items, mapping, mappings, text
from router.workload.lifecycle import RestartRule, Restarts
from router.workload.model import ContainerKind

_POLICIES: Final = ("Always", "OnFailure", "Never")
_OPERATORS: Final = {"In": True, "NotIn": False}


def read_restarts(container: Fields, kind: ContainerKind, path: str, findings: Findings) -> Restarts | None:
    """The container's own policy and rules; None if it follows the Pod's. Raises JobError for what is invalid."""
    policy = text(container, "restartPolicy", path)
    listed = mappings(container, "restartPolicyRules", path)
    if not policy:
        if listed:
            raise JobError(f"{path}.restartPolicy", "must be set beside restartPolicyRules")
        return None
    if policy not in _POLICIES:
        raise JobError(f"{path}.restartPolicy", f"{policy[:40]!r} is none of {', '.join(_POLICIES)}")
    rules = [found for here, rule in listed if (found := _rule(rule, here, findings)) is not None]
    return None if kind is ContainerKind.SIDECAR else Restarts(policy, tuple(rules))


def _rule(rule: Fields, path: str, findings: Findings) -> RestartRule | None:
    action = text(rule, "action", path)
    if action != "Restart":
        findings.block(f"{path}.action", f"is {action[:40]!r}, and on HPC each container runs again by itself alone")
        return None
    codes, here = mapping(rule, "exitCodes", path), f"{path}.exitCodes"
    operator = text(codes, "operator", here)
    if operator not in _OPERATORS:
        raise JobError(f"{here}.operator", f"{operator[:40]!r} is none of {', '.join(_OPERATORS)}")
    values = [as_integer(one, f"{here}.values[{index}]") for index, one in enumerate(items(codes, "values", here))]
    return RestartRule(tuple(values), listed=_OPERATORS[operator])
