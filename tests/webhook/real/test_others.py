"""Jobs that somebody else makes or changes: the CronJob controller, kubectl from a CronJob, another webhook after ours."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from router import names
from router.controlplane.options import RESEARCHERS
from router.controlplane.plane import ControlPlane
from router.placement import signing
from router.pod import template as podtemplate
from router.webhook.tls import load
from tests.kube.wire import await_true
from tests.webhook.real.gated import Gated, Json, gated, job, script, target, template_annotations
from tests.webhook.servers import Pki, Server, make_pki

CONTROLLER = "system:serviceaccount:kube-system:cronjob-controller"
INJECTED = {"name": "INJECTED", "value": "by another webhook"}


def cron_job(**fields: Any) -> Json:
    spec = job()["spec"]
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": spec}, **fields},
    }


@pytest.mark.timeout(900)
def test_a_cron_job_fires_for_its_namespace(jobs: Gated) -> None:
    jobs.done("create", "-f", "-", sent=cron_job())
    assert "nodeName" not in jobs.get("nightly", "cronjob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]

    def made() -> list[Json]:
        listed: list[Json] = json.loads(jobs.done("get", "jobs", "-o", "json").stdout)["items"]
        return listed

    await_true(made, "the CronJob to fire, which it does each minute", 180)
    jobs.done("patch", "cronjob", "nightly", "-p", json.dumps({"spec": {"suspend": True}}))
    stored = made()[0]
    assert target(stored) == "hpc"
    # The controller asks, and its name says nothing: it runs as the namespace does.
    assert template_annotations(stored)[names.KEY_REQUESTER] == "system:serviceaccount:kube-system:cronjob-controller"
    assert json.loads(template_annotations(stored)[names.KEY_ACCOUNT]) == {"user": "research"}


@pytest.mark.timeout(900)
def test_what_is_said_of_a_cron_job_is_what_becomes_of_its_runs(plane: ControlPlane, webhook: Server) -> None:
    """ada's own Jobs go to HPC in this namespace; nobody has an account for it that counts for the controller."""
    name = f"elsewhere-{os.getpid()}"
    plane.make_namespaces({name: (RESEARCHERS,)})
    jobs, policy = (
        gated(plane, name, webhook.log_file.parent / "signing.pub"),
        str(webhook.log_file.parent / "policies"),
    )
    sent = {**cron_job(), "metadata": {"name": "nightly", "namespace": name}}
    jobs.done("create", "-f", "-", sent=sent)
    jobs.done("create", "job", "by-hand", "--from=cronjob/nightly")

    def runs() -> list[Json]:
        listed = json.loads(jobs.done("get", "jobs", "-o", "json").stdout)["items"]
        return [one for one in listed if one["metadata"]["name"] != "by-hand"]

    await_true(runs, "the CronJob to fire, which it does each minute", 180)
    jobs.done("patch", "cronjob", "nightly", "-p", json.dumps({"spec": {"suspend": True}}))
    stored = runs()[0]
    decided = [stored["metadata"]["annotations"][key] for key in (names.KEY_RULE, names.KEY_REASON)]
    assert (target(stored), target(jobs.get("by-hand"))) == ("cloud", "hpc")
    assert decided[1].endswith(
        f"namespace {name} ({CONTROLLER} asks for others, so only an account by namespace counts)"
    )

    routed = batchgate("route", "-f", "-", "-o", "json", "--policy", policy, "--user", "ada", stdin=json.dumps(sent))
    explained = batchgate("explain", "-f", "-", "--policy", policy, "--user", "ada", stdin=json.dumps(sent)).stdout
    template = json.loads(routed.stdout)["spec"]["jobTemplate"]
    assert [template["metadata"]["annotations"][key] for key in (names.KEY_RULE, names.KEY_REASON)] == decided
    assert f"this is decided for {CONTROLLER}, not for ada" in routed.stderr
    assert f"cloud, by rule {decided[0]}: {decided[1]}\n" in explained

    words = ["describe", "cronjob/nightly", "-n", name, "--policy", policy, "--kubeconfig", str(plane.kubeconfig())]
    described = json.loads(batchgate(*words, "-o", "json").stdout)
    seen = {
        one["name"]: (one["byHand"], one["decision"]["target"], one["decision"]["reason"]) for one in described["runs"]
    }
    by_hand = jobs.get("by-hand")["metadata"]["annotations"][names.KEY_REASON]
    assert seen == {stored["metadata"]["name"]: (False, "cloud", decided[1]), "by-hand": (True, "hpc", by_hand)}
    assert described["nextRun"][0] == f"cloud, by rule {decided[0]}, for {CONTROLLER}: {decided[1]}"
    shown = batchgate(*words).stdout
    assert (
        decided[1] in shown,
        "Next run, by the policy given, as if it were made now (LimitRanges, quotas" in shown,
    ) == (True, True)


