"""Updates of Jobs that are in the cluster already, through whole reviews and their patches."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from collections.abc import Callable
from typing import Any

import jsonpatch
import pytest

from router import placement
from router.gate.review import review
from router.placement import signing
from router.pod import template as podtemplate
from router.policy.decision import QueueState, QueueStates
from tests.gates import ISSUED_AT, KEY, PLACES, RULES, checked, gate, review_of, sized
from tests.placement.given import job_of

OURS = "batchgate.dev/"
CREATED = "2027-01-15T08:00:02Z"  # two seconds after ISSUED_AT
EVERYTHING_STAYS = "rules: [{name: rest, cloud: true}]"


def answered(job: Any, opened: Any = None, **request: Any) -> tuple[dict[str, Any], Any]:
    """The response and the Job that the API server then has."""
    response = review(review_of(job, **request), opened or gate()).response["response"]
    patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    return response, jsonpatch.apply_patch(job, patch)


def stored_job(spec: Any = None, pod: Any = None, **metadata: Any) -> dict[str, Any]:
    """A Job as it is stored after its creation."""
    _, job = answered(job_of(spec, pod or sized("3"), **metadata))
    job["metadata"] |= {"uid": "u-1", "creationTimestamp": CREATED}
    return dict(job)


def changed(job: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**copy.deepcopy(job), "spec": {**copy.deepcopy(job["spec"]), **spec}}


def with_cpus(job: dict[str, Any], cpus: str) -> dict[str, Any]:
    job = copy.deepcopy(job)
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpus
    return job


def test_the_same_file_again_gives_an_empty_difference_to_the_stored_job() -> None:
    file = job_of({"activeDeadlineSeconds": 600}, sized("3", tolerations=[{"key": "gpu"}]), labels={"app": "a"})
    _, stored = answered(copy.deepcopy(file))
    new = {
        **stored,
        "spec": {**stored["spec"], "activeDeadlineSeconds": 600, "podReplacementPolicy": "TerminatingOrFailed"},
    }
    new["spec"]["template"] = copy.deepcopy(stored["spec"]["template"])
    new["spec"]["template"]["spec"]["tolerations"] = [{"key": "gpu"}]  # a list of a file replaces a list

    response, result = answered(new, stored=stored, opened=gate(issued_at=ISSUED_AT + 86400))

    assert result == stored
    assert "warnings" not in response


@pytest.mark.parametrize(
    "change",
    [
        {"status": {"active": 1}},
        {"metadata": {"name": "j", "finalizers": ["x"]}},
        {"metadata": {"name": "j", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"parallelism": 10_000}},
    ],
    ids=["status", "finalizers", "being deleted"],
)
@pytest.mark.parametrize("routed", [True, False])
def test_what_decides_nothing_is_let_through_untouched(change: Any, routed: bool) -> None:
    stored = stored_job() if routed else job_of()
    new = {**stored, **change}
    if "metadata" in change:
        new["metadata"] = {**stored["metadata"], **change["metadata"]}
    if "spec" in change:
        new["spec"] = {**stored["spec"], **change["spec"]}

    response, _ = answered(new, stored=stored)

    assert response == {"uid": response["uid"], "allowed": True}


@pytest.mark.parametrize(
    ("spec", "field"),
    [({"parallelism": 11}, "spec.parallelism"), ({"completions": 40, "parallelism": 20}, "spec.parallelism")],
)
def test_growth_beyond_the_rule_is_denied(spec: Any, field: str) -> None:
    stored = stored_job({"completions": 30})

    response, _ = answered(changed(stored, **spec), stored=stored)

    assert response["allowed"] is False
    assert response["status"]["code"] == 422
    assert response["status"]["details"]["causes"][0]["field"] == field
    assert response["status"]["message"].endswith("delete and create it")


@pytest.mark.parametrize(
    "spec",
    [{"parallelism": 10, "completions": 30}, {"parallelism": 0}, {"suspend": True}, {"ttlSecondsAfterFinished": 1}],
)
def test_what_rule_and_queue_allow_goes_through_with_the_template_as_it_is(spec: Any) -> None:
    stored = stored_job()

    response, result = answered(changed(stored, **spec), stored=stored, opened=gate(issued_at=ISSUED_AT + 60))

    assert response["allowed"] is True
    assert result == changed(stored, **spec)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (EVERYTHING_STAYS, "rule rest keeps it in the cloud: it asks for 3 cores, 1Gi of memory"),
        ("rules: [{name: shut, when: 'true', deny: Ask us first.}]", "Ask us first"),
        (
            RULES.replace("{queue: small}, ", ""),
            "rule large would send it to HPC, but it cannot go there: the rule now sends Jobs to other queues only",
        ),
    ],
)
def test_growth_that_no_rule_sends_to_the_queue_any_more_is_denied(rules: str, reason: str) -> None:
    stored = stored_job()

    response, _ = answered(changed(stored, parallelism=2), stored=stored, opened=gate(rules))

    assert response["allowed"] is False
    assert response["status"]["message"].partition("spec.parallelism: ")[2] == (
        f"the Job was sent to queue small of site hpc1, and this no longer fits there: {reason}; delete and create it"
    )


def test_an_update_that_grows_nothing_does_not_ask_the_policy() -> None:
    stored = stored_job()

    response, result = answered(changed(stored, suspend=True), stored=stored, opened=gate(EVERYTHING_STAYS))

    assert response["allowed"] is True
    assert result == changed(stored, suspend=True)


def test_a_suspended_job_is_sized_scripted_and_signed_anew_for_its_creator() -> None:
    stored = stored_job({"suspend": True})
    states = QueueStates(
        {("hpc1", "small"): QueueState("hpc1", "small", up=False)}
    )  # it stays where it is all the same
    later = gate(issued_at=ISSUED_AT + 3600, states=states)

    response, result = answered(with_cpus(stored, "4"), stored=stored, opened=later, user="kueue")

    assert response["allowed"] is True
    template = result["spec"]["template"]
    annotations = template["metadata"]["annotations"]
    assert annotations[OURS + "requester"] == "ada"
    claims = signing.Claims(
        issued_at=0,
        namespace="default",
        requester="ada",
        site="hpc1",
        queue="small",
        account='{"user":"ada","account":"phys"}',
        results=(),
        script_sha256=signing.script_digest(annotations[OURS + "script"]),
        template_sha256=podtemplate.digest(template["spec"]),
        job_uid="u-1",
        groups_sha256=hashlib.sha256(b"system:authenticated").hexdigest(),
    )
    keys = {signing.key_id(KEY.public_key()): KEY.public_key()}
    assert signing.verify(annotations[OURS + "signature"], claims, keys).job_uid == "u-1"
    assert template["spec"] == with_cpus(stored, "4")["spec"]["template"]["spec"]
    assert result["spec"]["podFailurePolicy"] == stored["spec"]["podFailurePolicy"]


def test_whoever_changes_a_suspended_job_is_not_told_of_keys_that_are_stored() -> None:
    stored = stored_job({"suspend": True})

    response, _ = answered(with_cpus(stored, "4"), stored=stored, opened=gate(issued_at=ISSUED_AT + 3600))

    assert [warning for warning in response["warnings"] if "Only Batchgate sets" in warning] == []
    assert response["warnings"][0].startswith("This Job was sized anew: ")


def test_a_suspended_job_that_no_longer_fits_its_queue_is_denied() -> None:
    stored = stored_job({"suspend": True})

    response, _ = answered(with_cpus(stored, "5"), stored=stored)  # queue workq would take it, queue small does not

    assert response["allowed"] is False
    assert response["status"]["details"]["causes"][0]["field"] == "spec.template"
    assert "queue small of site hpc1" in response["status"]["message"]
    assert response["status"]["message"].endswith("delete and create it")


LABELLED = PLACES.replace("walltimeMax: 2h}", "walltimeMax: 2h, nodeLabels: {disk: ssd, gpu: {a100: {chunk.gpu: a100}}}}").replace(
    "    mpi:", "    ignoreNodeLabels: [cloud.google.com/*]\n    mpi:"
)  # fmt: skip


def selecting(job: dict[str, Any], suspend: bool = True, **labels: str) -> dict[str, Any]:
    """The Job after an update by Kueue, which writes a flavor's nodeLabels into the selector and takes them out."""
    job = changed(job, suspend=suspend)
    kept = {key: value for key, value in job["spec"]["template"]["spec"]["nodeSelector"].items() if OURS in key}
    job["spec"]["template"]["spec"]["nodeSelector"] = {**labels, **kept}
    return job


