"""``batchgate webhook`` as it is started: real reviews, files that change under it, and what it refuses to start with."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

from router.certs import issuing
from router.certs.files import write_all
from router.startup.settings import Address
from router.webhook import serve
from tests.webhook.servers import ROOT, Pki, Server, exchange, make_pki, serving, until

POLICY = """
sites:
  - name: one
    system: openpbs
    workDir: /work
    queues: [{name: batch, nodes: 4, cpusPerNode: 8, memoryPerNode: 16Gi, walltimeDefault: 1h, walltimeMax: 4h}]
accounts: [{users: [ada], as: ada}]
rules:
  - {name: watched, mode: audit, when: job.cpus >= 2, hpc: [{queue: batch}]}
  - {name: large, when: job.cpus >= 2, hpc: [{queue: batch}]}
  - {name: rest, when: "true", cloud: true}
"""


def job(cpus: str = "4", **container: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpus, "memory": "1Gi"}}
    main = {"name": "main", "image": "busybox:1.36", "command": ["true"], "resources": resources} | container
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "solve", "namespace": "physics"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [main]}}},
    }


def review(job: object, **request: Any) -> dict[str, Any]:
    kind = {"group": "batch", "version": "v1", "kind": "Job"}
    asked = {
        "uid": "4f1c",
        "kind": kind,
        "operation": "CREATE",
        "namespace": "physics",
        "name": "solve",
        "userInfo": {"username": "ada", "groups": []},
        "object": job,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked | request}


def send(server: Server, body: object) -> tuple[int, dict[str, Any]]:
    status, _, answer = server.ask("POST", "/mutate", json.dumps(body).encode())
    return status, json.loads(answer)


class Setup:
    """Files of a webhook that can be changed, and its command line."""

    def __init__(self, directory: Path) -> None:
        self.pki: Pki = make_pki(directory / "certs")
        self.policy = directory / "policies"
        self.policy.mkdir()
        self.rules = self.policy / "all.yaml"
        self.write_rules(POLICY)
        self.queues = directory / "queues.json"
        self.signing_key = directory / "signing.key"
        self.signing_key.write_bytes(issuing.make_signing_keys().private)
        self.log = directory / "log"

    def write_rules(self, text: str) -> None:
        """At once: a webhook that watches the file never reads half of it."""
        write_all(self.policy, {self.rules.name: text.encode()})

    def options(self) -> dict[str, str]:
        return {
            "--listen": "127.0.0.1:0",
            "--host-name": "localhost",
            "--cert": str(self.pki.certificate),
            "--key": str(self.pki.key),
            "--policy": str(self.policy),
            "--queues": str(self.queues),
            "--signing-key": str(self.signing_key),
        }


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


@pytest.fixture
def start(setup: Setup) -> Iterator[Callable[..., Server]]:
    with ExitStack() as stack:

        def started(*more: str, environment: dict[str, str] | None = None, options: bool = True) -> Server:
            given = [word for pair in setup.options().items() for word in pair] if options else []
            argv = ["router", "webhook", *given, *more]
            return stack.enter_context(serving(argv, setup.pki, setup.log, environment))

        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    setup = Setup(tmp_path_factory.mktemp("webhook"))
    argv = ["router", "webhook", *(word for pair in setup.options().items() for word in pair)]
    with serving(argv, setup.pki, setup.log) as running:
        yield running


# --- reviews ----------------------------------------------------------------------------------------------------


def test_a_large_job_is_routed(server: Server) -> None:
    status, answer = send(server, review(job(), uid="large"))

    response = answer["response"]
    routed = jsonpatch.apply_patch(job(), json.loads(base64.b64decode(response["patch"])))
    assert (status, answer["apiVersion"], answer["kind"]) == (200, "admission.k8s.io/v1", "AdmissionReview")
    assert (response["uid"], response["allowed"], response["patchType"]) == ("large", True, "JSONPatch")
    assert routed["spec"]["template"]["spec"]["nodeName"] == "batch.one.batchgate"
    assert response["auditAnnotations"]["rule"] == "large"
    assert len(response["warnings"]) >= 1


def test_a_decision_is_logged_without_what_the_job_holds(server: Server) -> None:
    secret = [{"name": "TOKEN", "value": "do-not-log-me"}]
    send(server, review(job(env=secret, args=["do-not-log-me-either"]), uid="logged", dryRun=True))

    (line,) = [line for line in server.logged("decision") if line["uid"] == "logged"]
    assert {name: line[name] for name in ("namespace", "name", "user", "target", "rule", "dry_run", "audited")} == {
        "namespace": "physics",
        "name": "solve",
        "user": "ada",
        "target": "hpc",
        "rule": "large",
        "dry_run": True,
        "audited": ["watched"],
    }
    assert line["reason"]
    assert line["ms"] > 0
    assert "do-not-log-me" not in server.log_file.read_text()


def test_decisions_are_counted_by_target_and_rule(server: Server) -> None:
    before = server.metrics()
    for cpus in ("500m", "4", "4"):
        send(server, review(job(cpus)))
    after = server.metrics()

    def grown(name: str) -> float:
        return after[name] - before.get(name, 0)

    assert grown('batchgate_decisions_total{dry_run="false",rule="large",target="hpc"}') == 2
    assert grown('batchgate_decisions_total{dry_run="false",rule="rest",target="cloud"}') == 1
    assert grown('batchgate_audit_matches_total{rule="watched"}') == 2


def test_a_bad_job_is_a_denial_that_names_the_field(server: Server) -> None:
    status, answer = send(server, review(job("1x")))

    response = answer["response"]
    assert (status, response["uid"], response["allowed"]) == (200, "4f1c", False)
    assert response["status"]["message"].startswith("spec.template.spec.containers[0].resources.requests")


def _nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (review(job()) | {"apiVersion": "admission.k8s.io/v1beta1"}, "v1beta1"),
        (review(job()) | {"kind": "Job"}, "AdmissionReview"),
        (review(job(), uid=""), "uid"),
        (review({"apiVersion": "v1", "kind": "Pod"}, kind={"group": "", "version": "v1", "kind": "Pod"}), "Pod"),
        (review(None), "request.object"),
        (review(job() | {"metadata": _nested(100)}), "100"),
        ([], "AdmissionReview"),
        (1, "AdmissionReview"),
        (None, "AdmissionReview"),
    ],
    ids=["v1beta1", "kind", "no-uid", "pod", "no-object", "deep", "list", "number", "null"],
)
def test_a_bad_review_is_400(server: Server, body: object, words: str) -> None:
    status, answer = send(server, body)

    assert (status, list(answer)) == (400, ["error"])
    assert words in answer["error"]
    assert "\n" not in answer["error"]


def test_no_bad_review_was_a_bug(server: Server) -> None:
    assert server.logged("a bug") == []


# --- files that change ------------------------------------------------------------------------------------------


def test_a_broken_policy_leaves_the_last_good_one_in_force(setup: Setup, start: Callable[..., Server]) -> None:
    server = start()
    assert _ready(server) == (200, 1, set())

    setup.write_rules(POLICY.replace("job.cpus >= 2", "job.cpuz >= 2"))
    until(lambda: _ready(server) == (200, 1, {"policy"}))

    errors = json.loads(server.ask("GET", "/readyz")[2])["errors"]
    assert "all.yaml:10" in errors["policy"]
    assert send(server, review(job()))[1]["response"]["auditAnnotations"]["rule"] == "large"
    metrics = server.metrics()
    assert metrics['batchgate_reload_failures_total{source="policy"}'] == 1
    assert metrics['batchgate_source_broken{source="policy"}'] == 1
    assert metrics["batchgate_policy_generation"] == 1
    assert "all.yaml:10" in server.logged("reload failed; the last good one stays in force")[0]["error"]

    setup.write_rules(POLICY.replace("name: large", "name: mended"))
    until(lambda: _ready(server) == (200, 2, set()))

    assert send(server, review(job()))[1]["response"]["auditAnnotations"]["rule"] == "mended"
    assert server.metrics()['batchgate_source_broken{source="policy"}'] == 0
    assert (
        server.metrics()["batchgate_policy_loaded_timestamp_seconds"]
        >= metrics["batchgate_policy_loaded_timestamp_seconds"]
    )


def _ready(server: Server) -> tuple[int, int, set[str]]:
    status, _, body = server.ask("GET", "/readyz")
    shown = json.loads(body)
    return status, shown["policy"]["generation"], set(shown["errors"]) - {"queues"}


def test_queue_state_grows_old(setup: Setup, start: Callable[..., Server]) -> None:
    """By the file's own time, or by the one that stands in it."""
    down = {"queues": [{"site": "one", "queue": "batch", "up": False}]}
    setup.queues.write_text(json.dumps(down))
    os.utime(setup.queues, (1772366400, 1772366400))
    server = start("--queues-max-age", "5m")
    said = f"{setup.queues} is of 2026-03-01T12:00:00Z, more than 5m ago; see to what writes it, or --queues-max-age"

    assert json.loads(server.ask("GET", "/readyz")[2])["errors"]["queues"] == said
    assert server.metrics()["batchgate_queue_states"] == 0
    assert server.metrics()['batchgate_source_broken{source="queues"}'] == 1
    assert send(server, review(job()))[1]["response"]["auditAnnotations"]["decision"] == "hpc"
    assert [line["error"] for line in server.logged("reload failed; nothing is known now")] == [said]

    setup.queues.write_text(json.dumps({"time": time.time(), **down}))
    os.utime(setup.queues, (1772366400, 1772366400))
    until(lambda: server.metrics()["batchgate_queue_states"] == 1)
    assert send(server, review(job()))[1]["response"]["auditAnnotations"]["decision"] == "cloud"


