"""What an update leaves of ours: a file that is applied twice changes nothing."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import assume, given

from router.gate import patching
from router.placement import Record, is_routed, keep_reserved, place, replace_record, restore, strip
from router.policy.decision import Decision
from tests.placement.given import RECORD, SCRIPT, STAYS, job_of, jobs, records, scripts, sent, to_hpc

OURS = "batchgate.dev/"
NOT_READY = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 30,
}


def own_job() -> dict[str, Any]:
    return job_of({"activeDeadlineSeconds": 60}, {"tolerations": [{"key": "gpu"}, NOT_READY]}, labels={"app": "a"})


def stored_job() -> dict[str, Any]:
    stored = place(own_job(), to_hpc(), SCRIPT, RECORD)
    return {**stored, "metadata": {**stored["metadata"], "uid": "u-1"}, "status": {"active": 1}}


def applied(stored: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What kubectl's merge makes of a file: mappings merged, everything else (also lists) as the file has it."""
    return {
        **stored,
        **{
            key: applied(stored[key], value) if isinstance(value, dict) and isinstance(stored.get(key), dict) else value
            for key, value in file.items()
        },
    }


def test_replacing_with_the_users_own_file_gives_the_stored_job() -> None:
    stored = stored_job()
    new = {**own_job(), "metadata": {**own_job()["metadata"], "uid": "u-1"}, "status": {"active": 1}}

    assert restore(stored, new).job == stored


def test_applying_the_users_own_file_gives_the_stored_job() -> None:
    stored = stored_job()
    new = applied(stored, own_job())
    assert new["spec"]["activeDeadlineSeconds"] == 60  # comes back with each apply
    assert new["spec"]["template"]["spec"]["tolerations"] == [{"key": "gpu"}, NOT_READY]

    restored = restore(stored, new)

    assert restored.job == stored
    assert patching.diff(stored, restored.job) == []


@given(jobs(), sent, scripts, records)
def test_any_file_that_is_applied_twice_changes_nothing(
    job: Any, decision: Decision, script: str, record: Record
) -> None:
    own = strip(job).job
    stored = place(own, decision, script, record)

    assert restore(stored, own).job == stored
    assert restore(stored, stored).job == stored
    assert restore(stored, applied(copy.deepcopy(stored), own)).job == stored


def as_kept(stored: dict[str, Any]) -> dict[str, Any]:
    """A Job as the API server keeps it: after admission it writes the selector and the labels that this matches."""
    made = {"batch.kubernetes.io/controller-uid": "u-1", "batch.kubernetes.io/job-name": "solve"}
    kept = copy.deepcopy(stored)
    metadata = kept["spec"]["template"]["metadata"]
    metadata["labels"] = {**metadata["labels"], **made}
    return {**kept, "spec": {**kept["spec"], "selector": {"matchLabels": made}}}


@given(jobs(), sent, scripts, records)
def test_what_the_api_server_writes_after_us_changes_nothing(
    job: Any, decision: Decision, script: str, record: Record
) -> None:
    own = strip(job).job
    metadata = own["spec"]["template"].get("metadata", {})
    assume(metadata is not None and metadata.get("labels", {}) is not None)
    kept = as_kept(place(own, decision, script, record))

    assert restore(kept, kept).job == kept
    assert restore(kept, applied(copy.deepcopy(kept), own)).job == kept


def test_a_template_without_metadata_is_recorded_as_it_was_sent() -> None:
    own = job_of()
    own["spec"]["template"]["metadata"] = {}  # as the API server writes a template without any
    kept = as_kept(place(own, to_hpc(), SCRIPT, RECORD))
    labelled = copy.deepcopy(kept)
    labelled["metadata"]["labels"]["note"] = "seen"

    assert "spec.template.metadata" in json.loads(kept["metadata"]["annotations"][OURS + "replaced"])["was"]
    assert restore(kept, labelled).job == labelled


def test_a_field_that_the_user_changes_later_is_recorded() -> None:
    stored = place(job_of({"podReplacementPolicy": "Failed"}), to_hpc(), SCRIPT, RECORD)
    new = applied(stored, {"spec": {"podReplacementPolicy": "TerminatingOrFailed"}})

    restored = restore(stored, new).job

    recorded = json.loads(restored["metadata"]["annotations"][OURS + "replaced"])
    assert restored["spec"] == stored["spec"]
    assert recorded["was"]["spec.podReplacementPolicy"] == "TerminatingOrFailed"
    assert strip(restored).job["spec"]["podReplacementPolicy"] == "TerminatingOrFailed"


