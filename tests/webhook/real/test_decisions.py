"""Decisions of a real API server's reviews in the decision log, and the Jobs of its cluster, judged by another policy."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from router import names
from router.cli import commands
from router.controlplane.options import ADA, BEN
from router.controlplane.plane import ControlPlane
from tests.webhook.real.conftest import POLICY
from tests.webhook.real.gated import Gated, container, job
from tests.webhook.servers import Server, until

Json = dict[str, Any]
LARGER = POLICY.replace("{name: large, when: job.cpus >= 2,", "{name: large, when: job.cpus >= 8,")
SMALLER = POLICY.replace("{name: large, when: job.cpus >= 2,", "{name: large, when: job.cpus >= 1,")


def _policies(directory: Path) -> list[str]:
    for name, text in (("old", POLICY), ("new", LARGER), ("smaller", SMALLER)):
        (directory / name).mkdir()
        (directory / name / "all.yaml").write_text(text)
    return [str(directory / "old"), str(directory / "new")]


@contextlib.contextmanager
def _keys(plane: ControlPlane, public_key: Path) -> Iterator[None]:
    """Within the block the cluster has the webhook's public key, as ``certs ensure`` puts it there."""
    name = ("configmap", names.PUBLIC_KEYS_CONFIG_MAP, "-n", names.SYSTEM_NAMESPACE)
    plane.kubectl("create", *name, f"--from-file={names.PUBLIC_KEYS_KEY}={public_key}")
    try:
        yield
    finally:
        plane.kubectl("delete", *name)


def _diff(*options: str) -> list[tuple[Any, ...]]:
    result = CliRunner().invoke(commands, ["policy", "diff", *options, "-o", "json"])
    assert result.exit_code == 0, result.output
    changes = json.loads(result.stdout)["changes"]
    return [(one["before"], one["after"], one["jobs"], one["users"], one["missing"]) for one in changes]


def test_past_jobs_are_judged_as_who_asked(jobs: Gated, webhook: Server, plane: ControlPlane, tmp_path: Path) -> None:
    log = webhook.log_file.parent / "decisions.jsonl"
    assert POLICY != LARGER
    jobs.create(job("large"))
    jobs.done("create", "-f", "-", sent=job("own"), user=BEN.name)
    jobs.create(job("small", pod={"restartPolicy": "Never", "containers": [container(cpu="1")]}))
    jobs.create(job("tried"), "--dry-run=server")
    jobs.create({
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "later"},
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job()["spec"]}},
    })  # fmt: skip
    own = tmp_path / "own.jsonl"

    def logged() -> list[str]:
        lines = log.read_text().splitlines() if log.exists() else []
        return [line for line in lines if json.loads(line)["namespace"] == jobs.namespace and '"probe-' not in line]

    until(lambda: len(logged()) == 4)
    own.write_text("\n".join(logged()) + "\n")
    both = _policies(tmp_path)
    kubeconfig = ("--kubeconfig", str(plane.kubeconfig()), "-n", jobs.namespace)

    by_log = _diff(*both, "--log", str(own))
    with _keys(plane, jobs.public_key):
        by_cluster = _diff(*both, "--cluster", *kubeconfig)
        from_cloud = _diff(both[0], str(tmp_path / "smaller"), "--cluster", *kubeconfig)

    # In namespaces test-* everybody has an account by the namespace; ada has one of her own.
    assert by_log == [("demo/batch", "cloud", 2, {ADA.name: 1, BEN.name: 1}, {})]
    controller = "system:serviceaccount:kube-system:cronjob-controller"
    assert by_cluster == [("demo/batch", "cloud", 3, {ADA.name: 1, BEN.name: 1, controller: 1}, {})]
    assert from_cloud == [("cloud", "demo/batch", 1, {ADA.name: 1}, {"request.groups": 1})]


def test_a_job_that_no_webhook_judges_is_left_out_whatever_it_says(
    jobs: Gated, free: Gated, plane: ControlPlane, tmp_path: Path
) -> None:
    both = _policies(tmp_path)
    noted = jobs.create(job("large"))["spec"]["template"]["metadata"]["annotations"]
    kept = jobs.create(job("small", pod={"restartPolicy": "Never", "containers": [container(cpu="1")]}))["metadata"]
    for name, notes in (("forged", {names.KEY_REQUESTER: BEN.name}), ("copied", noted)):
        made = job(name)
        made["spec"]["template"]["metadata"] = {"annotations": notes}
        free.create(made)
    made = job("cloud")
    made["metadata"] |= {key: kept[key] for key in ("labels", "annotations")}
    free.create(made)
    kubeconfig = ("--kubeconfig", str(plane.kubeconfig()), "-n", free.namespace)

    with _keys(plane, jobs.public_key):
        done = CliRunner().invoke(commands, ["policy", "diff", *both, "--cluster", *kubeconfig, "-o", "json"])

    assert (done.exit_code, json.loads(done.stdout)["leftOut"]) == (
        2,
        [
            {
                "what": "of namespaces whose Jobs the webhook does not judge",
                "count": 3,
                "example": f"jobs/{free.namespace}/cloud",
            }
        ],
    )


def test_one_directory_is_compared_with_the_policy_of_the_cluster(
    plane: ControlPlane, jobs: Gated, tmp_path: Path
) -> None:
    both = _policies(tmp_path)
    jobs.create(job("large"))
    kubeconfig = ("--kubeconfig", str(plane.kubeconfig()), "-n", jobs.namespace)

    result = CliRunner().invoke(commands, ["policy", "diff", both[1], "--cluster", *kubeconfig])
    assert (result.exit_code, "there is none, so no policy is in force" in result.stderr) == (2, True)
    plane.kubectl("create", "configmap", "batchgate-policies", "-n", "batchgate-system", f"--from-file={both[0]}")
    try:
        with _keys(plane, jobs.public_key):
            found = _diff(both[1], "--cluster", *kubeconfig)
        options = (
            "--capacity",
            "demo/batch=2",
            "--capacity",
            "big/any=1",
            "--runtime",
            "0.5",
            "--assume-walltime",
            "1h",
            "-o",
            "json",
        )
        played = CliRunner().invoke(commands, ["policy", "simulate", "--cluster", *options, *kubeconfig])
    finally:
        plane.kubectl("delete", "configmap", "batchgate-policies", "-n", "batchgate-system")

    assert found == [("demo/batch", "cloud", 1, {ADA.name: 1}, {})]
    assert played.exit_code == 0, played.output
    (policy,) = json.loads(played.stdout)["policies"]
    assert policy["policy"] == "ConfigMap batchgate-system/batchgate-policies"
    assert [(one["to"], one["jobs"]["median"]) for one in policy["destinations"]] == [("demo/batch", 1), ("all", 1)]