def test_kueue_adds_labels_that_the_queue_has_and_takes_them_out_again() -> None:
    opened = gate(policy=checked(places=LABELLED))
    pool = {"cloud.google.com/gke-nodepool": "a"}
    stored = stored_job({"suspend": True})

    admitting, admitted = answered(
        selecting(stored, False, gpu="a100", **pool), stored=stored, opened=opened, user="kueue"
    )
    stopped = changed(admitted, suspend=True)
    evicting, evicted = answered(selecting(stopped), stored=stopped, opened=opened, user="kueue")

    assert (admitting["allowed"], evicting["allowed"]) == (True, True)
    assert admitted["spec"]["template"]["spec"]["nodeSelector"] == {
        "gpu": "a100", **pool, OURS + "site": "hpc1", OURS + "queue": "small",
    }  # fmt: skip
    assert admitting["warnings"][1] == (
        "Node labels that mean nothing on site hpc1 (ignoreNodeLabels) have no effect there: cloud.google.com/gke-nodepool=a."
    )
    scripts = [
        one["spec"]["template"]["metadata"]["annotations"][OURS + "script"] for one in (stored, admitted, evicted)
    ]
    assert [":gpu=a100" in script for script in scripts] == [False, True, False]
    assert scripts[0] == scripts[2]


