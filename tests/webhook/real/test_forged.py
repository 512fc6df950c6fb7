"""Decisions that a client had from the webhook itself, for whomever it liked, brought to a stored Job."""

from __future__ import annotations

import base64
import json

import jsonpatch

from router import names
from router.controlplane.options import ADA
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


def test_a_routed_job_does_not_grow_where_the_webhook_is_not_asked(jobs: Gated) -> None:
    jobs.create(job(suspend=True, parallelism=1, completions=20))
    leave_the_gate(jobs)

    grown = jobs.run("patch", "job", "solve", "-p", json.dumps({"spec": {"parallelism": 20}}))
    jobs.done("patch", "job", "solve", "-p", json.dumps({"spec": {"suspend": False}}))
    jobs.done("label", "job", "solve", "note=seen")

    assert "grows only where the webhook judges Jobs" in grown.stderr
    assert jobs.get()["spec"]["parallelism"] == 1