def test_a_record_that_is_not_believed_is_written_anew() -> None:
    stored = stored_job()
    good = stored["metadata"]["annotations"][OURS + "replaced"]
    text = json.dumps({**json.loads(good), "more": 1})
    stored["metadata"]["annotations"][OURS + "replaced"] = text

    recorded = restore(stored, stored).job["metadata"]["annotations"][OURS + "replaced"]

    assert recorded != text


def test_what_the_user_changes_goes_through_and_ours_stays() -> None:
    stored = stored_job()
    new = applied(
        stored, {"metadata": {"labels": {"app": "b"}}, "spec": {"suspend": True, "ttlSecondsAfterFinished": 5}}
    )

    assert restore(stored, new).job == new


def test_forged_keys_give_way_to_the_stored_ones() -> None:
    stored = stored_job()
    new = copy.deepcopy(stored)
    new["metadata"]["labels"][OURS + "queue"] = "other"
    new["metadata"]["annotations"] = {OURS + "replaced": "{}", "note": "x"}
    new["spec"]["template"]["metadata"]["annotations"][OURS + "script"] = "rm -rf /"
    new["spec"]["template"]["spec"]["nodeSelector"][OURS + "site"] = "other"
    new["spec"]["podReplacementPolicy"] = "TerminatingOrFailed"

    restored = restore(stored, new).job

    assert restored["spec"] == stored["spec"]
    assert restored["metadata"]["labels"] == stored["metadata"]["labels"]
    assert restored["metadata"]["annotations"] == {**stored["metadata"]["annotations"], "note": "x"}


def test_a_record_made_anew_changes_script_and_proof_and_no_immutable_field() -> None:
    stored = stored_job()
    new = copy.deepcopy(stored)
    new["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    other = to_hpc(
        deadline="total", tokens="stage", on_walltime=True, reason="it asks for 2 cores"
    )  # the policy changed

    routed = replace_record(restore(stored, new), other, "#!/bin/sh\n", Record("ada", RECORD.account))

    annotations = routed["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {
        OURS + "rule": "big",
        OURS + "reason": "it asks for 2 cores",
        OURS + "script": "#!/bin/sh\n",
        OURS + "requester": "ada",
        OURS + "account": RECORD.account,
    }
    template = {**routed["spec"]["template"], "metadata": new["spec"]["template"]["metadata"]}
    assert {**routed["spec"], "template": template} == new["spec"]
    assert json.loads(routed["metadata"]["annotations"][OURS + "replaced"]) == json.loads(
        stored["metadata"]["annotations"][OURS + "replaced"]
    )


@pytest.mark.parametrize(
    ("job", "expected"),
    [(stored_job(), True), (place(own_job(), STAYS), False), (own_job(), False), (strip(stored_job()).job, False)],
    ids=["routed", "stays", "unknown to us", "stripped"],
)
def test_the_template_says_whether_a_job_was_sent(job: Any, expected: bool) -> None:
    assert is_routed(job) is expected


def test_a_job_in_the_cloud_keeps_its_record_and_takes_no_forged_one() -> None:
    stored = place(own_job(), STAYS)
    new = copy.deepcopy(own_job())  # replaced by the file: the record is gone
    new["metadata"]["labels"][OURS + "target"] = "hpc"
    new["spec"]["template"]["metadata"] = {
        "labels": {OURS + "site": "hpc1"},
        "annotations": {OURS + "walltime": "60", OURS + "x": ""},
    }
    new["spec"]["template"]["spec"]["nodeSelector"] = {OURS + "queue": "workq"}
    new["spec"]["template"]["spec"]["tolerations"].append({"key": OURS + "queue", "operator": "Exists"})
    new["spec"]["template"]["spec"]["nodeName"] = "workq.hpc1.batchgate"

    kept = keep_reserved(stored, new)

    expected = copy.deepcopy(stored)
    expected["spec"]["template"]["metadata"] = {"annotations": {OURS + "walltime": "60"}}  # a hint is the user's own
    assert kept.job == expected
    assert [one.key for one in kept.taken] == [
        OURS + "target",
        OURS + "site",
        OURS + "queue",
        OURS + "queue",
        "nodeName",
    ]


def test_a_job_from_before_the_gate_keeps_even_what_should_not_be_there() -> None:
    """Its template is immutable: taking anything out would make every further update fail."""
    stored = job_of(
        pod={"tolerations": [{"key": OURS + "queue"}, {"key": "gpu"}], "nodeSelector": {OURS + "site": "s"}}
    )
    new = {**stored, "metadata": {**stored["metadata"], "labels": {"new": "label"}}}

    assert keep_reserved(stored, new).job == new