def test_kueue_is_told_which_label_the_queue_lacks() -> None:
    stored = stored_job({"suspend": True})
    update = selecting(stored, False, disk="hdd")

    response, _ = answered(update, stored=stored, opened=gate(policy=checked(places=LABELLED)), user="kueue")

    assert response["allowed"] is False
    assert response["status"]["message"].partition("spec.template: ")[2] == (
        "the Job was sent to queue small of site hpc1, and this no longer fits there: rule large would send it to HPC, but "
        "it cannot go there: spec.template.spec.nodeSelector.disk: asks for disk=hdd, and "
        "nodeLabels of queue small say ssd; delete and create it"
    )


def test_a_selector_that_hpc_meets_stays_in_the_job_as_the_user_wrote_it() -> None:
    opened = gate(policy=checked(places=LABELLED))
    own = job_of(pod=sized("3", nodeSelector={"disk": "ssd"}, tolerations=[{"key": "gpu", "operator": "Exists"}]))

    _, routed = answered(own, opened=opened)
    again, _ = answered({**routed, "spec": copy.deepcopy(own["spec"])}, stored=routed, opened=opened)

    assert routed["spec"]["template"]["spec"]["nodeSelector"]["disk"] == "ssd"
    assert {"key": "gpu", "operator": "Exists"} in routed["spec"]["template"]["spec"]["tolerations"]
    assert again["allowed"] is True
    assert placement.strip(routed).job["spec"] == own["spec"]


def test_a_suspended_job_whose_account_changed_is_not_signed_anew() -> None:
    """A guard in the API server keeps the account, so that nobody brings a proof for another one."""
    stored = stored_job({"suspend": True})
    moved = gate(policy=checked(places=PLACES.replace("account: phys}", "account: bio}")))

    response, _ = answered(with_cpus(stored, "4"), stored=stored, opened=moved)

    assert response["allowed"] is False
    assert response["status"]["message"].partition("spec.template: ")[2] == (
        'the Job was judged for account {"user":"ada","account":"phys"}, and the policy now has '
        '{"user":"ada","account":"bio"} for ada; delete and create it'
    )
    assert answered(changed(stored, suspend=False), stored=stored, opened=moved)[0]["allowed"] is True


PHYSICIST = {"username": "bob", "groups": ["physics", "system:authenticated"]}
NO_GROUPS = PLACES.replace("  - {groups: [physics], as: shared-phys}\n", "")


def groups_of(job: dict[str, Any]) -> str | None:
    found: str | None = job["spec"]["template"]["metadata"]["annotations"].get(OURS + "groups")
    return found


def test_a_controller_changes_a_job_whose_account_is_its_creators_by_a_group() -> None:
    _, stored = answered(job_of({"suspend": True}, sized("3")), userInfo=PHYSICIST)
    stored["metadata"] |= {"uid": "u-1", "creationTimestamp": CREATED}
    assert groups_of(stored) == "physics\nsystem:authenticated"

    response, result = answered(with_cpus(stored, "4"), stored=stored, user="kueue")

    assert response["allowed"] is True
    annotations = result["spec"]["template"]["metadata"]["annotations"]
    assert annotations[OURS + "account"] == '{"user":"shared-phys"}'
    assert groups_of(result) == groups_of(stored)


