"""What a user sends, and what the API server stores of it."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

import pytest

from router import names
from router.controlplane.plane import ControlPlane
from router.placement import signing
from router.pod import template as podtemplate
from tests.allowed import surplus, surplus_kept
from tests.kube.wire import await_true
from tests.since import since
from tests.webhook.real.gated import Gated, Json, container, job, script, target, template_annotations, warnings
from tests.webhook.servers import until

OUTLASTED = [
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
]
OURS = {"key": names.TAINT_QUEUE, "operator": "Equal", "value": "batch", "effect": "NoSchedule"}
OWN = [
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
    {"key": "dedicated", "operator": "Equal", "value": "x", "effect": "NoSchedule"},
]
CONTROLLER_S = (
    *("controller-uid", "job-name"),
    *("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"),
)


def bare(stored: Json) -> Json:
    """A stored Job without what the API server makes up for each one.

    To a Job without any label it also shows those of the template, and among them the controller's.
    """
    uid = stored["metadata"].get("uid", "")
    text = json.dumps({name: stored[name] for name in ("apiVersion", "kind", "metadata", "spec")})
    found: Json = json.loads(text.replace(uid, "UID") if uid else text)
    for name in ("uid", "creationTimestamp", "namespace", "managedFields", "resourceVersion"):
        found["metadata"].pop(name, None)
    labels = found["metadata"].get("labels", {})
    found["metadata"]["labels"] = {key: value for key, value in labels.items() if key not in CONTROLLER_S}
    return found


def test_apply(jobs: Gated) -> None:
    run = jobs.done("apply", "-f", "-", sent=job(pod={"tolerations": OWN}, activeDeadlineSeconds=600))

    stored = jobs.get()
    spec, pod = stored["spec"], stored["spec"]["template"]["spec"]
    assert warnings(run)[0].startswith(
        "This Job goes to HPC: rule large sends it to queue batch of site demo, as ada: "
    )
    assert target(stored) == "hpc"
    assert (pod["nodeName"], pod["tolerations"]) == ("batch.demo.batchgate", [*OUTLASTED, OURS, OWN[1]])
    assert pod["nodeSelector"] == {names.KEY_SITE: "demo", names.KEY_QUEUE: "batch"}
    assert ("activeDeadlineSeconds" in spec, pod["activeDeadlineSeconds"]) == (False, 600)
    assert (spec["podReplacementPolicy"], pod["automountServiceAccountToken"]) == ("Failed", False)
    conditions = [rule["onPodConditions"][0]["type"] for rule in spec["podFailurePolicy"]["rules"]]
    kills = [names.CONDITION_WALLTIME, names.CONDITION_MEMORY, names.CONDITION_DELETED]
    assert conditions == [*kills, names.CONDITION_DISRUPTION]
    assert script(stored).startswith("#!/bin/bash\n#PBS -q batch\n")


def test_the_signature_is_of_what_is_stored(jobs: Gated) -> None:
    stored = jobs.create(job())

    proof = template_annotations(stored)
    claims = signing.Claims(
        issued_at=int(datetime.fromisoformat(stored["metadata"]["creationTimestamp"]).timestamp()),
        namespace=jobs.namespace,
        requester="ada",
        site="demo",
        queue="batch",
        account=proof[names.KEY_ACCOUNT],
        results=(),
        script_sha256=signing.script_digest(proof[names.KEY_SCRIPT]),
        template_sha256=podtemplate.digest(stored["spec"]["template"]["spec"]),
        groups_sha256=hashlib.sha256(b"physics\nresearchers\nsystem:authenticated").hexdigest(),
    )
    keys = signing.load_public(jobs.public_key.read_bytes())
    assert signing.verify(proof[names.KEY_SIGNATURE], claims, keys).requester == "ada"
    assert json.loads(proof[names.KEY_ACCOUNT]) == {"user": "ada", "account": "physics"}


@pytest.mark.parametrize(
    "sent",
    [
        job(),
        job(pod={"tolerations": OWN}, activeDeadlineSeconds=60, completions=3, parallelism=2, completionMode="Indexed"),
        job(pod={"restartPolicy": "OnFailure", "activeDeadlineSeconds": 60}),
        job(metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}}, template={"labels": {"e": "f"}}, suspend=True),
        job(template={"labels": {"app": "x"}}),  # of which the API server makes the Job's own, before it asks us
        job(pod={"containers": [container(), container(name="two")], "initContainers": [container(name="first")]}),
    ],
)
def test_nothing_else_is_changed(jobs: Gated, sent: Json) -> None:
    routed = jobs.create(sent, "--dry-run=server")
    plain = jobs.plane.kubectl("create", "--dry-run=server", "-f", "-", "-o", "json", stdin=json.dumps(sent)).stdout

    assert target(routed) == "hpc"
    assert surplus(bare(json.loads(plain)), bare(routed)) == []


def test_a_job_with_our_labels_shows_no_copies_of_its_template_s(jobs: Gated, free: Gated) -> None:
    """What docs/judging.md says: Kubernetes shows a Job that has no label its template's, among them the controller's."""
    stored = []
    for where in (jobs, free):
        where.create(job(suspend=True))
        stored.append(where.get())

    ours, plain = (set(one["metadata"].get("labels", {})) for one in stored)
    assert plain == set(CONTROLLER_S)
    assert ours == {names.KEY_TARGET, names.KEY_SITE, names.KEY_QUEUE}
    assert all(set(CONTROLLER_S) <= set(one["spec"]["template"]["metadata"]["labels"]) for one in stored)


def test_a_job_that_stays_gets_a_record_on_itself_only(jobs: Gated) -> None:
    sent = job(pod={"containers": [container(cpu="500m")]})

    run = jobs.done("create", "-f", "-", "-o", "json", sent=sent)

    stored = json.loads(run.stdout)
    plain = jobs.plane.kubectl("create", "--dry-run=server", "-f", "-", "-o", "json", stdin=json.dumps(sent)).stdout
    assert (target(stored), warnings(run)) == ("cloud", [])
    assert surplus_kept(bare(json.loads(plain)), bare(stored)) == []


def test_a_denied_job_is_not_stored(jobs: Gated) -> None:
    said = jobs.denied(job(parallelism=20, completions=20))

    assert (
        'admission webhook "jobs.batchgate.dev" denied the request: rule vast denies this Job: 64 CPUs are the most'
        in said
    )
    assert jobs.run("get", "job", "solve").returncode == 1


def test_a_job_that_cannot_be_right_is_denied_with_its_field(jobs: Gated) -> None:
    said = jobs.denied(job(metadata={"annotations": {names.HINT_WALLTIME: "soon"}}))

    assert f"metadata.annotations[{names.HINT_WALLTIME}]: 'soon' is not a duration" in said


def test_generate_name(jobs: Gated) -> None:
    first, second = (jobs.create(job(metadata={"generateName": "solve-"})) for _ in range(2))

    assert target(first) == target(second) == "hpc"
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert script(first) == script(second)


def test_a_dry_run_shows_what_would_be_stored_and_stores_nothing(jobs: Gated) -> None:
    shown = jobs.create(job(), "--dry-run=server")

    assert target(shown) == "hpc"
    assert jobs.run("get", "job", "solve").returncode == 1


def test_an_indexed_job_has_one_script_for_all(jobs: Gated) -> None:
    jobs.create(job(completions=2, parallelism=2, completionMode="Indexed"))

    pods = until(lambda: found if len(found := jobs.pods()) == 2 else [])
    assert {pod["spec"]["nodeName"] for pod in pods} == {"batch.demo.batchgate"}
    assert {pod["metadata"]["annotations"][names.KEY_SCRIPT] for pod in pods} == {script(jobs.get())}
    indexes = {pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in pods}
    assert indexes == {"0", "1"}


@since(32, "spec.managedBy")
def test_a_listed_controller_s_job_is_left_to_it(jobs: Gated) -> None:
    stored = jobs.create(job(managedBy="kueue.x-k8s.io/multikueue"))

    assert target(stored) is None
    assert stored["metadata"]["annotations"] == {names.KEY_MANAGED_BY: "kueue.x-k8s.io/multikueue"}
    assert "nodeName" not in stored["spec"]["template"]["spec"]


@since(32, "spec.managedBy")
def test_any_other_controller_s_job_is_judged_and_stays(jobs: Gated) -> None:
    stored = jobs.create(job(managedBy="example.com/mine"))

    assert (target(stored), stored["spec"]["managedBy"]) == ("cloud", "example.com/mine")
    assert "nodeName" not in stored["spec"]["template"]["spec"]
    assert "rule vast denies this Job" in jobs.denied(job("vast", managedBy="example.com/mine", parallelism=20))


def test_forged_keys_are_taken_out_and_named(jobs: Gated) -> None:
    forged = {names.KEY_SCRIPT: "rm -rf ~", names.KEY_REQUESTER: "root", names.KEY_SIGNATURE: "v1.a.b.c"}
    sent = job(template={"annotations": forged, "labels": {names.KEY_QUEUE: "express"}})

    run = jobs.done("create", "-f", "-", "-o", "json", sent=sent)

    stored = json.loads(run.stdout)
    assert template_annotations(stored)[names.KEY_REQUESTER] == "ada"
    assert script(stored).startswith("#!/bin/bash\n")
    assert stored["spec"]["template"]["metadata"]["labels"][names.KEY_QUEUE] == "batch"
    # The Job had no labels, so the API server gave it the template's before it asked us.
    of_template = ", ".join(f"template annotation {key}" for key in sorted((names.KEY_REQUESTER, names.KEY_SCRIPT)))
    named = f"label {names.KEY_QUEUE}, template label {names.KEY_QUEUE}, {of_template}"
    assert warnings(run)[-1] == f"Only Batchgate sets {named}: the Job's own values were ignored."


def test_an_exported_job_that_is_applied_again_is_judged_as_a_new_one(jobs: Gated) -> None:
    first = jobs.create(job(activeDeadlineSeconds=600, pod={"tolerations": OWN}))
    copy = bare(first) | {"metadata": {"name": "again", "annotations": first["metadata"]["annotations"]}}
    copy["spec"].pop("selector")
    for name in CONTROLLER_S:
        copy["spec"]["template"]["metadata"]["labels"].pop(name, None)

    second = jobs.create(copy)

    assert target(second) == "hpc"
    assert script(second).replace("/again ", "/solve ") == script(first)
    for name in ("podFailurePolicy", "podReplacementPolicy", "activeDeadlineSeconds"):
        assert second["spec"].get(name) == first["spec"].get(name)
    assert second["spec"]["template"]["spec"]["tolerations"] == first["spec"]["template"]["spec"]["tolerations"]


# --- what only the cluster knows ---------------------------------------------------------------------------------


def test_the_defaults_of_a_limit_range_count(jobs: Gated, plane: ControlPlane) -> None:
    silent = job(pod={"containers": [container(cpu=None)]})
    assert target(jobs.create(silent, "--dry-run=server")) == "cloud"
    limits = [{"type": "Container", "defaultRequest": {"cpu": "3"}, "default": {"cpu": "4"}}]
    plane.kubectl(
        "create", "-n", jobs.namespace, "-f", "-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": limits}}),
    )  # fmt: skip

    await_true(lambda: target(jobs.create(silent, "--dry-run=server")) == "hpc", "the webhook knows the LimitRange")

    stored = jobs.create(silent)
    assert "ncpus=3" in script(stored)
    pods = until(jobs.pods)
    # What the API server makes of the Pod is what the webhook took it for.
    assert pods[0]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "3"}


@since(34, "resources of a whole Pod")
def test_resources_of_the_whole_pod_count(jobs: Gated) -> None:
    whole = {"containers": [container(cpu=None), container(cpu=None, name="two")]}

    stored = jobs.create(job(pod={**whole, "resources": {"requests": {"cpu": "5", "memory": "2Gi"}}}))

    assert target(stored) == "hpc"
    assert "ncpus=5" in script(stored)
    assert "mem=2gb" in script(stored)


# --- limits ------------------------------------------------------------------------------------------------------


def large_environment(kib: int) -> Json:
    """So much of it in all, in strings that Linux can pass on."""
    env = [{"name": f"BIG{number}", "value": "x" * 10 * 1024} for number in range(kib // 10)]
    return {"containers": [container(env=env)]}


def test_what_would_not_fit_into_annotations_stays_in_the_cloud(jobs: Gated) -> None:
    run = jobs.done("create", "-f", "-", "-o", "json", sent=job(pod=large_environment(210)))

    assert target(json.loads(run.stdout)) == "cloud"
    (warning,) = warnings(run)
    assert "it cannot go there: spec.template.spec.containers[0].env" in warning
    assert "of the 211 KiB that script and annotations would take" in warning
    assert target(jobs.create(job("less", pod=large_environment(150)))) == "hpc"


def test_it_is_denied_where_the_rule_takes_it_to_hpc_only(jobs: Gated) -> None:
    said = jobs.denied(job(pod=large_environment(210), metadata={"labels": {"strict": "yes"}}))

    assert "rule strict allows it only on HPC, but it cannot go there: spec.template.spec.containers[0].env" in said
    assert "of the 211 KiB that script and annotations would take" in said


# --- what happens to a run that ends --------------------------------------------------------------------------------


def test_a_policy_of_the_user_s_own_is_kept(jobs: Gated) -> None:
    own = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}

    stored = jobs.create(job(podFailurePolicy=own))

    rules = stored["spec"]["podFailurePolicy"]["rules"]
    assert [rule["onExitCodes"]["values"] for rule in rules] == [[42]]


def test_a_job_that_restarts_its_containers_has_none_and_is_told(jobs: Gated) -> None:
    run = jobs.done("create", "-f", "-", "-o", "json", sent=job(pod={"restartPolicy": "OnFailure"}))

    assert "podFailurePolicy" not in json.loads(run.stdout)["spec"]
    assert any("walltime" in warning and "again" in warning for warning in warnings(run)), run.stderr


def test_a_limit_per_index_fails_the_index(jobs: Gated) -> None:
    stored = jobs.create(job(completions=2, completionMode="Indexed", backoffLimitPerIndex=1))

    rules = stored["spec"]["podFailurePolicy"]["rules"]
    assert [(rule["action"], rule["onPodConditions"][0]["type"]) for rule in rules] == [
        ("FailIndex", "batchgate.dev/WalltimeExceeded"),
        ("FailIndex", "batchgate.dev/OutOfMemory"),
        ("FailIndex", "batchgate.dev/JobDeleted"),
        ("Ignore", "DisruptionTarget"),
    ]


def test_a_deadline_of_the_pod_s_own_stays(jobs: Gated) -> None:
    stored = jobs.create(job(pod={"activeDeadlineSeconds": 300}, activeDeadlineSeconds=600))

    assert stored["spec"]["template"]["spec"]["activeDeadlineSeconds"] == 300
    assert "activeDeadlineSeconds" not in stored["spec"]


def test_the_audit_log_s_annotations_and_the_log_name_the_decision(jobs: Gated, webhook: Any) -> None:
    jobs.create(job("logged"))

    (line,) = [line for line in webhook.logged("decision") if line["name"] == "logged" and not line["dry_run"]]
    assert (line["user"], line["target"], line["rule"], line["queue"]) == ("ada", "hpc", "large", "batch")
