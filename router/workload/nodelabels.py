"""Judges whether a virtual node meets a Pod's requirements on nodes, as far as this is the same for every queue.

Pure. A virtual node has the labels that ``router.agent.nodes.objects`` writes. Its site and queue are unknown here, so
requirements on the labels of site and queue count as met.
"""

from __future__ import annotations

from typing import Final

from router import names
from router.workload.fields import (
    Fields,
    Findings,
    as_mapping,
    as_mappings,
    as_text,
    items,
    mappings,
    step,
    text,
    texts,
)

_LABELS: Final = {
    "kubernetes.io/os": "linux",
    "kubernetes.io/arch": "amd64",
    "beta.kubernetes.io/os": "linux",  # the node life-cycle controller copies these two onto every node
    "beta.kubernetes.io/arch": "amd64",
    "type": "virtual-kubelet",
}
_ANY_VALUE: Final = frozenset([names.KEY_SITE, names.KEY_QUEUE])


def judge_node_selector(value: object, path: str, findings: Findings) -> None:
    """Note an obstacle for each label that virtual nodes lack."""
    for key, wanted in as_mapping(value, path).items():
        label = as_text(wanted, step(path, key)) if wanted is not None else ""
        if key not in _ANY_VALUE and _LABELS.get(key) != label:
            findings.block(step(path, key), f"selects nodes labelled {key}={label}, and no virtual node is")


def judge_affinity(value: object, path: str, findings: Findings) -> None:
    """Note an obstacle for each required rule that a virtual node does not meet, and one warning about preferences."""
    affinity = as_mapping(value, path)
    preferred: list[str] = []
    for kind, rules in affinity.items():
        if not rules:
            continue
        here = step(path, kind)
        if kind not in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
            findings.block(here, "is not known to Batchgate")
            continue
        _judge_rules(kind, as_mapping(rules, here), here, findings, preferred)
    if preferred:
        findings.warnings.append(f"{', '.join(preferred)}: preferences about nodes have no effect on HPC")


def _judge_rules(kind: str, rules: Fields, path: str, findings: Findings, preferred: list[str]) -> None:
    for name, rule in rules.items():
        here = step(path, name)
        if not rule:
            continue
        if name == "preferredDuringSchedulingIgnoredDuringExecution":
            preferred.append(here)
        elif name != "requiredDuringSchedulingIgnoredDuringExecution":
            findings.block(here, "is not known to Batchgate")
        elif kind != "nodeAffinity":
            findings.block(here, "places the Pod relative to other Pods, which the batch system does not know")
        elif not _any_term_holds(as_mapping(rule, here), here):
            findings.block(here, "requires a node that no virtual node matches")


def _any_term_holds(selector: Fields, path: str) -> bool:
    terms = mappings(selector, "nodeSelectorTerms", path)
    return any(_term_holds(term, here) for here, term in terms)


def _term_holds(term: Fields, path: str) -> bool:
    expressions = mappings(term, "matchExpressions", path)
    if items(term, "matchFields", path) or not expressions or set(term) - {"matchExpressions", "matchFields"}:
        return False
    return all(_expression_holds(expression, here) for here, expression in expressions)


def _expression_holds(expression: Fields, path: str) -> bool:
    key, operator = text(expression, "key", path), text(expression, "operator", path)
    values = texts(expression, "values", path) or ()
    if key in _ANY_VALUE:
        return operator in ("In", "Exists")
    have = _LABELS.get(key)
    if operator == "In":
        return have in values
    if operator == "NotIn":
        return have not in values and not key.startswith(names.PREFIX)
    if operator == "Exists":
        return have is not None
    if operator == "DoesNotExist":
        return have is None and key != "kubernetes.io/hostname" and not key.startswith(names.PREFIX)
    return False


def judge_spread(value: object, path: str, findings: Findings) -> None:
    """Note an obstacle for each constraint that must hold."""
    for here, constraint in as_mappings(value, path):
        if text(constraint, "whenUnsatisfiable", here) != "ScheduleAnyway":
            findings.block(here, "must spread Pods over the cluster's nodes, which the batch system does not know")