def test_queue_state_comes_and_goes(setup: Setup, start: Callable[..., Server]) -> None:
    server = start()
    assert "does not exist" in json.loads(server.ask("GET", "/readyz")[2])["errors"]["queues"]
    assert server.metrics()["batchgate_queue_states"] == 0

    setup.queues.write_text(json.dumps({"queues": [{"site": "one", "queue": "batch", "up": False}]}))
    until(lambda: server.metrics()["batchgate_queue_states"] == 1)
    assert send(server, review(job()))[1]["response"]["auditAnnotations"]["decision"] == "cloud"
    assert server.metrics()["batchgate_queue_states_timestamp_seconds"] > 1_700_000_000

    setup.queues.write_text("{rubbish")
    until(lambda: server.metrics()["batchgate_queue_states"] == 0)
    assert server.ask("GET", "/readyz")[0] == 200
    assert send(server, review(job()))[1]["response"]["auditAnnotations"]["decision"] == "hpc"
    assert any(line["source"] == "queues" for line in server.logged("reload failed; nothing is known now"))


def test_a_worker_that_starts_while_the_policy_is_broken_keeps_the_last_good_one(
    setup: Setup, start: Callable[..., Server]
) -> None:
    server = start()
    send(server, review(job()))
    (worker,) = server.children()
    setup.write_rules("rubbish: [")

    os.kill(worker, signal.SIGKILL)

    assert send(server, review(job()))[1]["response"]["auditAnnotations"]["rule"] == "large"
    assert until(lambda: "policy" in json.loads(server.ask("GET", "/readyz")[2])["errors"])