def test_recorded_groups_stay_whatever_the_creators_are_now_and_the_policy_reads() -> None:
    stored = stored_job({"suspend": True})
    unread = gate(policy=checked(places=NO_GROUPS))

    for opened in (gate(), unread):
        more = {"username": "ada", "groups": ["physics", "system:authenticated"]}
        response, result = answered(with_cpus(stored, "4"), stored=stored, opened=opened, userInfo=more)
        assert (response["allowed"], groups_of(result)) == (True, "system:authenticated")


def test_a_policy_that_reads_groups_from_now_on_records_those_of_the_creator_who_changes_the_job() -> None:
    _, stored = answered(job_of({"suspend": True}, sized("3")), opened=gate(policy=checked(places=NO_GROUPS)))
    stored["metadata"] |= {"uid": "u-1", "creationTimestamp": CREATED}
    assert groups_of(stored) is None

    response, result = answered(with_cpus(stored, "4"), stored=stored)
    other, by_another = answered(with_cpus(stored, "4"), stored=stored, user="kueue")

    assert (response["allowed"], groups_of(result)) == (True, "system:authenticated")
    assert (other["allowed"], groups_of(by_another)) == (True, None)  # Kueue lets on what was queued at an upgrade


def test_releasing_a_suspended_job_changes_nothing_else() -> None:
    stored = stored_job({"suspend": True})

    _, result = answered(changed(stored, suspend=False), stored=stored, opened=gate(issued_at=ISSUED_AT + 86400))

    assert result == changed(stored, suspend=False)


@pytest.mark.parametrize("suspend", [True, False])
def test_a_deadline_that_moved_cannot_change(suspend: bool) -> None:
    stored = stored_job({"activeDeadlineSeconds": 600, "suspend": suspend})

    response, _ = answered(changed(stored, activeDeadlineSeconds=700), stored=stored)

    assert response["allowed"] is False
    assert response["status"]["message"] == (
        "spec.activeDeadlineSeconds: was 600 when the Job was sent to HPC and cannot become 700, "
        "as the batch system keeps it; delete and create it"
    )


def test_a_deadline_that_comes_too_late_stays_where_it_is_and_is_named() -> None:
    stored = stored_job()

    response, result = answered(changed(stored, activeDeadlineSeconds=700), stored=stored)

    assert result == changed(stored, activeDeadlineSeconds=700)
    assert response["warnings"] == [
        "activeDeadlineSeconds (700) came after the Job was sent to HPC and counts the time in the queue."
    ]


def test_a_hint_that_comes_too_late_is_named() -> None:
    stored = stored_job()
    new = copy.deepcopy(stored)
    new["metadata"]["annotations"][OURS + "walltime"] = "1h"

    response, result = answered(new, stored=stored)

    assert result == new
    assert response["warnings"] == [
        "The hint batchgate.dev/walltime has no effect any more: the Job was sent to HPC already; delete and create it."
    ]


def test_a_job_in_the_cloud_stays_there_whatever_it_asks_for_now() -> None:
    _, stored = answered(job_of({"suspend": True}, sized("1")))
    new = with_cpus(stored, "3")

    response, result = answered(new, stored=stored)

    assert response["allowed"] is True
    assert result == new


def test_keys_forged_by_an_update_are_taken_out_and_named() -> None:
    _, stored = answered(job_of(pod=sized("1")))
    new = copy.deepcopy(stored)
    new["metadata"]["labels"][OURS + "target"] = "hpc"

    response, result = answered(new, stored=stored)

    assert result == stored
    assert response["warnings"] == [
        "Only Batchgate sets label batchgate.dev/target: the Job's own values were ignored."
    ]


