"""What needs somebody: each kind alone, from an installation where all is well."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from router.operating.overview import Leader, Overview, Queue
from router.operating.policies import ConditionState, Holder
from router.operating.releases import Running
from router.operating.replicas import PendingRequest, Replica, Webhook
from router.operating.stuck import Stuck
from router.operating.troubles import Looked, PolicyFiles, SiteCheck, Trouble, troubles
from router.site.rights import Right

REPLICA = Replica("gate-1", ready=True, known=True, policy="abc", certificate_days=60, ca_days=900)
QUEUE = Queue("hpc1", "batch", "batch.hpc1.batchgate", "open", "", 1, 0, 0, 20)
LEADER = Leader("hpc1", "agent-1", "2026-03-01T12:00:00Z", 2, in_force=True)
OVERVIEW = Overview(
    time="2026-03-01T12:00:00Z",
    queues=(QUEUE, dataclasses.replace(QUEUE, queue="night", state="closed", reason="by its admin")),
    jobs=(),
    oldest_waiting=None,
    stuck=(),
    leaders=(LEADER,),
    policies=(Holder("webhook", "gate-1", "d1"), Holder("agent", "hpc1", "d1")),
    releases=(Running("webhook", "gate-1", "1.0.0"),),
)
WELL = Looked(
    overview=OVERVIEW,
    webhook=Webhook(1, 1, (REPLICA,)),
    requests=(),
    conditions=(ConditionState("policy-1", fits=True, reason="it is"), ConditionState("policy-2", fits=None, reason="open")),
    policy=PolicyFiles("ConfigMap batchgate-system/batchgate-policies", ()),
    checks=(SiteCheck("hpc1", "2026-03-01T12:00:00Z", ""),),
    rights=(Right("hpc1", "lab", "read Secrets", True), Right("hpc1", "lab", "create tokens", None)),
)  # fmt: skip
CARET = (
    "all.yaml:1:22: rule rest: unknown key 'clod'\n  | rules: [{name: rest, clod: true}]\n  |                      ^"
)


def looked(**changes: Any) -> Looked:
    return dataclasses.replace(WELL, **changes)


def seen(**changes: Any) -> Looked:
    return looked(overview=dataclasses.replace(OVERVIEW, **changes))


def replica(**changes: Any) -> Looked:
    return looked(webhook=Webhook(1, 1, (dataclasses.replace(REPLICA, **changes),)))


def test_all_is_well() -> None:
    assert troubles(WELL) == ()


def test_what_could_not_be_looked_at_is_no_trouble() -> None:
    assert troubles(looked(webhook=None, policy=None, checks=())) == ()


KINDS = [
    (looked(policy=PolicyFiles("ConfigMap s/p", (CARET,))), ("policy", "ConfigMap s/p", CARET)),
    (seen(policies=(Holder("webhook", "g", "d1", "all.yaml:1: no"),)), ("policy", "g", "newer files are not in force: all.yaml:1: no")),
    (seen(policies=(Holder("webhook", "g", ""),)), ("policy", "g", "it has no policy in force")),
    (seen(policies=(Holder("webhook", "g", "d1"), Holder("agent", "s", "d2"))), ("policy", "", "webhook and agents do not all have the same one in force")),
    (looked(policy=PolicyFiles("ConfigMap s/p", (), "d9")), ("policy", "ConfigMap s/p", "is not the policy in force yet: webhook and agents read it within two minutes, unless they read other files")),
    (looked(webhook=Webhook(3, 2, ())), ("webhook", "", "2 of 3 replicas are ready")),
    (looked(webhook=Webhook(0, 0, ())), ("webhook", "", "it is scaled to 0 replicas: Jobs that it should judge are refused")),
    (dataclasses.replace(seen(policies=()), webhook=Webhook(None, 0, ())), ("webhook", "", "none is to be seen, and no replica says what it has in force")),
    (replica(trouble={"pod": "ErrImagePull"}), ("webhook", "gate-1", "pod: ErrImagePull")),
    (replica(certificate_days=13), ("certificate", "gate-1", "the certificate ends in 13 days")),
    (replica(certificate_days=-1), ("certificate", "gate-1", "the certificate has ended")),
    (replica(ca_days=0), ("certificate", "gate-1", "the CA of its certificate ends in 0 days")),
    (looked(conditions=(ConditionState("policy-1", fits=False, reason="old"),)), ("match condition", "policy-1", "old")),
    (seen(leaders=(dataclasses.replace(LEADER, in_force=False),)), ("agent", "hpc1", "no agent of the site leads")),
    (seen(queues=(dataclasses.replace(QUEUE, state="no-node", reason="none"),)), ("queue", "hpc1/batch", "no-node: none")),
    (looked(checks=(SiteCheck("hpc1", "", "found problems"),)), ("site check", "hpc1", "found problems")),
    (looked(requests=(PendingRequest("batchgate-kubelet-1", "agent", "t", 9),)), ("certificate request", "batchgate-kubelet-1", "waits for approval, of agent")),
    (looked(rights=(Right("hpc1", "lab", "read Secrets", False, "kubectl …"),)), ("right", "hpc1 in lab", "its agent may not read Secrets: kubectl …")),
    (seen(problems=("ConfigMap x: no JSON",)), ("document", "", "ConfigMap x: no JSON")),
    (seen(stuck=(Stuck("Pod", "lab", "p-1", "p", "hpc1", "batch", "Held", "t", "by root"),)), ("Pod", "lab/p-1", "Held of Job p since t: by root")),
    (seen(stuck=(Stuck("Job", "lab", "p", "p", "hpc1", "batch", "FailedCreate", "t", "exceeded quota"),)), ("Job", "lab/p", "FailedCreate since t: exceeded quota")),
    (seen(stuck=(Stuck("Node", "", "n", "", "hpc1", "batch", "HPCUnavailable", "t", "away"),)), ("Node", "n", "HPCUnavailable since t: away")),
]  # fmt: skip


@pytest.mark.parametrize(("found", "expected"), KINDS, ids=[f"{one[0]}-{one[2][:20]}" for _, one in KINDS])
def test_each_kind(found: Looked, expected: tuple[str, str, str]) -> None:
    assert troubles(found) == (Trouble(*expected),)


@pytest.mark.parametrize("days", [14, None])
def test_a_certificate_that_lasts_is_none(days: int | None) -> None:
    assert troubles(replica(certificate_days=days)) == ()
