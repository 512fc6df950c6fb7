"""ResourceQuotas count Pods on virtual nodes: that is said on the Job, and ``manifests/quota`` lets a quota leave them out."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml
from click.testing import CliRunner

from router import names
from router.cli import commands
from router.controlplane.installing import MANIFESTS
from tests.kube.wire import await_true
from tests.since import since
from tests.webhook.real.gated import Gated, Json, container, job, warnings
from tests.webhook.servers import ROOT

QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "cloud"}}
SAID = "but its namespace has no room for its Pods: ResourceQuota cloud: requests.cpu: each Pod takes 4 of 2 in all"


def limited(jobs: Gated, spec: Json) -> None:
    """Give the namespace this quota, and wait until it is in force and the webhook has seen it."""
    jobs.plane.kubectl("apply", "-n", jobs.namespace, "-f", "-", stdin=json.dumps({**QUOTA, "spec": spec}))

    def counted() -> bool:
        status = jobs.plane.get("resourcequota", "cloud", "-n", jobs.namespace).get("status", {})
        return bool(status.get("hard") == spec["hard"])

    await_true(counted, "the quota is in force")


def refusals(jobs: Gated, name: str) -> list[str]:
    """What the Job controller says of this Job's Pods."""
    field = f"involvedObject.name={name},reason=FailedCreate"
    listed = jobs.plane.get("events", "-n", jobs.namespace, "--field-selector", field)["items"]
    return [event["message"] for event in listed]


def test_a_job_for_which_there_is_no_room_says_so(jobs: Gated) -> None:
    limited(jobs, {"hard": {"requests.cpu": "2"}})
    await_true(
        lambda: SAID in " ".join(warnings(jobs.done("create", "--dry-run=server", "-f", "-", sent=job()))), "said"
    )

    stored = jobs.create(job())

    assert stored["metadata"]["annotations"][names.KEY_REASON].endswith(SAID)
    await_true(lambda: refusals(jobs, "solve"), "the Job controller has tried")
    assert (
        "exceeded quota: cloud, requested: requests.cpu=4, used: requests.cpu=0, limited: requests.cpu=2"
        in (refusals(jobs, "solve")[0])
    )
    assert jobs.pods() == []
    words = ["describe", "solve", "-n", jobs.namespace, "--kubeconfig", str(jobs.plane.kubeconfig())]
    told = CliRunner().invoke(commands, words)
    assert (told.exit_code, "exceeded quota: cloud, requested: requests.cpu=4" in told.stdout) == (0, True)


@pytest.fixture
def scoped(jobs: Gated) -> Iterator[Gated]:
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 9}
    jobs.plane.kubectl("apply", "-k", str(MANIFESTS / "quota"))
    jobs.plane.kubectl("apply", "-f", "-", stdin=json.dumps(urgent))
    yield jobs
    jobs.plane.kubectl("delete", "priorityclass", "urgent")
    jobs.plane.kubectl("delete", "-k", str(MANIFESTS / "quota"))


@since(36, "MutatingAdmissionPolicies")
def test_a_quota_of_the_cloud_leaves_out_what_runs_on_hpc(scoped: Gated) -> None:
    """The quota is the one of docs/operating.md."""
    page = (ROOT / "docs" / "operating.md").read_text().partition("\n## Quotas\n")[2]
    (quota,) = yaml.safe_load_all(page.partition("```yaml\n")[2].partition("```")[0])
    hard = {**quota["spec"]["hard"], "requests.cpu": "1500m"}
    limited(scoped, {**quota["spec"], "hard": hard})
    forged = job("forged", pod={"containers": [container(cpu="1")], "priorityClassName": "batchgate-hpc"})

    def kept_out() -> bool:
        scoped.run("delete", "job", "forged")
        await_true(lambda: not scoped.pods("forged"), "no Pod of the one before")
        scoped.create(forged)
        # Until the guard is in force its Pod comes to be, and nothing is refused.
        await_true(lambda: refusals(scoped, "forged") or scoped.pods("forged"), "the Job controller has tried")
        return any("is for Pods on virtual nodes" in message for message in refusals(scoped, "forged"))

    await_true(kept_out, "the class is guarded")
    for name, own in (("plain", {}), ("urgent", {"priorityClassName": "urgent"})):
        scoped.create(job(name, pod=own))
        await_true(lambda name=name: scoped.pods(name), "its Pod")  # type: ignore[misc]
        (pod,) = scoped.pods(name)
        assert (pod["spec"]["priorityClassName"], pod["spec"]["priority"]) == ("batchgate-hpc", 0)
    used = scoped.plane.get("resourcequota", "cloud", "-n", scoped.namespace)["status"]["used"]
    assert used["requests.cpu"] == "0"
    scoped.create(job("small", pod={"containers": [container(cpu="1")]}))
    await_true(lambda: scoped.pods("small"), "the Pod for which there is room")
    scoped.create(job("second", pod={"containers": [container(cpu="1")]}))
    await_true(lambda: refusals(scoped, "second"), "the cloud's own Pods are counted")