@pytest.mark.parametrize(
    "forged",
    [
        {"requester": "mallory"},
        {"account": '{"user":"root"}'},
        {"script": "#!/bin/sh\nid\n"},
        {"signature": "v1.a.b.c"},
        {"signature": None},
        {"requester": None},
        {"groups": "physics"},
        {"groups": ""},
        {"groups": None},
    ],
)
def test_nothing_is_signed_for_a_stored_job_whose_signature_does_not_hold(forged: dict[str, Any]) -> None:
    stored = stored_job({"suspend": True})
    annotations = stored["spec"]["template"]["metadata"]["annotations"]
    for key, value in forged.items():
        annotations.pop(OURS + key)
        if value is not None:
            annotations[OURS + key] = value

    response, _ = answered(with_cpus(stored, "4"), stored=stored, user="mallory")

    assert response["allowed"] is False
    assert response["status"]["details"]["causes"][0]["field"] == (
        "spec.template.metadata.annotations[batchgate.dev/signature]"
    )
    assert response["status"]["message"].endswith("delete and create it")


@pytest.mark.parametrize(
    "metadata",
    [
        {"creationTimestamp": "2027-01-15T09:00:00Z"},
        {"creationTimestamp": None},
        {"creationTimestamp": "yesterday"},
        {"creationTimestamp": 3},
    ],
)
def test_a_signature_that_another_job_brought_along_does_not_hold(metadata: dict[str, Any]) -> None:
    stored = stored_job({"suspend": True})
    stored["metadata"] |= metadata

    response, _ = answered(with_cpus(stored, "4"), stored=stored)

    assert response["allowed"] is False
    assert response["status"]["message"].endswith("delete and create it")


def test_a_signature_of_another_namespace_or_site_does_not_hold() -> None:
    stored = stored_job({"suspend": True})
    moved, elsewhere = copy.deepcopy(stored), copy.deepcopy(stored)
    moved["metadata"]["namespace"] = "other"
    elsewhere["spec"]["template"]["metadata"]["labels"][OURS + "queue"] = "workq"

    for one, namespace in ((stored, "other"), (moved, "other"), (elsewhere, "default")):
        response, _ = answered(with_cpus(one, "4"), stored=one, namespace=namespace)
        assert response["allowed"] is False
        assert "was not signed by this webhook for this Job" in response["status"]["message"]


def test_a_job_that_was_signed_anew_can_be_signed_anew_again() -> None:
    stored = stored_job({"suspend": True})
    _, once = answered(with_cpus(stored, "4"), stored=stored, opened=gate(issued_at=ISSUED_AT + 7200))

    response, twice = answered(with_cpus(once, "3"), stored=once, opened=gate(issued_at=ISSUED_AT + 14400))

    assert response["allowed"] is True
    assert twice["spec"]["template"]["metadata"]["annotations"][OURS + "requester"] == "ada"
    moved = copy.deepcopy(once)
    moved["metadata"]["uid"] = "u-2"
    assert answered(with_cpus(moved, "3"), stored=moved)[0]["allowed"] is False


def test_without_a_signer_nothing_is_verified() -> None:
    stored = stored_job({"suspend": True})
    del stored["spec"]["template"]["metadata"]["annotations"][OURS + "signature"]

    response, result = answered(with_cpus(stored, "4"), stored=stored, opened=gate(signer=None))

    assert response["allowed"] is True
    assert OURS + "signature" not in result["spec"]["template"]["metadata"]["annotations"]


def test_annotations_that_leave_no_room_for_what_is_kept_are_refused_with_the_field() -> None:
    stored = stored_job()
    new = copy.deepcopy(stored)
    new["metadata"]["annotations"] = {"note": "x" * (256 * 1024 - len("note"))}  # a file that replaces what is stored

    answer, _ = answered(new, operation="UPDATE", oldObject=stored)

    assert answer["allowed"] is False
    assert answer["status"]["details"]["causes"][0]["field"] == "metadata.annotations[note]"
    assert "is 256 KiB of the 257 KiB that the Job's annotations would take" in answer["status"]["message"]


def test_an_update_that_brings_too_much_is_refused() -> None:
    stored = stored_job()
    new = copy.deepcopy(stored)
    new["metadata"]["labels"] = {f"batchgate.dev/k{index}": "v" for index in range(30_000)}

    response, _ = answered(new, stored=stored)

    assert response["status"]["details"]["causes"][0]["field"] == "metadata.labels"


def test_a_job_that_was_too_much_before_can_still_be_changed() -> None:
    stored = job_of(labels={f"k{index}": "v" for index in range(1001)})

    assert answered(changed(stored, suspend=True), stored=stored)[0]["allowed"] is True


