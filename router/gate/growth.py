"""Judges updates of Jobs in the cloud that ask for more than before: rules that deny apply to them as at creation.

Pure. An update that asks for the same or less always passes: a Job may be older than the rule, and Kueue suspends and
releases Jobs at any time. The requester is the user who updates the Job, as its creator is not recorded in the cloud.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

from router import names, policy
from router.errors import JobError
from router.gate.judging import Gate, Job, in_the_cloud, sized
from router.policy.decision import Decision, Requester
from router.workload.model import Figure, Workload

_WALLTIME: Final = "walltime_asked"
_SIZES: Final = ("requests.cpu", "limits.cpu", "requests.memory", "limits.memory")
_FIGURES: Final = ("parallelism", "completions", *_SIZES, "ephemeral_storage", "gpus", _WALLTIME, "ranks")
"""Of cpu and memory both, as each rule reads what its ``figures`` says."""
_ASKING: Final = ("parallelism", "completions", "activeDeadlineSeconds", "template")
_GROUPS: Final = ("initContainers", "containers")


def denied(stored: Job, new: Job, requester: Requester, gate: Gate) -> tuple[Workload, Decision] | None:
    """The decision that denies an update, with the updated Job's workload; None if the update is allowed.

    :param stored: the Job in the cluster, stripped of Batchgate's values
    :param new: the Job as the update wants it, also stripped
    :raises JobError: if the new Job is invalid and the stored one is valid
    """
    if _asked(stored) == _asked(new):
        return None
    before = _sized(stored, requester, gate)
    try:
        now = in_the_cloud(sized(new, requester, gate))
    except JobError:
        if before is None:
            return None
        raise
    if before is not None and _is_only_less(stored, new, before, now):
        return None
    grown = before is None or any(_is_more(before, now, figure) for figure in _FIGURES)
    judged = gate.policy
    while (decision := policy.decide(judged, now, requester, gate.states)).target == "deny":
        if before is None or grown or not _denied_by(decision.rule, before, requester, gate):
            return now, decision
        judged = replace(judged, rules=tuple(rule for rule in judged.rules if rule.name != decision.rule))
    return None


def _denied_by(name: str, workload: Workload, requester: Requester, gate: Gate) -> bool:
    alone = replace(gate.policy, rules=tuple(rule for rule in gate.policy.rules if rule.name == name))
    return policy.decide(alone, workload, requester, gate.states).target == "deny"


def _sized(job: Job, requester: Requester, gate: Gate) -> Workload | None:
    try:
        return in_the_cloud(sized(job, requester, gate))
    except JobError:
        return None


def _is_only_less(stored: Job, new: Job, before: Workload, now: Workload) -> bool:
    """Whether the update only makes figures smaller, and still asks for each figure that was asked for."""
    same = _beside_figures(stored) == _beside_figures(new) and before.gpu_vendor is now.gpu_vendor
    return same and all(
        not _is_more(before, now, name) and (_figure(before, name) is None or _figure(now, name) is not None)
        for name in _FIGURES
    )


def _is_more(before: Workload, now: Workload, name: str) -> bool:
    was, wanted = _figure(before, name), _figure(now, name)
    if name == _WALLTIME and wanted is None:
        return was is not None  # without a deadline the Job may run for ever
    return wanted is not None and (was is None or wanted.value > was.value)


def _figure(workload: Workload, name: str) -> Figure | None:
    found: Figure | None = attrgetter(name)(workload)
    return found


def _asked(job: Job) -> list[Any]:
    """All fields of a Job that rules can read."""
    spec, metadata = _mapping(job.get("spec")), _mapping(job.get("metadata"))
    return [*[spec.get(name) for name in _ASKING], metadata.get("labels") or {}, _hints(metadata)]


def _beside_figures(job: Job) -> list[Any]:
    """The fields that rules can read, without figures; the names of requested resources are kept."""
    template = _mapping(_mapping(job.get("spec")).get("template"))
    pod = _mapping(template.get("spec"))
    containers = [[_named(one) for one in pod.get(group) or ()] for group in _GROUPS]
    rest = _named(_without(pod, "activeDeadlineSeconds", *_GROUPS))
    return [template.get("metadata") or {}, containers, rest, *_asked(job)[len(_ASKING) :]]


def _named(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A container or Pod with the names of its resources in place of their amounts."""
    asked = _mapping(fields.get("resources"))
    shape = {kind: sorted(found) if isinstance(found, dict) else found for kind, found in asked.items()}
    return {**fields, "resources": shape}


def _without(fields: Mapping[str, Any], *left_out: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in left_out}


def _hints(metadata: Mapping[str, Any]) -> dict[str, Any]:
    annotations = _mapping(metadata.get("annotations"))
    return {key: value for key, value in annotations.items() if key in names.HINTS}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