# --- starting ---------------------------------------------------------------------------------------------------


def test_settings_from_the_environment(setup: Setup, start: Callable[..., Server]) -> None:
    named = {name.removeprefix("--").replace("-", "_").upper(): value for name, value in setup.options().items()}
    environment = {f"BATCHGATE_{name}": value for name, value in named.items()}
    environment |= {"BATCHGATE_POLICY": "/nowhere", "BATCHGATE_WEBHOOK_POLICY": str(setup.policy)}

    server = start(environment=environment, options=False)

    assert send(server, review(job()))[0] == 200


def test_text_logs(setup: Setup) -> None:
    argv = [word for pair in setup.options().items() for word in pair]
    with setup.log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "router", "webhook", *argv, "--log-format", "text"], stderr=file, cwd=ROOT
        )
    try:
        until(lambda: " listening address=127.0.0.1:" in setup.log.read_text())
        # Not before its worker answers: a signal in between would meet neither the arbiter's handlers nor the worker's.
        port = setup.log.read_text().partition(" listening address=127.0.0.1:")[2].split()[0]
        until(lambda: _answers(int(port), setup.pki))
        assert "Booting worker" in setup.log.read_text()
    finally:
        process.terminate()
        assert process.wait(30) == 0
    assert "{" not in setup.log.read_text()


