"""Makes the podFailurePolicy that Batchgate gives a Job without one.

Pure. Kubernetes matches conditions and exit codes, but not reasons; the agent sets the conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from router import names
from router.placement.draft import Job
from router.policy.schema import Retries

_FAIL_JOB: Final = "FailJob"
_FAIL_INDEX: Final = "FailIndex"


def failure_policy(spec: Mapping[str, Any], retries: Retries) -> Job | None:
    """Rules for a walltime kill, a memory kill, a deletion and a lost node; None if the policy file disables all.

    A run that is killed at the walltime would fail again in each retry. So it ends the Job, or only the index if the
    Job counts failures by index (``backoffLimitPerIndex``; Kubernetes refuses FailIndex without it). Where a Pod has a
    deadline of its own, Kubernetes tries again after it, and so it is here. A user who deletes a batch job does not want
    a retry of it under another id.
    """
    action = _FAIL_INDEX if spec.get("backoffLimitPerIndex") is not None else _FAIL_JOB
    rules = []
    if not retries.on_walltime and not _ends_by_itself(spec):
        rules.append(_rule(action, names.CONDITION_WALLTIME))
    if not retries.on_memory:
        rules.append(_rule(action, names.CONDITION_MEMORY))
    if not retries.on_deletion:
        rules.append(_rule(action, names.CONDITION_DELETED))
    if retries.disruptions:
        rules.append(_rule("Ignore", names.CONDITION_DISRUPTION))
    return {"rules": rules} if rules else None


def _ends_by_itself(spec: Mapping[str, Any]) -> bool:
    """Whether a Pod's own deadline is reached before the Job's, which ends all."""
    own, whole = spec["template"]["spec"].get("activeDeadlineSeconds"), spec.get("activeDeadlineSeconds")
    return own is not None and (whole is None or own < whole)


def without_ours(policy: object) -> Job | None:
    """A podFailurePolicy without Batchgate's rules; None if it has only these."""
    rules = policy.get("rules") if isinstance(policy, dict) else None
    if not isinstance(rules, list):
        return policy  # type: ignore[return-value]  # not Batchgate's; sizing reports what is wrong with it
    left = [rule for rule in rules if rule not in _OURS]
    return {**policy, "rules": left} if left else None  # type: ignore[dict-item]  # a mapping, as just seen


def _rule(action: str, condition: str) -> Job:
    # With the status, which the API server would otherwise fill in: a rule must read back as it was written.
    return {"action": action, "onPodConditions": [{"type": condition, "status": "True"}]}


_OURS: Final = (
    *(
        _rule(action, condition)
        for action in (_FAIL_JOB, _FAIL_INDEX)
        for condition in (names.CONDITION_WALLTIME, names.CONDITION_MEMORY, names.CONDITION_DELETED)
    ),
    _rule("Ignore", names.CONDITION_DISRUPTION),
)
