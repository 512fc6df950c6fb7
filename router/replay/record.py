"""The lines of the decision log: what a decision was, and all that it rests on.

Pure. A line has the fields of the webhook's log. Beside them it has what a rule may ask about the Job, the state of the
queues as it was then, and the sized Job without its user's values. ``cases.from_line`` reads it again. A denial that no
rule decided has a shorter line, which tells who was denied and why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from router.gate.evidence import Evidence, Refusal
from router.gate.judging import Gate
from router.policy import variables
from router.policy.decision import Decision, QueueState, QueueStates
from router.policy.model import Policy
from router.policy.variables import Variable
from router.replay.facts import dumped, without_values
from router.workload.model import Workload

FORMAT: Final = 1
"""Of a line. A reader refuses higher ones; a field that a reader does not know means the same as its absence."""

LONGEST_LINE: Final = 256 * 1024
"""Characters of a line. A longer one is written without the sized Job: its decision is told, and not judged again."""

_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
_LONGEST_OWNER: Final = 320
_LONGEST_PREFIX: Final = 253
_LARGEST: Final = 2**63 - 1
"""Whole number of a rule (github.com/google/cel-spec, "Values")."""
_FIGURES: Final = {
    "up": "up",
    "freeNodes": "free_nodes",
    "queuedJobs": "queued_jobs",
    "runningJobs": "running_jobs",
    "waitSeconds": "wait_seconds",
}
"""The names of a queue's figures in rules, and here."""


BEGIN: Final = b'{"format":'
"""What each line begins with."""


def line(fields: Mapping[str, Any], evidence: Evidence) -> str:
    """A line of the log, without its end.

    :param fields: of the webhook's log line
    """
    told = _told(fields, evidence)
    try:
        text = f'{_ENCODER.encode(told)[:-1]},"workload":{dumped(without_values(evidence.workload))}}}'
        left_out = "" if len(text) <= LONGEST_LINE else f"longer than {LONGEST_LINE}"
    except ValueError:
        # JSON can spell half a surrogate pair, which no API server sends on.
        left_out = "half a character"
    if not left_out:
        return text
    return _ENCODER.encode(told | {"job": {}, "namespace_labels": None, "left_out": left_out})


def denial(fields: Mapping[str, Any], refusal: Refusal) -> str:
    """The line of a denial that no rule decided. The field that is wrong stays out of it, as it may hold a value.

    :param fields: of the webhook's log line
    """
    told = _common(fields, refusal.metadata, refusal.gate)
    return _ENCODER.encode(told | {"reason": refusal.kind, "left_out": refusal.kind})


def _told(fields: Mapping[str, Any], evidence: Evidence) -> dict[str, Any]:
    decision, gate, labels = evidence.decision, evidence.gate, evidence.requester.namespace_labels
    return _common(fields, evidence.metadata, gate) | {
        "place": places(gate.policy).get(decision.rule, ""),
        "hpc_user": decision.route.identity.user if decision.route else "",
        "audited": _audited(decision, gate.policy),
        "namespace_labels": None if labels is None else dict(labels),
        "job": _facts(evidence.workload),
        "queues": queues_of(gate.states),
    }


def _common(fields: Mapping[str, Any], metadata: Mapping[str, Any], gate: Gate) -> dict[str, Any]:
    """The fields of each line, in their order; those that only a decision has are empty."""
    moment = datetime.fromtimestamp(gate.issued_at, UTC).isoformat().replace("+00:00", "Z")
    prefix = "" if metadata.get("name") else metadata.get("generateName")
    return {
        "format": FORMAT,
        "time": moment,
        **fields,
        "kind": "Job",
        "generate_name": prefix[:_LONGEST_PREFIX] if isinstance(prefix, str) else "",
        "owner": owner_of(metadata),
        "place": "",
        "hpc_user": "",
        "policy": gate.policy.digest,
        "audited": [],
        "namespace_labels": None,
        "job": {},
        "queues": {},
    }


def _audited(decision: Decision, policy: Policy) -> list[dict[str, str]]:
    return [
        {"rule": one.rule, "place": places(policy).get(one.rule, ""), "outcome": one.outcome}
        for one in decision.audited
    ]


@lru_cache(maxsize=16)
def places(policy: Policy) -> Mapping[str, str]:
    """File and line of each rule."""
    return {rule.name: rule.place for rule in policy.rules}


def owner_of(metadata: Mapping[str, Any]) -> str:
    """``Kind/name`` of the controller that made a Job; empty without one."""
    owners = metadata.get("ownerReferences")
    for one in owners if isinstance(owners, list) else ():
        if isinstance(one, dict) and one.get("controller") is True:
            return f"{one.get('kind')}/{one.get('name')}"[:_LONGEST_OWNER]
    return ""


def _facts(workload: Workload) -> dict[str, Any]:
    """What rules may ask about the Job, by the names that they use; without what is unset or empty."""
    found = {variable.name: _plain(variable, variable.read(workload)) for variable in variables.JOB}
    return {name: value for name, value in found.items() if value is not None and value not in ("", [], {})}


def _plain(variable: Variable, value: Any) -> Any:
    return dict(value) if variable.kind == "labels" else value


@lru_cache(maxsize=16)
def queues_of(states: QueueStates) -> Mapping[str, Mapping[str, int]]:
    """The figures of all queues whose state is known, by ``site/queue``."""
    return {f"{site}/{queue}": _figures(state) for (site, queue), state in states.states.items()}


def _figures(state: QueueState) -> Mapping[str, int]:
    found = {name: getattr(state, field) for name, field in _FIGURES.items()}
    return {name: value for name, value in found.items() if value is not None}


def _is_figure(name: str, value: object) -> bool:
    """Whether rules can read a figure, or know none of this name."""
    if name == "up":
        return isinstance(value, bool)
    return name not in _FIGURES or (type(value) is int and abs(value) <= _LARGEST)


def states_of(queues: Mapping[str, Any], generation: int) -> QueueStates:
    """The states that ``queues_of`` wrote. Raises ValueError for figures of another type.

    :param generation: tells states from each other that are read one after the other
    """
    found: dict[tuple[str, str], QueueState] = {}
    for key, figures in queues.items():
        site, _, queue = key.partition("/")
        if not isinstance(figures, dict) or not all(_is_figure(name, one) for name, one in figures.items()):
            raise ValueError(f"queues.{key}: is no mapping of whole numbers")
        found[site, queue] = QueueState(site, queue, **{field: figures.get(name) for name, field in _FIGURES.items()})
    return QueueStates(found, generation)