def _answers(port: int, pki: Pki) -> bool:
    tls = ssl.create_default_context(cafile=pki.directory / "ca.crt")
    with closing(http.client.HTTPSConnection("localhost", port, context=tls, timeout=60)) as connection:
        return exchange(connection, "GET", "/livez")[0] == 200


def refused(setup: Setup, **changed: object) -> str:
    """What it says when it refuses to start, which must be one line and exit code 2."""
    options = setup.options() | {f"--{name.replace('_', '-')}": str(value) for name, value in changed.items()}
    run = subprocess.run(
        [sys.executable, "-m", "router", "webhook", *(word for pair in options.items() for word in pair)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stdout) == (2, ""), run
    return run.stderr.removeprefix("Error: ").removesuffix("\n")


def test_certificates_that_it_does_not_start_with(setup: Setup, tmp_path: Path) -> None:
    expired = setup.pki.issue("localhost", now=datetime.now(UTC) - timedelta(days=9), days=1)
    cases: list[tuple[str, bytes, str]] = [
        ("expired", expired.public, "expired at"),
        ("elsewhere", setup.pki.issue("elsewhere").public, "do not belong together"),
        ("empty", b"", "is empty; it must hold a certificate in PEM form"),
        ("rubbish", b"rubbish", "holds no certificate in PEM form"),
    ]
    for name, data, words in cases:
        (tmp_path / name).write_bytes(data)
        said = refused(setup, cert=tmp_path / name)
        assert words in said
        assert str(tmp_path / name) in said
        assert "\n" not in said
    assert "for localhost, 127.0.0.1, ::1, not for other.org" in refused(setup, host_name="other.org")
    assert refused(setup, cert=tmp_path / "none").startswith(f"{tmp_path / 'none'} does not exist")
    assert "is a directory" in refused(setup, key=tmp_path)


def test_other_files_that_it_does_not_start_with(setup: Setup, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "nowhere" in refused(setup, policy=tmp_path / "nowhere")
    assert "empty" in refused(setup, policy=tmp_path / "empty")
    assert str(setup.pki.key) in refused(setup, signing_key=setup.pki.key)
    assert "does not exist" in refused(setup, signing_key=tmp_path / "none")
    assert "does not exist" in refused(setup, cluster=tmp_path / "none")
    assert "none: cannot be read; name a file with --kubeconfig" in refused(setup, kubeconfig=tmp_path / "none")
    both = refused(setup, kubeconfig=tmp_path / "none", cluster=tmp_path / "none")
    assert both.endswith("--cluster and --kubeconfig each say where the cluster is known from; give one of them")
    setup.write_rules(POLICY + "  - {name: rest, cloud: true}\n")
    assert "all.yaml:" in refused(setup)


def test_addresses_that_it_does_not_start_with(setup: Setup) -> None:
    with closing(serve.bind(Address("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
        assert refused(setup, listen=f"127.0.0.1:{port}") == (
            f"cannot listen on 127.0.0.1:{port}: address already in use; choose another --listen"
        )
    assert "is no address to listen on" in refused(setup, listen="8443")
    assert refused(setup, listen="127.0.0.2:8443", metrics_listen="127.0.0.1:8443").endswith(
        "have one port, which alone tells them apart; give --metrics-listen another port"
    )
