"""What may differ between a Job and its routed copy, checked without the code that routes.

Written from the table of changes itself ("What the webhook changes in a Job that goes to HPC: this, and nothing else"):
``surplus`` returns every other difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

OURS = "batchgate.dev/"
OUTLASTED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
CONDITIONS = {"batchgate.dev/WalltimeExceeded", "batchgate.dev/OutOfMemory", "batchgate.dev/JobDeleted"}
ABSENT = object()

RECORD = {
    "metadata.labels": {"target", "site", "queue"},
    "metadata.annotations": {"rule", "reason", "replaced"},
    "spec.template.metadata.labels": {"target", "site", "queue"},
    "spec.template.metadata.annotations": {"rule", "reason", "script", "requester", "groups", "account", "signature"},
    "spec.template.spec.nodeSelector": {"site", "queue"},
}
KEPT_RECORD = {"metadata.labels": {"target"}, "metadata.annotations": {"rule", "reason", "requester"}}


def surplus_kept(old: Any, new: Any) -> list[str]:
    """Differences between a Job that stays in the cloud and its copy, beyond the record on the Job itself."""
    return [
        f"{path}: {a!r} -> {b!r}"
        for path, a, b in differences(old, new)
        if not (path == "metadata" and _are_records(path, a, b, KEPT_RECORD))
        and not _is_record(path, a, b, KEPT_RECORD)
    ]


def surplus(old: Any, new: Any) -> list[str]:
    """Differences between a Job and its routed copy that the table does not have."""
    return [f"{path}: {a!r} -> {b!r}" for path, a, b in differences(old, new) if not _allowed(path, a, b, old, new)]


def differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Each field that is not the same, by its path. Records' entries and lists count as one field each."""
    if isinstance(old, dict) and isinstance(new, dict) and path not in RECORD:
        for key in [*old, *(key for key in new if key not in old)]:
            below = f"{path}.{key}" if path else key
            yield from differences(old.get(key, ABSENT), new.get(key, ABSENT), below)
    elif type(old) is not type(new) or old != new:
        yield path, old, new


def _allowed(path: str, a: Any, b: Any, old: Any, new: Any) -> bool:
    if path in {"metadata", "spec.template.metadata"}:
        return _are_records(path, a, b, RECORD)
    if path in RECORD:
        return _is_record(path, a, b, RECORD)
    return path in FIELDS and bool(FIELDS[path](a, b, old["spec"], new["spec"]))


def _moved(a: Any, b: Any, old: Any, new: Any) -> bool:
    own = old["template"]["spec"].get("activeDeadlineSeconds")
    return b is ABSENT and bool(new["template"]["spec"]["activeDeadlineSeconds"] == (a if own is None else own))


FIELDS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "spec.podReplacementPolicy": lambda _a, b, _old, _new: b == "Failed",
    "spec.activeDeadlineSeconds": _moved,
    "spec.podFailurePolicy": lambda a, b, old, _new: a in (ABSENT, None) and _is_our_failure_policy(b, old),
    "spec.template.spec.activeDeadlineSeconds": lambda a, b, old, _new: (
        a in (ABSENT, None) and b == old["activeDeadlineSeconds"]
    ),
    "spec.template.spec.automountServiceAccountToken": lambda _a, b, _old, _new: b is False,
    "spec.template.spec.nodeName": lambda a, b, _old, _new: a in (ABSENT, None, "") and b.endswith(".batchgate"),
    "spec.template.spec.tolerations": lambda a, b, _old, _new: _are_tolerations(a, b),
}


def _are_records(path: str, a: Any, b: Any, table: dict[str, set[str]]) -> bool:
    """Whether metadata that was not there holds the record and nothing else."""
    return a in (ABSENT, None) and all(_is_record(f"{path}.{kind}", ABSENT, b[kind], table) for kind in b)


def _is_record(path: str, a: Any, b: Any, table: dict[str, set[str]]) -> bool:
    if path not in table or not isinstance(b, dict):
        return False
    before = a if isinstance(a, dict) else {}
    added = {key: b[key] for key in b if key not in before}
    return {OURS + name for name in table[path]} >= added.keys() and {**before, **added} == b


def _is_our_failure_policy(policy: Any, spec: Any) -> bool:
    fail = "FailIndex" if spec.get("backoffLimitPerIndex") is not None else "FailJob"
    actions = {**dict.fromkeys(CONDITIONS, fail), "DisruptionTarget": "Ignore"}
    ours = [
        {"action": action, "onPodConditions": [{"type": kind, "status": "True"}]} for kind, action in actions.items()
    ]
    rules = policy["rules"]
    return (
        policy.keys() == {"rules"}
        and spec["template"]["spec"].get("restartPolicy") == "Never"
        and bool(rules)
        and all(rule in ours for rule in rules)
    )


def _are_tolerations(a: Any, b: Any) -> bool:
    ours = [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in OUTLASTED]
    queue = b[2]
    theirs = a if isinstance(a, list) else []
    left = [
        one
        for one in theirs
        if not (isinstance(one, dict) and one.get("key") in OUTLASTED and one.get("effect") in ("NoExecute", "", None))
    ]
    return bool(
        b[:2] == ours
        and queue == {"key": OURS + "queue", "operator": "Equal", "value": queue["value"], "effect": "NoSchedule"}
        and b[3:] == left
    )
