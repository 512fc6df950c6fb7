"""Words the changes in a Job for the user: the usual ones in a single sentence, every other one in its own.

Pure. Needs only the user's own Job and the routed copy, so it also works for a stored Job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from router import names
from router.notation import durations
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
from router.values import unchanging
from router.workload.fields import LONGEST_WARNING

_EXPLAIN: Final = " (batchgate explain says more)."
_SHORTEST: Final = len(", nodeName")
_KILLS: Final = {
    names.CONDITION_WALLTIME: "at its walltime",
    names.CONDITION_MEMORY: "for memory",
    names.CONDITION_DELETED: "by hand",
}
"""How a run without a retry was killed, by the condition that says so."""
_OF_EACH_REVIEW: Final = frozenset({names.KEY_SIGNATURE, names.KEY_TRACEPARENT})
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
    """A warning about values under reserved keys that differ from the present ones.

    Those that differ at each review are left out: signatures, and the place in a trace.
    """
    if not stripped.taken:
        return ()
    draft = opened(routed)
    differing = dict.fromkeys(
        _named(one)
        for one in stripped.taken
        if one.key not in _OF_EACH_REVIEW and one.value not in _standing(draft, one)
    )
    return (_only_ours([*differing]),) if differing else ()


def _only_ours(named: list[str]) -> str:
    """The warning, with as many names as fit, and at least one; the remaining ones are counted."""
    for shown in range(min(len(named), LONGEST_WARNING // _SHORTEST), 0, -1):
        more = f" and {len(named) - shown} more" if shown < len(named) else ""
        text = f"Only Batchgate sets {', '.join(named[:shown])}{more}: the Job's own values were ignored."
        if len(text) <= LONGEST_WARNING:
            break
    return text


def _named(one: Taken) -> str:
    return f"{_WORDS[one.path]} {one.key}".strip()


def _standing(draft: Draft, one: Taken) -> list[Any]:
    """The present values at the place where a reserved value was found."""
    parent, name = draft.parent(one.path)
    value = parent.get(name)
    if one.path == TOLERATIONS:
        return value or []
    return [value if one.path == NODE_NAME else (value or {}).get(one.key)]


@unchanging
class Difference:
    """A difference on HPC that a user could notice.

    :param sentence: the difference as a sentence
    :param brief: the same as a clause, if every such Job has the difference; empty if it is special to this Job
    :param always: whether the user is told in any case
    """

    sentence: str
    brief: str = ""
    always: bool = False


def differences(own: Job, routed: Job) -> tuple[Difference, ...]:
    """The changes that a user could notice in a Job that goes to HPC, most important first."""
    return tuple(_differences(opened(own), opened(routed)))


def goes_to_hpc(reason: str, found: tuple[Difference, ...]) -> tuple[str, ...]:
    """The main warning: where the Job goes, why, and as many usual differences as fit.

    After it come those sentences with ``always`` that did not fit.
    """
    usual = [one for one in found if one.brief]
    head = f"This Job goes to HPC: {reason.rstrip('.')}"
    for shown in range(len(usual), 0, -1):
        text = f"{head}; there {_listed([one.brief for one in usual[:shown]])}{_EXPLAIN}"
        if len(text) <= LONGEST_WARNING:
            return (text, *(one.sentence for one in usual[shown:] if one.always))
    return (_headed(head, usual), *(one.sentence for one in usual if one.always))


def _headed(head: str, untold: list[Difference]) -> str:
    """The head alone, cut at a word if it is too long. If anything is left out, it names the command that tells all."""
    end = _EXPLAIN if untold else "."
    if len(head) + len(end) <= LONGEST_WARNING:
        return f"{head}{end}"
    kept = head[: LONGEST_WARNING - len(_EXPLAIN)]
    return f"{kept.rpartition(' ')[0]} …{_EXPLAIN}"


def _listed(clauses: list[str], last_word: str = "and") -> str:
    *first, last = clauses
    return f"{', '.join(first)} {last_word} {last}" if first else last


def _differences(own: Draft, routed: Draft) -> Iterator[Difference]:
    script = str((routed.pod_metadata.get("annotations") or {}).get(names.KEY_SCRIPT) or "")
    lines = f"\n{script}"
    if script and _RUNTIME not in lines:
        text = "Its commands run without a container, with the site's own programs (runtime: host)."
        yield Difference(text, "they run without a container", always=True)
    if not _asks_for_time(own) and (limit := _DEADLINE.search(lines)):
        yield _limit(durations.show(int(limit[1])), str((routed.metadata.get("labels") or {}).get(names.KEY_QUEUE)))
    if own.spec.get("podFailurePolicy") is None:
        yield from _failures(routed)
    deadline = own.spec.get("activeDeadlineSeconds")
    if deadline is not None and "activeDeadlineSeconds" not in routed.spec:
        yield _deadline(deadline, own.pod.get("activeDeadlineSeconds"))
    if own.spec.get("podReplacementPolicy") != FAILED:
        text = "A deleted Pod is replaced only once its batch job has ended (podReplacementPolicy: Failed)."
        yield Difference(text, "a deleted Pod is replaced once its batch job has ended")
    if any(is_users_own_outlasting(one) for one in own.pod.get("tolerations") or ()):
        text = "Its own tolerations of not-ready and unreachable nodes are replaced: batch jobs outlast their agent."
        yield Difference(text)
    if _loses_token(own, routed):
        yield Difference("Its Pods get no service account token on HPC (automountServiceAccountToken: false).")


_DEADLINE: Final = re.compile(r"\ndeadline=(\d+)")
_RUNTIME: Final = "\nruntime="
"""Begin a line that every script has, and one that every script with containers has. A line's end in place of ``^`` is
found ten times as fast.
"""


def _asks_for_time(own: Draft) -> bool:
    hints = (one.get("annotations") or {} for one in (own.metadata, own.pod_metadata))
    deadlines = (one.get("activeDeadlineSeconds") for one in (own.spec, own.pod))
    return any(names.HINT_WALLTIME in one for one in hints) or any(one is not None for one in deadlines)


def _limit(shown: str, queue: str) -> Difference:
    text = f"It names no activeDeadlineSeconds, so its containers end after {shown} on queue {queue}."
    return Difference(text, f"its containers end after {shown}")


def _deadline(job: int, pod: object) -> Difference:
    if pod is None:
        text = f"activeDeadlineSeconds ({durations.show(job)}) now counts from the start of each run, not the time in the queue."
        return Difference(text, "activeDeadlineSeconds counts from the start of each run")
    text = "The Job's activeDeadlineSeconds was taken out, as it counts the time in the queue; the template's holds."
    return Difference(text)


def _failures(routed: Draft) -> Iterator[Difference]:
    if routed.pod.get("restartPolicy") == "OnFailure":
        text = "With restartPolicy OnFailure a run that was killed at its walltime is tried again, up to backoffLimit."
        yield Difference(text, "a run killed at its walltime is tried again")
        return
    policy = routed.spec.get("podFailurePolicy") or {}
    conditions = {rule["onPodConditions"][0]["type"] for rule in policy.get("rules", ())}
    kills = [word for condition, word in _KILLS.items() if condition in conditions]
    if kills:
        told = _listed(kills, "or")
        text = f"A run that is killed {told} is not tried again (podFailurePolicy)."
        yield Difference(text, f"a run killed {told} is not tried again")


def _loses_token(own: Draft, routed: Draft) -> bool:
    """Whether the Pods lose a token that they probably use: of a named service account, or explicitly mounted."""
    before, now = own.pod.get("automountServiceAccountToken"), routed.pod.get("automountServiceAccountToken")
    wanted = before is True or (before is None and own.pod.get("serviceAccountName") not in (None, "", "default"))
    return now is False and wanted