def test_a_job_of_the_night_may_be_changed_by_day() -> None:
    """It is judged by the time of its creation, ISSUED_AT, as where a Job goes is decided once."""
    rules = "rules:\n  - {name: early, when: request.time.getHours() < 9, hpc: [{queue: small}]}\n  - {name: rest, cloud: true}\n"
    _, stored = answered(job_of({"suspend": True}, sized("3")), gate(rules))
    stored["metadata"] |= {"uid": "u-1", "creationTimestamp": CREATED}

    response, result = answered(with_cpus(stored, "2"), gate(rules, issued_at=ISSUED_AT + 7200), stored=stored)

    assert response["allowed"], response
    assert "ncpus=2" in result["spec"]["template"]["metadata"]["annotations"][OURS + "script"]


@pytest.mark.parametrize(
    ("created", "denied"),
    [("2026-01-15T08:00:00Z", False), ("2026-06-15T08:00:00Z", True), ("no time", False)],
)
def test_what_grows_in_the_cloud_is_judged_by_when_it_was_created(created: str, denied: bool) -> None:
    rules = (
        "rules:\n  - {name: summer, when: has(request.time) && request.time > timestamp('2026-06-01T00:00:00Z'), deny: x}\n"
        "  - {name: rest, cloud: true}\n"
    )
    _, stored = answered(job_of({"completions": 9}, sized("1")), gate(EVERYTHING_STAYS))
    stored["metadata"]["creationTimestamp"] = created

    response, _ = answered(changed(stored, parallelism=2), gate(rules, issued_at=ISSUED_AT), stored=stored)

    assert response["allowed"] is not denied


VAST = """
rules:
  - {name: vast, when: job.totalCpus > 64, deny: 64 CPUs are the most}
  - {name: named, when: "!('project' in job.labels)", deny: name a project}
  - {name: long, when: "!has(job.walltime)", deny: say how long it takes}
  - {name: rest, cloud: true}
"""


def in_the_cloud(cpus: str = "1", **spec: Any) -> dict[str, Any]:
    """A Job that some rule kept there, as it is stored."""
    wanted = {"activeDeadlineSeconds": 60, "completions": 1000, **spec}
    _, job = answered(job_of(wanted, sized(cpus), labels={"project": "p"}), gate(EVERYTHING_STAYS))
    return dict(job)


def relabelled(job: dict[str, Any], **labels: str) -> dict[str, Any]:
    kept = {key: value for key, value in job["metadata"]["labels"].items() if key.startswith(OURS)}
    return {**job, "metadata": {**job["metadata"], "labels": {**kept, **labels}}}


@pytest.mark.parametrize(
    ("stored", "change", "denied"),
    [
        (in_the_cloud(), lambda job: changed(job, parallelism=200), "vast"),
        (in_the_cloud(suspend=True), lambda job: with_cpus(job, "500"), "vast"),
        (in_the_cloud(), lambda job: changed(job, parallelism=64), None),
        # There before the rule, or before the gate: it may become less, and anything else, but not more.
        (in_the_cloud(parallelism=200), lambda job: changed(job, parallelism=100), None),
        (in_the_cloud(parallelism=200), lambda job: changed(job, parallelism=0), None),
        (in_the_cloud(parallelism=200), lambda job: changed(job, parallelism=201), "vast"),
        (in_the_cloud(parallelism=200), lambda job: relabelled(job, project="q"), None),
        (in_the_cloud("500", suspend=True), lambda job: with_cpus(job, "100"), None),
        # Kueue, and whoever else suspends and releases.
        (in_the_cloud("500", suspend=True), lambda job: changed(job, suspend=False), None),
        (in_the_cloud("500"), lambda job: changed(job, suspend=True), None),
        (in_the_cloud(parallelism=200), lambda job: changed(job, ttlSecondsAfterFinished=1), None),
        # What is no figure.
        (in_the_cloud(), relabelled, "named"),
        (in_the_cloud(), lambda job: changed(job, activeDeadlineSeconds=None), "long"),
        (in_the_cloud(), lambda job: changed(job, activeDeadlineSeconds=30), None),
    ],
)
def test_a_rule_that_denies_holds_for_what_a_job_in_the_cloud_asks_for_now(
    stored: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]], denied: str | None
) -> None:
    new = change(stored)

    response, result = answered(new, gate(VAST), stored=stored, user="kueue")

    said = response.get("status", {}).get("message", "")
    assert (response["allowed"], said.partition(" denies")[0]) == (
        (True, "") if denied is None else (False, f"rule {denied}")
    )
    assert result == new


