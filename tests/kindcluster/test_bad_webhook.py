"""What a user sees of a webhook that is stopped, slow or answers rubbish, with both failure policies."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from kindcluster.provider import Provider
from router.names import SYSTEM_NAMESPACE
from tests.agent.whole.waiting import until
from tests.kindcluster import impostor
from tests.kindcluster.test_installed import EXAMPLES, chosen, items, kubectl, ok

__all__ = ["chosen"]
pytestmark = [pytest.mark.kind, pytest.mark.timeout(900)]

SYSTEM: Final = f"--namespace={SYSTEM_NAMESPACE}"
JOB: Final = str(EXAMPLES / "02-large-goes-to-hpc" / "job.yaml")
OURS: Final = {"app.kubernetes.io/name": "batchgate-webhook"}
SLICE: Final = "kubernetes.io/service-name=batchgate"
REGISTRATION: Final = ("mutatingwebhookconfiguration", "batchgate")


def pod(what: str) -> dict[str, Any]:
    """The Pod of a webhook that does this."""
    container = {
        "name": "impostor",
        "image": "localhost/batchgate:0.1.0",
        "imagePullPolicy": "Never",
        "command": ["python3", "/program/impostor.py", what],
        "ports": [{"name": "https", "containerPort": 8443}],
        "readinessProbe": {"tcpSocket": {"port": "https"}, "periodSeconds": 1},
        "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in ("program", "tls")],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    volumes = [
        {"name": "program", "configMap": {"name": "impostor"}},
        {"name": "tls", "secret": {"secretName": "batchgate-webhook-tls"}},
    ]
    secure = {"runAsNonRoot": True, "runAsUser": 65532, "fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {
        "containers": [container],
        "volumes": volumes,
        "securityContext": secure,
        "terminationGracePeriodSeconds": 0,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "impostor", "labels": {"app": "impostor"}},
        "spec": spec,
    }


@pytest.fixture(scope="module")
def apart(chosen: Provider) -> Iterator[Provider]:
    """The Service leads nowhere but to what a test puts there; in the end to ours again."""
    ok(chosen, SYSTEM, "create", "configmap", "impostor", f"--from-file={Path(impostor.__file__)}")
    select(chosen, {"app": "impostor"})
    yield chosen
    select(chosen, OURS)
    policy(chosen, "Fail")
    ok(chosen, SYSTEM, "delete", "configmap", "impostor")


def select(chosen: Provider, labels: dict[str, str]) -> None:
    change = [{"op": "replace", "path": "/spec/selector", "value": labels}]
    ok(chosen, SYSTEM, "patch", "service", "batchgate", "--type=json", "-p", json.dumps(change))


def policy(chosen: Provider, value: str) -> None:
    change = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": value}]
    ok(chosen, "patch", *REGISTRATION, "--type=json", "-p", json.dumps(change))


FAILED: Final = 'Internal error occurred: failed calling webhook "jobs.batchgate.dev": '
REFUSED: Final = {
    "nothing": 'failed to call webhook: Post "https://batchgate.batchgate-system.svc:443/mutate?timeout=10s": context deadline exceeded',
    "no JSON": "failed to call webhook: couldn't get version/kind; json parse error: ",
    "no review": "received invalid webhook response: webhook response was absent",
    "another's answer": 'received invalid webhook response: expected response.uid="',
    "an error": 'failed to call webhook: an error on the server ("unknown") has prevented the request from succeeding',
    "a patch that is none": "received undecodable patch in webhook response: invalid character 'r' ",
}
"""What the API server tells the user, by what the webhook does, where ``failurePolicy`` is Fail."""


@pytest.fixture
def impersonated(apart: Provider, request: pytest.FixtureRequest) -> Iterator[tuple[Provider, str]]:
    """A webhook in our place that answers so."""
    what: str = request.param
    ok(apart, SYSTEM, "apply", "-f", "-", stdin=json.dumps(pod(what)))
    ok(apart, SYSTEM, "wait", "--for=condition=ready", "pod/impostor", "--timeout=180s")
    reached = "--for=jsonpath={.endpoints[0].conditions.ready}=true"
    ok(apart, SYSTEM, "wait", reached, "endpointslices", "-l", SLICE, "--timeout=180s")
    yield apart, what
    ok(apart, SYSTEM, "delete", "pod", "impostor", "--wait=true")


def created(chosen: Provider, failing: str) -> tuple[int, str]:
    """A Job's creation once the API server has this policy: kubectl's exit code and what it says on stderr."""
    policy(chosen, failing)
    time.sleep(2)  # an API server reads its registrations every second, and says nowhere which are in force
    done = kubectl(chosen, "create", "-f", JOB)
    return done.returncode, done.stderr


def test_a_webhook_that_is_stopped(apart: Provider) -> None:
    code, said = created(apart, "Fail")
    assert (code, FAILED in said, "connection refused" in said) == (1, True, True), said

    assert created(apart, "Ignore") == (0, "")
    assert unjudged(apart)


@pytest.mark.parametrize("impersonated", REFUSED, indirect=True)
def test_a_webhook_that_answers_nothing_that_counts(impersonated: tuple[Provider, str]) -> None:
    """With Fail the user is told what came, with Ignore the Job is created as if there were no webhook."""
    chosen, what = impersonated
    code, said = created(chosen, "Fail")
    assert (code, f"{FAILED}{REFUSED[what]}" in said) == (1, True), said

    assert created(chosen, "Ignore") == (0, "")
    assert unjudged(chosen)


@pytest.mark.parametrize("impersonated", ["a patch that breaks"], indirect=True)
def test_a_patch_that_breaks_is_an_error_with_both(impersonated: tuple[Provider, str]) -> None:
    chosen, _ = impersonated
    for failing in ("Fail", "Ignore"):
        code, said = created(chosen, failing)
        assert (code, "Internal error occurred: testing value /spec/backoffLimit failed" in said) == (1, True), said


@pytest.mark.parametrize("impersonated", ["a patch without a signature"], indirect=True)
def test_what_is_not_signed_does_not_run(impersonated: tuple[Provider, str]) -> None:
    """Whoever answers in our place still cannot make the agent run anything."""
    chosen, _ = impersonated

    assert created(chosen, "Fail")[0] == 0
    # Without a Pod kubectl would fail at once.
    until(lambda: items(chosen, "pods", "-l", "job-name=large"), what="for its Pod")
    ok(chosen, "wait", "--for=jsonpath={.status.phase}=Failed", "pod", "-l", "job-name=large", "--timeout=180s")
    (found,) = items(chosen, "pods", "-l", "job-name=large")
    ok(chosen, "delete", "job", "large", "--timeout=180s")

    assert found["spec"]["nodeName"] == "batch.demo.batchgate"
    status = found["status"]
    words = "Batchgate did not route or sign the Job"
    assert (status["reason"], words in status["message"]) == ("NotVerified", True), status


def unjudged(chosen: Provider) -> bool:
    """Whether the Job was created without our keys; it is deleted."""
    made = json.loads(ok(chosen, "get", "job", "large", "-o", "json"))
    ok(chosen, "delete", "job", "large", "--timeout=180s")
    return "batchgate.dev" not in json.dumps({**made["metadata"], "managedFields": [], "annotations": {}})
