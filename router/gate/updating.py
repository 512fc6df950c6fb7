"""Judges updates of Jobs that are already in the cluster.

Pure. A Job that went to HPC stays there: Batchgate's values are restored from the stored object. A suspended Job may
change within its site and queue, and is then sized, scripted and signed anew. It cannot grow beyond what rule and queue
allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from router import names, placement, policy
from router.errors import JobError, SignatureError
from router.gate import growth, immutable
from router.gate.judging import Gate, Judgement, created, manager_of, recorded, signed, sized, too_large, untouched
from router.placement import Restored, signing
from router.placement.change import Change, Record
from router.policy.decision import Decision, QueueState, QueueStates, Requester, Route
from router.script import render
from router.site import nodelabels
from router.workload import check_bounds, resultpaths
from router.workload.model import Workload

Job = dict[str, Any]

ANEW: Final = immutable.ANEW
_GROWING: Final = ("parallelism", "completions")
_RECORDED: Final = ("labels", "annotations")


def judge_update(stored: Job, new: Job, *, requester: Requester, gate: Gate) -> Judgement:
    """Judge the update of a stored Job. Raises JobError if it changes what can no longer be changed.

    The judgement has a decision only if the Job was decided anew.
    """
    if _changes_nothing(stored, new):
        return untouched(new)
    _demand_bounded(stored, new)
    if not placement.is_routed(stored):
        return _kept_in_the_cloud(stored, new, requester, gate)
    restored = placement.restore(stored, new)
    _demand_same_deadline(restored)
    grown = list(_grown(restored))
    suspended = _spec(stored).get("suspend") is True
    immutable.demand_same(_spec(stored).get("template"), _spec(restored.job).get("template"), suspended=suspended)
    if grown or (suspended and _asks_anew(restored)):
        return _judged_anew(stored, new, restored, requester, gate, field=grown[0] if grown else "spec.template")
    _demand_small(restored.job, restored.now.job)
    told = (*placement.foreign_keys(restored.now, restored.job), *restored.now.warnings, *_without_effect(restored))
    return Judgement(new, restored.now, restored.job, warnings=told)


def _kept_in_the_cloud(stored: Job, new: Job, requester: Requester, gate: Gate) -> Judgement:
    kept = placement.keep_reserved(stored, new)
    told = (*placement.foreign_keys(kept, kept.job), *kept.warnings)
    if manager_of(stored, gate.policy) is None:
        before, now = placement.strip(stored), placement.strip(new, stored=stored)
        asking = replace(requester, time=created(stored))
        if (found := growth.denied(before.job, now.job, asking, gate)) is not None:
            return Judgement(new, kept, new, *found, warnings=told)
    return Judgement(new, kept, kept.job, warnings=told)


def _changes_nothing(stored: Job, new: Job) -> bool:
    """Whether only status, finalizers or owners change, or the Job is being deleted: such updates always pass."""
    old, now = _metadata(stored), _metadata(new)
    if now.get("deletionTimestamp") is not None:
        return True
    return stored.get("spec") == new.get("spec") and all((old.get(k) or {}) == (now.get(k) or {}) for k in _RECORDED)


def _demand_bounded(stored: Job, new: Job) -> None:
    """Refuse an update that is too large. A stored Job that is already too large may still be changed."""
    try:
        check_bounds(new)
    except JobError:
        if _is_bounded(stored):
            raise


def _is_bounded(job: Job) -> bool:
    try:
        check_bounds(job)
    except JobError:
        return False
    return True


def _demand_same_deadline(restored: Restored) -> None:
    """Refuse a change of a deadline that was moved into the template: the template is immutable, even if suspended."""
    was, now = (_spec(one.job).get("activeDeadlineSeconds") for one in (restored.before, restored.now))
    if restored.moved_deadline and was != now:
        raise JobError(
            "spec.activeDeadlineSeconds",
            f"was {was} when the Job was sent to HPC and cannot become {now}, as the batch system keeps it; {ANEW}",
        )


def _grown(restored: Restored) -> Iterator[str]:
    was, now = _spec(restored.before.job), _spec(restored.now.job)
    for name in _GROWING:
        old, new = was.get(name), now.get(name)
        if type(new) is int and new > (old if type(old) is int else 1):
            yield f"spec.{name}"


def _asks_anew(restored: Restored) -> bool:
    """Whether the update changes fields from which the script or the signature was made."""
    before, now = restored.before.job, restored.now.job
    return _spec(before).get("template") != _spec(now).get("template") or _hints(before) != _hints(now)


def _judged_anew(
    stored: Job, new: Job, restored: Restored, requester: Requester, gate: Gate, *, field: str
) -> Judgement:
    own, change = restored.now.job, restored.change
    suspended = _spec(stored).get("suspend") is True
    if suspended and gate.signer is not None:
        _demand_signed(stored, requester.namespace, gate.signer.believed)
    asking = _who(stored, requester)
    workload = sized(own, asking, gate)
    decision = policy.decide(gate.policy, workload, asking, _only(gate, change.site, change.queue))
    route = decision.route
    if route is None or (route.site.name, route.queue.name) != (change.site, change.queue):
        where = f"queue {change.queue} of site {change.site}"
        raise JobError(
            field, f"the Job was sent to {where}, and this no longer fits there: {decision.reason.rstrip('.')}; {ANEW}"
        )
    if not suspended:
        # Its template cannot change, so the signed script also holds for the additional Pods.
        _demand_small(restored.job, own)
        return Judgement(new, restored.now, restored.job, workload, decision, None, restored.now.warnings)
    resultpaths.plan(workload)  # TooLarge, as at the Job's creation
    script = render(workload, route)
    record = _recorded(route, asking, change, requester, gate)
    _demand_same_account(change, record)
    routed = placement.replace_record(restored, decision, script.own, record)
    routed = signed(routed, workload, route, record, gate, str(_metadata(stored).get("uid") or ""))
    _demand_small(routed, own)
    told = _told(restored, workload, decision)
    return Judgement(new, restored.now, routed, workload, decision, script, (*told, *script.warnings))


def _recorded(route: Route, asking: Requester, change: Change, requester: Requester, gate: Gate) -> Record:
    """The record of a Job that is signed anew. Groups that are recorded stay: a guard demands it.

    A Job without them is from before the policy read any. Its creator's are recorded when the creator changes it. If
    somebody else does, Kueue for example, it was judged as one without groups, and its account is the same.
    """
    record = recorded(route, asking, gate.policy)
    known = change.pod_annotations.get(names.KEY_GROUPS)
    return record if known is None and asking.user == requester.user else replace(record, groups=known)


def _demand_same_account(change: Change, record: Record) -> None:
    """Refuse to sign a Job for another account than before. The guard ``created-jobs`` would refuse the update later."""
    if (was := change.pod_annotations.get(names.KEY_ACCOUNT)) != record.account:
        reason = f"the Job was judged for account {was}, and the policy now has {record.account} for {record.requester}"
        raise JobError("spec.template", f"{reason}; {ANEW}")


def _demand_small(routed: Job, own: Job) -> None:
    """Refuse a Job that is too large. The API server would refuse it later, without saying which field is too large."""
    if (obstacle := too_large(routed, own)) is not None:
        raise JobError(obstacle.path, f"{obstacle.reason}; {ANEW}")


def _demand_signed(stored: Job, namespace: str, keys: Mapping[str, Ed25519PublicKey]) -> None:
    """Refuse to sign a stored Job anew whose signature is missing, is of no key in force, or is for another Job.

    A user who writes a stored Job past the webhook could otherwise name any requester.
    """
    try:
        signing.signed_claims(stored, namespace, keys)
    except SignatureError as error:
        path = f"spec.template.metadata.annotations[{names.KEY_SIGNATURE}]"
        reason = (
            f"the stored template was not signed by this webhook for this Job ({error}), so the change is not signed"
        )
        raise JobError(path, f"{reason}; {ANEW}") from error


def _told(restored: Restored, workload: Workload, decision: Decision) -> Iterator[str]:
    yield f"This Job was sized anew: {decision.reason.rstrip('.')}."
    yield from decision.warnings
    if decision.route is not None and (text := nodelabels.warning(decision.route.nodes, decision.route.site)):
        yield text
    yield from workload.warnings
    yield from placement.foreign_keys(restored.now, restored.job)
    yield from restored.now.warnings


def _who(stored: Job, requester: Requester) -> Requester:
    """The requester to judge by: the user who created the Job, even if an admin or a controller changes it.

    The groups are those that the Job records. Without them, as where the policy read none at that time, those of another
    creator are unknown. An account that depends on them is then not found, and the update is refused. The time is that
    of the creation: a rule for nights applies to a night's Job by day, too.
    """
    requester = replace(requester, time=created(stored))
    template = _mapping(_spec(stored).get("template"))
    annotations = _mapping(_mapping(template.get("metadata")).get("annotations"))
    owner, groups = annotations.get(names.KEY_REQUESTER), signing.groups_in(annotations)
    if not isinstance(owner, str):
        return requester
    if groups is not None:
        return replace(requester, user=owner, groups=groups)
    if owner == requester.user:
        return requester
    return replace(requester, user=owner, groups=())


def _only(gate: Gate, site: str, queue: str) -> QueueStates:
    """The queue states with only one choice left: the Job's own queue, which counts as up in any case."""
    known = gate.states.states
    states = {}
    for place in gate.policy.sites:
        for one in place.queues:
            key = (place.name, one.name)
            state = known.get(key) or QueueState(place.name, one.name)
            states[key] = replace(state, up=key == (site, queue))
    return replace(gate.states, states=states, only=(site, queue))


def _without_effect(restored: Restored) -> Iterator[str]:
    before, now = _hints(restored.before.job), _hints(restored.now.job)
    for key in sorted(now.keys() | before.keys()):
        if before.get(key) != now.get(key):
            yield f"The hint {key} has no effect any more: the Job was sent to HPC already; {ANEW}."
    was, wanted = (_spec(one.job).get("activeDeadlineSeconds") for one in (restored.before, restored.now))
    if wanted is not None and wanted != was:
        yield f"activeDeadlineSeconds ({wanted}) came after the Job was sent to HPC and counts the time in the queue."


def _hints(job: Job) -> Mapping[str, Any]:
    annotations = _mapping(_metadata(job).get("annotations"))
    return {key: value for key, value in annotations.items() if key in names.HINTS}


def _spec(job: Job) -> Mapping[str, Any]:
    return _mapping(job.get("spec"))


def _metadata(job: Job) -> Mapping[str, Any]:
    return _mapping(job.get("metadata"))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