HIDING = """
rules:
  - {name: amd, when: "job.gpuVendor == 'amd'", deny: none of these}
  - {name: must, when: "!has(job.memory)", deny: state memory}
  - {name: old, when: job.totalCpus > 64, deny: 64 CPUs are the most}
  - {name: hog, when: job.memory > quantity('64Gi'), deny: 64Gi are the most}
  - {name: gold, when: "'class' in job.labels && job.labels['class'] == 'gold'", deny: not yours}
  - {name: long, when: "!has(job.walltime) || job.walltime > seconds('1h')", deny: one hour}
  - {name: rest, cloud: true}
"""


def with_limits(job: dict[str, Any], **limits: str) -> dict[str, Any]:
    job = copy.deepcopy(job)
    job["spec"]["template"]["spec"]["containers"][0]["resources"] = (
        {"requests": limits, "limits": limits} if limits else {}
    )
    return job


def with_gpu(job: dict[str, Any], vendor: str) -> dict[str, Any]:
    return with_limits(job, **{"memory": "1Gi", f"{vendor}.com/gpu": "1"})


def hinted(job: dict[str, Any]) -> dict[str, Any]:
    job = copy.deepcopy(job)
    job["metadata"].setdefault("annotations", {})[OURS + "walltime"] = "1m"
    return job


def bursting(job: dict[str, Any], memory: str) -> dict[str, Any]:
    job = copy.deepcopy(job)
    resources = {"requests": {"memory": "1Gi"}, "limits": {"memory": memory}}
    job["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
    return job


BURSTS = bursting(in_the_cloud(suspend=True), "100Gi")
"""From before the rule that denies such limits."""
WITH_MEMORY = with_limits(in_the_cloud(suspend=True), memory="1Gi")
LARGE_ONES = with_limits(in_the_cloud(parallelism=200), memory="1Gi", cpu="1")


@pytest.mark.parametrize(
    ("stored", "change", "denied"),
    [
        (with_gpu(WITH_MEMORY, "nvidia"), lambda job: with_gpu(job, "amd"), "amd"),
        (WITH_MEMORY, with_limits, "must"),
        (WITH_MEMORY, lambda job: with_limits(job, memory="1Mi"), None),
        (WITH_MEMORY, lambda job: bursting(job, "100Gi"), "hog"),
        (BURSTS, lambda job: bursting(job, "90Gi"), None),
        (BURSTS, lambda job: bursting(job, "101Gi"), "hog"),
        (LARGE_ONES, lambda job: relabelled(job, **{"class": "gold"}), "gold"),
        (LARGE_ONES, lambda job: relabelled(job, **{"class": "silver"}), None),
        (hinted(WITH_MEMORY), lambda job: changed(job, activeDeadlineSeconds=None), "long"),
        (hinted(WITH_MEMORY), lambda job: changed(job, activeDeadlineSeconds=7200), "long"),
        (hinted(WITH_MEMORY), lambda job: changed(job, activeDeadlineSeconds=50), None),
    ],
)
def test_a_change_of_kind_is_judged_by_each_rule_that_denies(
    stored: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]], denied: str | None
) -> None:
    said = answered(change(stored), gate(HIDING), stored=stored)[0].get("status", {}).get("message", "")

    assert said.partition(" denies")[0] == (f"rule {denied}" if denied else "")


@pytest.mark.parametrize(("deadline", "allowed"), [(3600, True), (3601, False), (None, False)])
def test_a_walltime_hint_does_not_hide_the_deadline_of_a_job_that_stays_in_the_cloud(
    deadline: int | None, allowed: bool
) -> None:
    job = with_limits(job_of({"activeDeadlineSeconds": deadline}, sized("1")), memory="1Gi")

    assert answered(hinted(job), gate(HIDING))[0]["allowed"] is allowed


