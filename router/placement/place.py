"""Writes a decision into a Job: only the record if it stays in the cloud, the whole change if it goes to HPC.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from router import names
from router.placement.change import Change, Record, apply, merge
from router.placement.draft import Job, closed, opened
from router.placement.failures import failure_policy
from router.placement.size import KUBERNETES_LIMIT, annotation_bytes
from router.policy.decision import Decision, Route

NEVER = "Never"


def place(
    job: Job,
    decision: Decision,
    script: str | None = None,
    record: Record | None = None,
    traceparent: str = "",
    *,
    requester: str = "",
) -> Job:
    """The routed copy of a stripped Job. A denied Job is returned as it is.

    :param script: the rendered text; needed, like ``record``, if the decision is HPC
    :param traceparent: the review's span; empty without a trace
    :param requester: who made a Job that stays in the cloud; the record says who made one for HPC
    """
    if decision.target == "deny":
        return job
    judged = judged_by(decision, traceparent)
    if decision.route is None or script is None or record is None:
        return _kept(job, {**judged, names.KEY_REQUESTER: requester} if requester else judged)
    return apply(job, change_of(job, judged, decision.route, script, record))


def judged_by(decision: Decision, traceparent: str) -> dict[str, str]:
    """The annotations that tell of a decision and where its trace is."""
    judged = {names.KEY_RULE: decision.rule, names.KEY_REASON: decision.reason}
    return {**judged, names.KEY_TRACEPARENT: traceparent} if traceparent else judged


def change_of(job: Job, judged: Mapping[str, str], route: Route, script: str, record: Record) -> Change:
    """What a decision for HPC writes into a stripped Job.

    :param judged: see ``judged_by``
    """
    never = job["spec"]["template"]["spec"].get("restartPolicy") == NEVER
    return Change(
        node=names.node_name(route.site.name, route.queue.name),
        site=route.site.name,
        queue=route.queue.name,
        job_annotations=judged,
        pod_annotations={**judged, **proof(script, record)},
        move_deadline=route.rule.deadline == "run",
        failure_policy=failure_policy(job["spec"], route.rule.retries) if never else None,
        no_token=route.site.tokens != "stage",
    )


def proof(script: str, record: Record) -> dict[str, str]:
    """The annotations, except the signature, that the agent checks before it runs anything."""
    groups = {} if record.groups is None else {names.KEY_GROUPS: record.groups}
    return {
        names.KEY_SCRIPT: script,
        names.KEY_REQUESTER: record.requester,
        **groups,
        names.KEY_ACCOUNT: record.account,
    }


def with_signature(routed: Job, signature: str) -> Job:
    """A routed Job with the signature, which can only be made from the routed Job."""
    spec = routed["spec"]
    template = spec["template"]
    metadata = template["metadata"]
    annotations = {**metadata["annotations"], names.KEY_SIGNATURE: signature}
    return {**routed, "spec": {**spec, "template": {**template, "metadata": {**metadata, "annotations": annotations}}}}


def hand_over(job: Job, manager: str) -> Job:
    """A stripped Job for another controller, with the annotation by which a guard checks its controller."""
    draft = opened(job)
    merge(draft.metadata, "annotations", {names.KEY_MANAGED_BY: manager})
    return closed(draft)


def _kept(job: Job, judged: Mapping[str, str]) -> Job:
    """The Job with the record of the decision on the Job alone, so that its Pods stay unchanged."""
    draft = opened(job)
    merge(draft.metadata, "labels", {names.KEY_TARGET: names.TARGET_CLOUD})
    annotations = draft.metadata.get("annotations") or {}
    # A Job that is just small enough for the API server must not fail because of this record.
    if annotation_bytes({**annotations, **judged}) <= KUBERNETES_LIMIT:
        merge(draft.metadata, "annotations", judged)
    return closed(draft)
