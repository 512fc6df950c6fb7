"""Reads a Pod's requirements on nodes: node selector and required node affinity as data, everything else judged.

Pure. ``router.site.nodelabels`` answers the requirements for each queue, whose policy says which labels its nodes have.
A term that Kubernetes' scheduler never matches (empty or malformed) is left out, as the terms are alternatives.
"""

from __future__ import annotations

import re
from typing import Final

from router.workload.fields import (
    Fields,
    Findings,
    as_mapping,
    as_mappings,
    as_text,
    mapping,
    mappings,
    step,
    text,
    texts,
)
from router.workload.nodedemand import NodeDemand, NodeOperator, NodeRequirement

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_TERMS: Final = "nodeSelectorTerms"
_EXPRESSION: Final = ("key", "operator", "values")
_UNKNOWN: Final = "is not known to Batchgate"
_KINDS: Final = ("nodeAffinity", "podAffinity", "podAntiAffinity")
_NODE_NAME: Final = "metadata.name"
_MOST_NAMED: Final = 20
_SHOWN: Final = 63  # the longest value of a label
_NEED_VALUES: Final = (NodeOperator.IN, NodeOperator.NOT_IN)
_NEED_NONE: Final = (NodeOperator.EXISTS, NodeOperator.DOES_NOT_EXIST)
_NEED_A_NUMBER: Final = (NodeOperator.GT, NodeOperator.LT)

NAME: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
"""A label's value that is not empty, or the part of its key after the slash (k8s.io/apimachinery, util/validation)."""
KEY: Final = rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{NAME}"
_VALUE: Final = re.compile(rf"({NAME})?", re.ASCII)
_KEY: Final = re.compile(KEY, re.ASCII)
_INT64: Final = 2**63 - 1


def read_demand(pod: Fields, path: str, findings: Findings) -> NodeDemand:
    """The node selector and the required node affinity of a Pod. Notes an obstacle if no node could match them.

    :raises JobError: if a field has the wrong type
    """
    selector = _selector(mapping(pod, "nodeSelector", path), f"{path}.nodeSelector", findings)
    affinity = mapping(pod, "affinity", path)
    kind = mapping(affinity, "nodeAffinity", f"{path}.affinity")
    here = f"{path}.affinity.nodeAffinity"
    required = mapping(kind, _REQUIRED, here)
    return NodeDemand(selector, _terms(required, f"{here}.{_REQUIRED}", findings) if required else ())


def _selector(selector: Fields, path: str, findings: Findings) -> tuple[NodeRequirement, ...]:
    found: list[NodeRequirement] = []
    for key, value in selector.items():
        here = step(path, key) if _KEY.fullmatch(key) else path
        one = NodeRequirement(here, key, NodeOperator.IN, (as_text(value, here) if value is not None else "",))
        if problem := _problem(one):
            findings.block(here, f"{problem}, so no node matches it")
        else:
            found.append(one)
    return tuple(found)


def _terms(selector: Fields, path: str, findings: Findings) -> tuple[tuple[NodeRequirement, ...], ...]:
    found: list[tuple[NodeRequirement, ...]] = []
    wrong: list[tuple[str, str]] = [(path, "has no terms")]
    for key, value in selector.items():
        if value and key != _TERMS:
            findings.block(step(path, key), _UNKNOWN)
    for here, term in mappings(selector, _TERMS, path):
        requirements, problem = _term(term, here)
        if problem:
            wrong.append(problem)
        else:
            found.append(requirements)
    if not found:
        where, what = wrong[min(1, len(wrong) - 1)]
        findings.block(where, f"{what}, so no node matches it")
    return tuple(found)