def batchgate(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """One command to its end, which must be well."""
    argv = [sys.executable, "-m", "router", *words]
    run = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run


def test_create_job_from_a_cron_job(jobs: Gated) -> None:
    jobs.done("create", "-f", "-", sent=cron_job(suspend=True))

    jobs.done("create", "job", "by-hand", "--from=cronjob/nightly")

    stored = jobs.get("by-hand")
    assert target(stored) == "hpc"
    assert template_annotations(stored)[names.KEY_REQUESTER] == "ada"


class Injecting(http.server.BaseHTTPRequestHandler):
    """A webhook that gives the first container of each Job a variable, as injectors do; JSON Patch, on a kept connection."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer: Json = {"uid": body["request"]["uid"], "allowed": True}
        container = body["request"]["object"]["spec"]["template"]["spec"]["containers"][0]
        if INJECTED not in container.get("env", []):
            path = "/spec/template/spec/containers/0/env"
            patch = [{"op": "add", "path": path, "value": [*container.get("env", []), INJECTED]}]
            answer |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        reply = json.dumps({"apiVersion": body["apiVersion"], "kind": body["kind"], "response": answer}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        pass


@contextlib.contextmanager
def injecting(pki: Pki) -> Iterator[int]:
    """The other webhook's port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Injecting)
    context: ssl.SSLContext = load(pki.certificate, pki.key, ("localhost",)).context
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def injector(plane: ControlPlane, jobs: Gated, tmp_path: Path) -> Iterator[None]:
    """Another mutating webhook, whose configuration comes after ours, for the test's namespace alone."""
    pki = make_pki(tmp_path / "injector")
    name = f"zz-injector-{jobs.namespace}"
    with injecting(pki) as port:
        ca = base64.b64encode((pki.directory / "ca.crt").read_bytes()).decode()
        webhook = {
            "name": "injector.example.org",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": f"https://localhost:{port}/", "caBundle": ca},
            "rules": [{"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": jobs.namespace}},
            "sideEffects": "None",
        }
        plane.apply(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": name},
                "webhooks": [webhook],
            }
        )
        try:
            await_true(lambda: injected(jobs.create(job("probe"), "--dry-run=server")), "the injector is asked")
            yield
        finally:
            plane.kubectl("delete", "mutatingwebhookconfiguration", name)


def injected(stored: Json) -> bool:
    return INJECTED in stored["spec"]["template"]["spec"]["containers"][0].get("env", [])


@pytest.mark.usefixtures("injector")
def test_the_script_follows_what_another_webhook_changed_after_ours(jobs: Gated) -> None:
    stored = jobs.create(job())

    assert injected(stored)
    assert target(stored) == "hpc"
    assert "'INJECTED=by another webhook'" in script(stored)
    keys = signing.load_public(jobs.public_key.read_bytes())
    claims = signing.read(template_annotations(stored)[names.KEY_SIGNATURE], keys)
    assert claims.template_sha256 == podtemplate.digest(stored["spec"]["template"]["spec"])
    # Called again, we found our own values, took them for ours, and put nothing in twice.
    assert len(stored["spec"]["template"]["spec"]["tolerations"]) == 3
    # What the API server fills in before it asks us is the user's own.
    own = json.loads(stored["metadata"]["annotations"][names.KEY_REPLACED])["was"]
    own.pop("spec.template.metadata", None)  # of Kubernetes 1.31 not yet
    assert own == {"spec.podReplacementPolicy": "TerminatingOrFailed"}
