"""What a user is told of the changes in a Job, one plain sentence each.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from router import durations, names
from router.placement.change import FAILED, is_users_own_outlasting
from router.placement.draft import (
    NODE_NAME,
    NODE_SELECTOR,
    POD_ANNOTATIONS,
    POD_LABELS,
    TOLERATIONS,
    Draft,
    Job,
    opened,
)
from router.placement.strip import Stripped, Taken

_LONGEST: Final = 256
"""Characters of one warning that reach the user (kubernetes.io/docs/reference/access-authn-authz/
extensible-admission-controllers/#response)."""
_SHORTEST: Final = len(", nodeName")
_WORDS = {
    "metadata.labels": "label",
    "metadata.annotations": "annotation",
    POD_LABELS: "template label",
    POD_ANNOTATIONS: "template annotation",
    NODE_SELECTOR: "nodeSelector",
    TOLERATIONS: "toleration",
    NODE_NAME: "",
}


def foreign_keys(stripped: Stripped, routed: Job) -> tuple[str, ...]:
    """A warning for what arrived under reserved keys and is not what stands there now. Signatures never repeat."""
    if not stripped.taken:
        return ()
    draft = opened(routed)
    differing = dict.fromkeys(
        _named(one)
        for one in stripped.taken
        if one.key != names.KEY_SIGNATURE and one.value not in _standing(draft, one)
    )
    return (_only_ours([*differing]),) if differing else ()


def _only_ours(named: list[str]) -> str:
    """The warning, with as many names as it holds and at least one; the others are counted."""
    for shown in range(min(len(named), _LONGEST // _SHORTEST), 0, -1):
        more = f" and {len(named) - shown} more" if shown < len(named) else ""
        text = f"Only Batchgate sets {', '.join(named[:shown])}{more}: what the Job said there was not used."
        if len(text) <= _LONGEST:
            break
    return text


def _named(one: Taken) -> str:
    return f"{_WORDS[one.path]} {one.key}".strip()


def _standing(draft: Draft, one: Taken) -> list[Any]:
    """What stands now where a reserved value was found."""
    parent, name = draft.parent(one.path)
    value = parent.get(name)
    if one.path == TOLERATIONS:
        return value or []
    return [value if one.path == NODE_NAME else (value or {}).get(one.key)]


def noticed(own: Job, routed: Job) -> tuple[str, ...]:
    """What a user could notice of the changes in a Job that goes to HPC."""
    return tuple(_noticed(opened(own), opened(routed)))


def _noticed(own: Draft, routed: Draft) -> Iterator[str]:
    deadline = own.spec.get("activeDeadlineSeconds")
    if deadline is not None and "activeDeadlineSeconds" not in routed.spec:
        yield _deadline(deadline, own.pod.get("activeDeadlineSeconds"))
    if own.spec.get("podFailurePolicy") is None:
        yield from _failures(routed)
    if own.spec.get("podReplacementPolicy") != FAILED:
        yield "A deleted Pod is replaced only once its batch job has ended (podReplacementPolicy: Failed)."
    if any(is_users_own_outlasting(one) for one in own.pod.get("tolerations") or ()):
        yield "Its own tolerations of not-ready and unreachable nodes are replaced: batch jobs outlast their agent."
    if _loses_token(own, routed):
        yield "Its Pods get no service account token on HPC (automountServiceAccountToken: false)."


def _deadline(job: int, pod: object) -> str:
    if pod is None:
        shown = durations.show(job)
        return f"activeDeadlineSeconds ({shown}) now counts from the start of each run, not the time in the queue."
    return "The Job's activeDeadlineSeconds was taken out, as it counts the time in the queue; the template's holds."


def _failures(routed: Draft) -> Iterator[str]:
    if routed.pod.get("restartPolicy") == "OnFailure":
        yield "With restartPolicy OnFailure a run that was killed at its walltime is tried again, up to backoffLimit."
        return
    policy = routed.spec.get("podFailurePolicy") or {}
    conditions = {rule["onPodConditions"][0]["type"] for rule in policy.get("rules", ())}
    kills = [
        word
        for condition, word in ((names.CONDITION_WALLTIME, "at its walltime"), (names.CONDITION_MEMORY, "for memory"))
        if condition in conditions
    ]
    if kills:
        yield f"A run that is killed {' or '.join(kills)} is not tried again (podFailurePolicy)."


def _loses_token(own: Draft, routed: Draft) -> bool:
    """Whether the Pods had a token that they are likely to use: one of an account of their own, or asked for."""
    before, now = own.pod.get("automountServiceAccountToken"), routed.pod.get("automountServiceAccountToken")
    wanted = before is True or (before is None and own.pod.get("serviceAccountName") not in (None, "", "default"))
    return now is False and wanted
