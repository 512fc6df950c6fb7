"""Batchgate as ``make kind`` has installed it: a user's Jobs, an admin's policy, and the way off the cluster.

Only with BATCHGATE_KIND=required, as ``make test-kind`` says, and where ``make kind`` has been run: they delete all Jobs of
namespace default, and take Batchgate off that cluster and back. Its users would not expect this of ``make test``.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kindcluster import cluster, installing, provider
from kindcluster.layout import Layout
from kindcluster.provider import Provider
from router.controlplane import programs
from router.names import SYSTEM_NAMESPACE

pytestmark = [pytest.mark.kind, pytest.mark.timeout(600)]

EXAMPLES = Path(__file__).parents[2] / "examples"
LAYOUT = Layout()
ENDLESS = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "endless"},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 2,
                "containers": [
                    {
                        "name": "main",
                        "image": "busybox:1.36",
                        "command": ["sh", "-c", "echo begun; sleep 600"],
                        "resources": {"requests": {"cpu": "2", "memory": "64Mi"}},
                    }
                ],
            }
        }
    },
}


@pytest.fixture(scope="module")
def chosen() -> Iterator[Provider]:
    """The cluster's provider; each test finds Batchgate installed, and no Job."""
    if os.environ.get("BATCHGATE_KIND") != "required":
        pytest.skip("changes the cluster of `make kind`, so it is run by `make test-kind` only")
    chosen = cluster.choose()
    installing.install(LAYOUT, chosen, print)
    ok(chosen, "delete", "jobs", "--all", "--wait=true", "--timeout=120s")
    yield chosen
    installing.install(LAYOUT, chosen, print)


def kubectl(chosen: Provider, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    argv = cluster.kubectl(LAYOUT, chosen, words)
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=300, check=False)


def ok(chosen: Provider, *words: str, stdin: str = "") -> str:
    done = kubectl(chosen, *words, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def helm(chosen: Provider, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [*provider.inside(LAYOUT, chosen), str(programs.find_helm()), "--kubeconfig", str(LAYOUT.kubeconfig)]
    where = ["--namespace", SYSTEM_NAMESPACE]
    return subprocess.run([*argv, *where, *words], capture_output=True, text=True, timeout=300, check=False)


def example(chosen: Provider, name: str) -> subprocess.CompletedProcess[str]:
    return kubectl(chosen, "apply", "-f", str(EXAMPLES / name / "job.yaml"))


def run_endless(chosen: Provider) -> None:
    ok(chosen, "apply", "-f", "-", stdin=json.dumps(ENDLESS))
    deadline = time.monotonic() + 120
    while "begun" not in kubectl(chosen, "logs", "job/endless").stdout:
        assert time.monotonic() < deadline
        time.sleep(0.5)


def items(chosen: Provider, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ok(chosen, "get", *words, "-o", "json"))["items"]
    return found


def test_an_ordinary_job_runs_on_hpc_and_shows_its_log(chosen: Provider) -> None:
    applied = example(chosen, "02-large-goes-to-hpc")
    ok(chosen, "wait", "--for=condition=complete", "job/large", "--timeout=180s")

    assert "This Job goes to HPC: rule large sends it to queue batch of site demo" in applied.stderr
    assert ok(chosen, "logs", "job/large") == "the sum of 1 to 1000 is 500500\n"
    (pod,) = items(chosen, "pods", "-l", "job-name=large")
    assert pod["spec"]["nodeName"] == "batch.demo.batchgate"


def test_a_job_that_fails_shows_its_exit_code(chosen: Provider) -> None:
    example(chosen, "11-fails")
    ok(chosen, "wait", "--for=condition=failed", "job/fails", "--timeout=180s")

    (pod,) = items(chosen, "pods", "-l", "job-name=fails")
    assert [one["state"]["terminated"]["exitCode"] for one in pod["status"]["containerStatuses"]] == [3]


def test_a_job_that_a_rule_denies_is_refused(chosen: Provider) -> None:
    refused = example(chosen, "08-denied")

    assert refused.returncode == 1
    assert "More than 64 CPUs at once are for the large machine" in refused.stderr


def test_a_job_that_is_deleted_while_it_runs_is_gone(chosen: Provider) -> None:
    run_endless(chosen)

    ok(chosen, "delete", "job", "endless", "--timeout=180s")

    ok(chosen, "wait", "--for=delete", "pods", "-l", "job-name=endless", "--timeout=180s")


def test_a_policy_with_an_error_is_refused(chosen: Provider) -> None:
    policies = json.loads(ok(chosen, "-n", SYSTEM_NAMESPACE, "get", "configmap", "batchgate-policies", "-o", "json"))
    policies["data"]["30-rules.yaml"] = policies["data"]["30-rules.yaml"].replace("deny:", "denied:")

    refused = kubectl(chosen, "replace", "-f", "-", stdin=json.dumps(policies))

    assert refused.returncode == 1
    assert "30-rules.yaml:6:5: rule too-large: unknown key 'denied'" in refused.stderr


def test_it_leaves_the_cluster_only_when_nothing_routed_lives(chosen: Provider) -> None:
    run_endless(chosen)
    refused = helm(chosen, "uninstall", "batchgate", "--wait")
    still = kubectl(chosen, "create", "--dry-run=server", "-f", str(EXAMPLES / "04-gpu" / "job.yaml")).stderr
    ok(chosen, "delete", "jobs", "--all", "--timeout=180s")

    gone = helm(chosen, "uninstall", "batchgate", "--wait")

    assert refused.returncode == 1
    assert "default/endless" in refused.stderr
    assert "the virtual Nodes" not in refused.stderr
    assert "This Job goes to HPC" in still
    assert gone.returncode == 0, gone.stderr
    assert items(chosen, "mutatingwebhookconfigurations") == []
    ok(chosen, "-n", SYSTEM_NAMESPACE, "wait", "--for=delete", "pods", "--all", "--timeout=180s")