def _term(term: Fields, path: str) -> tuple[tuple[NodeRequirement, ...], tuple[str, str] | None]:
    """The requirements of a term, or the place of its error and what is wrong there."""
    requirements: list[NodeRequirement] = []
    for kind in term:
        if term[kind] and kind not in ("matchExpressions", "matchFields"):
            return (), (step(path, kind), _UNKNOWN)
    for of_field, kind in ((False, "matchExpressions"), (True, "matchFields")):
        for here, one in mappings(term, kind, path):
            requirement = NodeRequirement(
                here,
                text(one, "key", here),
                text(one, "operator", here),
                texts(one, "values", here) or (),
                of_field=of_field,
            )
            if problem := _problem(requirement):
                return (), (here, problem)
            if strange := next((name for name in one if name not in _EXPRESSION), ""):
                return (), (step(here, strange), _UNKNOWN)
            requirements.append(requirement)
    return tuple(requirements), None if requirements else (path, "is empty")


def _problem(one: NodeRequirement) -> str:
    """Why Kubernetes' scheduler never matches a requirement, as a clause; empty if it may."""
    if one.of_field:
        named = one.key == _NODE_NAME and one.operator in _NEED_VALUES and len(one.values) == 1
        return "" if named else f"is not In or NotIn with one value of {_NODE_NAME}"
    if _KEY.fullmatch(one.key) is None:
        return f"has {one.key[:_SHOWN]!r}, which is not a label's key"
    if wrong := next((value for value in one.values if _VALUE.fullmatch(value) is None), ""):
        return f"has {wrong[:_SHOWN]!r}, which is not a label's value"
    return _miscounted(one)


def _miscounted(one: NodeRequirement) -> str:
    count, operator = len(one.values), one.operator
    if operator in _NEED_VALUES:
        return "" if count else f"has no values for {operator}"
    if operator in _NEED_NONE:
        return f"has values for {operator}" if count else ""
    if operator in _NEED_A_NUMBER:
        single = count == 1 and whole_number(one.values[0]) is not None
        return "" if single else f"has no single whole number for {operator}"
    return f"has the operator {operator[:_SHOWN]!r}, which is not known to Batchgate"


def whole_number(value: str) -> int | None:
    """The number that a label's value is to Gt and Lt: decimal, of 64 bits; None for any other text."""
    if not (value.isascii() and value.isdigit()):
        return None
    number = int(value)
    return number if number <= _INT64 else None


def judge_affinity(value: object, path: str, findings: Findings) -> None:
    """Note an obstacle for each required rule about other Pods, and the paths of rules that only prefer."""
    for kind, rules in as_mapping(value, path).items():
        here = step(path, kind)
        if rules and kind not in _KINDS:
            findings.block(here, _UNKNOWN)
        elif rules:
            _judge_rules(kind, as_mapping(rules, here), here, findings)


def _judge_rules(kind: str, rules: Fields, path: str, findings: Findings) -> None:
    for name, rule in rules.items():
        here = step(path, name)
        if not rule:
            continue
        if name == _PREFERRED:
            findings.preferred.append(here)
        elif name != _REQUIRED:
            findings.block(here, _UNKNOWN)
        elif kind != "nodeAffinity":
            findings.block(here, "places the Pod relative to other Pods, which the batch system does not know")


def judge_spread(value: object, path: str, findings: Findings) -> None:
    """Note an obstacle for each constraint that must hold, and the paths of those that are only wishes."""
    for here, constraint in as_mappings(value, path):
        if text(constraint, "whenUnsatisfiable", here) == "ScheduleAnyway":
            findings.preferred.append(here)
            continue
        key = text(constraint, "topologyKey", here)[:_SHOWN]
        findings.block(here, f"must spread Pods by {key or 'a label'} of nodes, which the batch system does not know")


def preferences_warning(findings: Findings) -> str | None:
    """One sentence for all preferences about nodes; None without any."""
    if not findings.preferred:
        return None
    named, more = findings.preferred[:_MOST_NAMED], len(findings.preferred) - _MOST_NAMED
    shown = f"{', '.join(named)}{f' and {more} more' if more > 0 else ''}"
    return f"{shown}: preferences about nodes have no effect on HPC"