def test_less_is_never_denied() -> None:
    """Whatever a rule says of small Jobs, and of Jobs that it never saw."""
    rules = "rules: [{name: small, when: job.pods < 3, deny: too small}, {name: rest, cloud: true}]"
    stored = in_the_cloud(parallelism=5)

    assert answered(changed(stored, parallelism=1), gate(rules), stored=stored)[0]["allowed"] is True


def test_a_job_of_a_listed_controller_meets_no_rule_at_an_update_either() -> None:
    listed = "kueue.x-k8s.io/multikueue"
    _, stored = answered(job_of({"managedBy": listed, "completions": 1000}, sized("1")))
    forged = changed(stored, parallelism=20)
    forged["metadata"]["labels"] = {OURS + "target": "hpc"}
    vast = gate(RULES.replace("job.memory > quantity('1Ti')", "job.totalCpus > 8"))

    response, result = answered(forged, vast, stored=stored)

    assert response["allowed"] is True
    assert result == changed(stored, parallelism=20)
    unlisted = changed(stored, managedBy="example.com/mine")
    assert answered(changed(unlisted, parallelism=20), vast, stored=unlisted)[0]["allowed"] is False


def _container(**fields: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda template: template["spec"]["containers"][0].update(fields)


@pytest.mark.parametrize("suspend", [False, True])
@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (_container(image="busybox:1.37"), "containers[0].image"),
        (_container(args=["x"], env=[{"name": "A", "value": "b"}]), "containers[0].args, containers[0].env"),
        (lambda template: template["spec"].update(restartPolicy="OnFailure"), "restartPolicy"),
        (lambda template: template["spec"]["containers"].append({"name": "d", "image": "x"}), "containers"),
    ],
)
def test_a_template_that_cannot_change_is_refused_in_one_sentence(
    change: Callable[[dict[str, Any]], Any], fields: str, suspend: bool
) -> None:
    stored = stored_job({"suspend": suspend})
    new = copy.deepcopy(stored)
    change(new["spec"]["template"])

    response, _ = answered(new, stored=stored)

    assert response["allowed"] is False
    assert response["status"]["message"] == (
        f"spec.template: this Job was sent to HPC and its Pod template ({fields}) cannot be changed; "
        "delete and create it"
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda template: template["spec"]["nodeSelector"].update(disk="ssd"),
        lambda template: template["metadata"]["labels"].update(app="x"),
        lambda template: template["metadata"]["annotations"].update(note="x"),
        lambda template: template["spec"]["tolerations"].append({"key": "x", "operator": "Exists"}),
    ],
)
def test_what_kubernetes_lets_change_on_a_suspended_job_is_refused_once_it_runs(change: Any) -> None:
    for suspend, allowed in ((True, True), (False, False)):
        stored = stored_job({"suspend": suspend}, sized("3", tolerations=[{"key": "y", "operator": "Exists"}]))
        new = copy.deepcopy(stored)
        change(new["spec"]["template"])

        response, _ = answered(new, stored=stored)

        assert ("cannot be changed" in response.get("status", {}).get("message", "")) is not allowed


def test_a_file_that_replaces_a_job_lacks_what_the_api_server_wrote_into_it() -> None:
    stored = stored_job()
    stored["spec"]["template"]["metadata"]["labels"] |= {"batch.kubernetes.io/controller-uid": "u-1", "job-name": "j"}
    new = copy.deepcopy(stored)
    for key in ("batch.kubernetes.io/controller-uid", "job-name"):
        del new["spec"]["template"]["metadata"]["labels"][key]

    message = answered(new, stored=stored)[0]["status"]["message"]

    assert message.startswith("spec.selector: Required value: a file that replaces a Job holds the selector")


def test_many_changed_fields_are_counted_and_what_the_api_server_adds_is_not_named() -> None:
    stored = stored_job()
    generated = {"batch.kubernetes.io/controller-uid": "u-1", "job-name": "j"}
    stored["spec"]["template"]["metadata"]["labels"] |= generated
    new = copy.deepcopy(stored)
    for key in generated:
        del new["spec"]["template"]["metadata"]["labels"][key]
    new["spec"]["template"]["spec"]["containers"][0] |= {f"f{number}": number for number in range(7)}

    message = answered(new, stored=stored)[0]["status"]["message"]

    assert message.partition("(")[2].partition(")")[0] == (
        "containers[0].f0, containers[0].f1, containers[0].f2, containers[0].f3, containers[0].f4 and 2 more"
    )
