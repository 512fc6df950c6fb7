"""Updates of Jobs that are in the cluster already, through whole reviews and their patches."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import jsonpatch
import pytest

from router import signing
from router.admission import review
from router.policy.decision import QueueState, QueueStates
from tests.gates import ISSUED_AT, KEY, gate, review_of, sized
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


def test_growth_where_the_queue_is_not_in_the_policy_any_more_is_denied() -> None:
    stored = stored_job()

    response, _ = answered(changed(stored, parallelism=2), stored=stored, opened=gate(EVERYTHING_STAYS))

    assert response["allowed"] is False
    assert "was sent to queue small of site hpc1" in response["status"]["message"]


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
        job_uid="u-1",
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
        "Only Batchgate sets label batchgate.dev/target: what the Job said there was not used."
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
    elsewhere = copy.deepcopy(stored)
    elsewhere["spec"]["template"]["metadata"]["labels"][OURS + "queue"] = "workq"

    assert answered(with_cpus(stored, "4"), stored=stored, namespace="other")[0]["allowed"] is False
    assert answered(with_cpus(elsewhere, "4"), stored=elsewhere)[0]["allowed"] is False


def test_a_job_that_was_signed_anew_can_be_signed_anew_again() -> None:
    stored = stored_job({"suspend": True})
    _, once = answered(with_cpus(stored, "4"), stored=stored, opened=gate(issued_at=ISSUED_AT + 7200))

    response, twice = answered(with_cpus(once, "3"), stored=once, opened=gate(issued_at=ISSUED_AT + 14400))

    assert response["allowed"] is True
    assert twice["spec"]["template"]["metadata"]["annotations"][OURS + "requester"] == "ada"
    moved = copy.deepcopy(once)
    moved["metadata"]["uid"] = "u-2"
    assert answered(with_cpus(moved, "3"), stored=moved)[0]["allowed"] is False


def test_a_text_that_no_annotation_can_hold_is_not_made_into_a_script() -> None:
    """The size that is named is the text's alone: with the script it would be 601 KiB."""
    stored = stored_job({"suspend": True})
    new = copy.deepcopy(stored)
    new["spec"]["template"]["spec"]["containers"][0]["args"] = ["\n" * 300_000]

    response, _ = answered(new, stored=stored)

    assert response["status"]["details"]["causes"][0]["field"] == "spec.template.spec.containers[0].args"
    assert "586 KiB of the 586 KiB that script and annotations would take" in response["status"]["message"]
    assert response["status"]["message"].endswith("delete and create it")


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
