"""Decisions that a client had from the webhook itself, for whomever it liked, brought to a stored Job."""

from __future__ import annotations

import base64
import copy
import dataclasses
import json
from collections.abc import Iterator, Mapping

import jsonpatch
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from router import names
from router.controlplane.options import ADA, BEN
from router.errors import SignatureError
from router.placement import signing
from tests.gates import review_of
from tests.kube.wire import await_true
from tests.webhook.real.gated import Gated, Json, job, target, template_annotations
from tests.webhook.servers import Server

PROOF = (names.KEY_REQUESTER, names.KEY_ACCOUNT, names.KEY_SCRIPT, names.KEY_SIGNATURE)


def forged(webhook: Server, stored: Json, user: str) -> Json:
    """A patch of the Job's template with what the webhook answers to a review that says to be this user's."""
    _, answer = webhook.review(**review_of(stored, user=user, namespace=stored["metadata"]["namespace"]))
    patch = json.loads(base64.b64decode(answer["response"]["patch"]))
    annotations = template_annotations(jsonpatch.apply_patch(stored, patch))
    return {"spec": {"template": {"metadata": {"annotations": {key: annotations[key] for key in PROOF}}}}}


def leave_the_gate(jobs: Gated) -> None:
    jobs.plane.kubectl("label", "namespace", jobs.namespace, f"{names.LABEL_GATE}-")
    await_true(lambda: target(jobs.create(job("probe"), "--dry-run=server")) is None, "the webhook is not asked")


def test_the_webhook_signs_for_anybody_and_the_job_stays_whose_it_is(jobs: Gated, webhook: Server) -> None:
    jobs.create(job(suspend=True))
    before = template_annotations(jobs.get())
    patch = forged(webhook, jobs.get(), "ben")
    assert patch["spec"]["template"]["metadata"]["annotations"][names.KEY_REQUESTER] == "ben"

    jobs.done("patch", "job", "solve", "-p", json.dumps(patch))
    assert template_annotations(jobs.get()) == before  # the webhook was asked

    leave_the_gate(jobs)
    refused = jobs.run("patch", "job", "solve", "-p", json.dumps(patch))
    assert refused.returncode == 1
    assert "delete the Job and apply it anew" in refused.stderr
    assert 'jobs.batch "solve" is forbidden: ' in refused.stderr
    assert template_annotations(jobs.get()) == before


def test_her_own_new_script_does_not_come_past_the_webhook(jobs: Gated, webhook: Server) -> None:
    """Her own account's as well, which a review with more groups or another size would have signed."""
    jobs.create(job(suspend=True))
    stored = jobs.get()
    stored["metadata"]["annotations"][names.HINT_WALLTIME] = "2h"
    patch = forged(webhook, stored, ADA.name)

    leave_the_gate(jobs)
    refused = jobs.run("patch", "job", "solve", "-p", json.dumps(patch))

    assert "keys of batchgate.dev on a Job that goes to HPC change only where the webhook judges Jobs" in refused.stderr


@pytest.fixture
def away(jobs: Gated) -> Iterator[None]:
    """The webhook does not answer, and its registration says ``Ignore``: every Job passes unjudged."""
    path = "mutatingwebhookconfigurations", names.REGISTRATION
    before = json.loads(jobs.plane.kubectl("get", *path, "-o", "json").stdout)["webhooks"][0]
    gone = {"failurePolicy": "Ignore", "clientConfig": {**before["clientConfig"], "url": "https://localhost:9/mutate"}}

    def change(fields: Json) -> None:
        operations = [{"op": "replace", "path": f"/webhooks/0/{key}", "value": fields[key]} for key in gone]
        jobs.plane.kubectl("patch", *path, "--type=json", "-p", json.dumps(operations))

    def is_asked() -> bool:
        return target(jobs.create(job("probe"), "--dry-run=server")) is not None

    change(gone)
    await_true(lambda: not is_asked(), "the webhook is not asked")
    yield
    change(before)
    await_true(is_asked, "the webhook is asked again")


def answered(jobs: Gated, webhook: Server, groups: list[str], name: str) -> Json:
    """Ben's Job as the webhook answers his own review, which says that he is in these groups."""
    sent = job(name, metadata={"namespace": jobs.namespace})
    asking = {"username": "ben", "groups": groups}
    _, answer = webhook.review(**review_of(sent, namespace=jobs.namespace, userInfo=asking))
    routed: Json = jsonpatch.apply_patch(sent, json.loads(base64.b64decode(answer["response"]["patch"])))
    return routed


@pytest.mark.usefixtures("away")
def test_a_decision_for_other_groups_is_refused_where_the_webhook_does_not_answer(jobs: Gated, webhook: Server) -> None:
    his = [*BEN.groups, "system:authenticated"]
    mine, forged = (answered(jobs, webhook, groups, "solve") for groups in (his, ["chiefs", *his]))
    accounts = [json.loads(template_annotations(one)[names.KEY_ACCOUNT])["user"] for one in (mine, forged)]
    assert accounts == ["research", "chief"]

    refused = jobs.run("create", "-f", "-", sent=forged, user="ben")
    hidden = copy.deepcopy(forged)
    del hidden["spec"]["template"]["metadata"]["annotations"][names.KEY_GROUPS]

    assert "is signed for other groups than those of ben, who sent it: apply your own Job" in refused.stderr
    jobs.done("create", "-f", "-", sent=mine, user="ben")  # a decision of his own, which gives him nothing more
    keys = signing.load_public(jobs.public_key.read_bytes())
    with pytest.raises(SignatureError, match="groups_sha256 is signed as"):  # what the agent says of it
        approval_of(hidden, jobs.namespace, keys)


def approval_of(job: Json, namespace: str, keys: Mapping[str, Ed25519PublicKey]) -> None:
    """What an agent checks of a stored Job's signature. Raises SignatureError."""
    found = signing.read(template_annotations(job)[names.KEY_SIGNATURE], keys)
    claims = signing.claims_of(job, namespace, found)
    signing.compare(found, dataclasses.replace(claims, issued_at=found.issued_at))


def test_a_routed_job_does_not_grow_where_the_webhook_is_not_asked(jobs: Gated) -> None:
    jobs.create(job(suspend=True, parallelism=1, completions=20))
    leave_the_gate(jobs)

    grown = jobs.run("patch", "job", "solve", "-p", json.dumps({"spec": {"parallelism": 20}}))
    jobs.done("patch", "job", "solve", "-p", json.dumps({"spec": {"suspend": False}}))
    jobs.done("label", "job", "solve", "note=seen")

    assert "grows only where the webhook judges Jobs" in grown.stderr
    assert jobs.get()["spec"]["parallelism"] == 1
