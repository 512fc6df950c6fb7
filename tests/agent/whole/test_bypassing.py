"""A Job that no webhook has seen, with all the keys that only Batchgate sets: the signature decides, and nothing runs."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from router import names
from router.placement import signing
from router.pod import template as podtemplate
from tests.agent.whole.jobs import LABEL, unique
from tests.agent.whole.kubectl import Kubectl
from tests.agent.whole.site import SITE, STRANGER, USER, WIDE
from tests.agent.whole.stack import Stack
from tests.agent.whole.waiting import stays, until

pytestmark = pytest.mark.timeout(600)


def copied(stack: Stack, name: str, how: str, namespace: str, **own: Any) -> dict[str, Any]:
    """The Job that the webhook made of the user's own, as a new one; its proof is the webhook's, none, or home-made."""
    stack.user.apply(stack.runs.job(name, suspend=True, **own))
    stored = stack.job(name)
    template = json.loads(json.dumps(stored["spec"]["template"]))
    labels, proof = template["metadata"]["labels"], template["metadata"]["annotations"]
    for key in [key for key in labels if key.rpartition("/")[2] in {"controller-uid", "job-name"}]:
        del labels[key]
    if how == "none":
        del proof[names.KEY_SIGNATURE]
    elif how == "of a key of their own":
        proof[names.KEY_SIGNATURE] = signing.sign(claims_of(template, namespace), Ed25519PrivateKey.generate())
    spec = {key: value for key, value in stored["spec"].items() if key not in {"selector", "suspend", "template"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": stored["metadata"]["labels"], "annotations": {}},
        "spec": {**spec, "template": template},
    }


def claims_of(template: dict[str, Any], namespace: str) -> signing.Claims:
    """All that the agent will hold a signature against, right in every part."""
    proof = template["metadata"]["annotations"]
    return signing.Claims(
        issued_at=int(time.time()),
        namespace=namespace,
        requester=proof[names.KEY_REQUESTER],
        site=SITE,
        queue=WIDE,
        account=proof[names.KEY_ACCOUNT],
        results=(),
        script_sha256=signing.script_digest(proof[names.KEY_SCRIPT]),
        template_sha256=podtemplate.digest(template["spec"]),
    )


def test_a_job_that_no_webhook_has_seen_is_refused(stack: Stack, ungated: Kubectl) -> None:
    """With a proof that is right in every part, as the webhook gives one to whoever reaches it."""
    name = unique("unseen")
    done = ungated.run(
        "apply", "-f", "-", stdin=json.dumps(copied(stack, name, "the webhook's own", ungated.namespace))
    )

    assert done.rc == 1
    assert f"which it does not in namespace {ungated.namespace}" in done.err


@pytest.mark.usefixtures("unguarded")
def test_a_job_that_is_signed_for_somebody_else_is_refused(stack: Stack, ungated: Kubectl, stranger: Kubectl) -> None:
    """Another guard than that of namespaces: whoever may read a Job has its proof."""
    name = unique("theirs")
    job = json.dumps(copied(stack, name, "the webhook's own", ungated.namespace))
    other = stranger.elsewhere(ungated.namespace)

    said = until(
        lambda: other.run("apply", "-f", "-", stdin=job).err,
        lambda err: "which it does not in" not in err,
        what="for a word",
    )

    assert f"this Job is signed for {USER} and was sent by {STRANGER}" in said


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("how", ["the webhook's own", "none", "of a key of their own"])
def test_a_job_that_no_webhook_has_seen_never_runs(stack: Stack, ungated: Kubectl, how: str) -> None:
    """Without the guard its Pods are the Job controller's, which is let through to our nodes."""
    name = unique("unseen")
    job = json.dumps(copied(stack, name, how, ungated.namespace))
    until(lambda: ungated.run("apply", "-f", "-", stdin=job).rc == 0, what="for the API server to have no guard")

    (pod,) = until(lambda: ungated.every("pods", f"{LABEL}={name}"), what="for its Pod")
    assert pod["spec"]["nodeName"] == names.node_name(SITE, WIDE)

    def told() -> list[str]:
        chosen = ("--field-selector", f"involvedObject.name={pod['metadata']['name']},type=Warning")
        return [one["message"] for one in json.loads(ungated.ok("get", "events", *chosen, "-o", "json"))["items"]]

    until(told, lambda words: any("sign" in one for one in words), what="for a Warning of the signature")
    stays(lambda: stack.site.of(name), lambda jobs: not jobs, seconds=3, what="never submitted")
    assert stack.runs.lines(name) == []
