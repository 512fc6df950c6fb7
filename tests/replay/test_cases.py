"""Jobs as they are read: lines of a log that are wrong, and who asked for the Jobs of manifests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from router import policy
from router.placement import signing
from router.policy.decision import QueueStates
from router.replay.cases import Case, Skipped, StatesOfLog, from_line
from router.replay.manifests import Known, from_manifest
from router.workload.cluster import UNKNOWN_CLUSTER
from tests.cli.test_policydiff import NOON, job, lines
from tests.gate.test_updating import stored_job
from tests.gates import KEY, checked, sized

LINE: dict[str, Any] = json.loads(lines((2, "ada", 0)))
WRONG = [
    ({"time": "yesterday"}, "time: is not a time; write 2026-03-01T12:00:00Z or seconds since 1970"),
    ({"groups": "all"}, "groups: is no list of names"),
    ({"groups": [1]}, "groups: is no list of names"),
    ({"namespace_labels": []}, "namespace_labels: is no mapping of labels"),
    ({"namespace_labels": {"a": 1}}, "namespace_labels: is no mapping of labels"),
    ({"user": None}, "user: is no text"),
    ({"workload": None}, "workload.: Input should be a dictionary or an instance of Workload"),
    ({"workload": LINE["workload"] | {"grace": "long"}}, "workload.grace: Input should be a valid integer, unable to parse string as an integer"),
    ({"workload": LINE["workload"] | {"containers": []}}, "workload.containers: is empty"),
    ({"queues": {"a/b": {"freeNodes": "many"}}}, "queues.a/b: is no mapping of whole numbers"),
    ({"queues": {"a/b": {"freeNodes": True}}}, "queues.a/b: is no mapping of whole numbers"),
    ({"queues": {"a/b": {"freeNodes": 2**63}}}, "queues.a/b: is no mapping of whole numbers"),
    ({"queues": {"a/b": {"up": 1}}}, "queues.a/b: is no mapping of whole numbers"),
    ({"name": "half of \ud83d"}, "has half a character"),
    ({"groups": ["half of \ude00"]}, "has half a character"),
    ({"format": 0}, "has format 0, and this release reads 1; use the webhook's own release"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "told"), WRONG)
def test_what_is_wrong_with_a_line_is_named(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=r"[a-z]") as error:
        from_line(json.dumps(LINE | changed), "log:1", StatesOfLog())

    assert str(error.value) == told


def test_a_name_may_have_any_whole_character() -> None:
    case = from_line(json.dumps(LINE | {"user": "\U0001f600 \\ud83d"}), "log:1", StatesOfLog())

    assert isinstance(case, Case)
    assert case.requester.user == "\U0001f600 \\ud83d"


@pytest.mark.parametrize("text", ["", "[]", "1", '{"a": 1}', "\x00", '{"format": 1', '"' + "x" * 100])
def test_a_text_that_is_no_line_of_a_log_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no line of "):
        from_line(text, "log:1", StatesOfLog())


INVALID = {"target": "invalid", "reason": "the Job is invalid", "left_out": "the Job is invalid"}
LEFT = [
    ({"dry_run": True}, Skipped("dry runs")),
    ({"operation": "UPDATE"}, Skipped("changes of Jobs that were decided before")),
    ({"left_out": "longer than 1"}, Skipped("not written down whole", "default/j0 (log:1)")),
    (INVALID | {"dry_run": True}, Skipped("dry runs")),
    (INVALID, Skipped("denied without a rule, and not judged again", "default/j0 (log:1): the Job is invalid")),
]


@pytest.mark.parametrize(("changed", "expected"), LEFT)
def test_a_line_that_is_no_new_job_is_skipped(changed: dict[str, Any], expected: Skipped) -> None:
    assert from_line(json.dumps(LINE | changed), "log:1", StatesOfLog()) == expected


def test_fields_of_a_later_release_are_passed_over() -> None:
    assert isinstance(from_line(json.dumps(LINE | {"new": {"a": 1}}), "log:1", StatesOfLog()), Case)


def test_groups_that_were_cut_off_are_a_missing_fact() -> None:
    case = from_line(json.dumps(LINE | {"groups_left_out": 3}), "log:1", StatesOfLog())

    assert isinstance(case, Case)
    assert case.unknown == {"request.groups"}


CONTROLLER = "system:serviceaccount:kube-system:cronjob-controller"
OWNED = {"ownerReferences": [{"kind": "CronJob", "name": "c", "controller": True}]}
BY_HAND = OWNED | {"annotations": {"cronjob.kubernetes.io/instantiate": "manual"}}
WRITTEN = {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": {"f:spec": {}}}
STATUS = {
    "manager": "kube-controller-manager",
    "operation": "Update",
    "subresource": "status",
    "fieldsV1": {"f:spec": {}},
}
UNKNOWN = frozenset({"request.user", "request.groups"})
MAKERS = [
    ({}, {}, "", UNKNOWN),
    ({}, {"batchgate.dev/requester": "ada"}, "ada", {"request.groups"}),
    ({"annotations": {"batchgate.dev/requester": "ada"}}, {}, "ada", {"request.groups"}),
    (
        {"annotations": {"batchgate.dev/requester": "eve"}},
        {"batchgate.dev/requester": "ada"},
        "ada",
        {"request.groups"},
    ),
    ({}, {"batchgate.dev/requester": "ada", "batchgate.dev/groups": "a\nb"}, "ada", set()),
    (OWNED, {}, CONTROLLER, set()),
    (OWNED, {"batchgate.dev/requester": "eve"}, "eve", {"request.groups"}),
    (BY_HAND, {}, "", UNKNOWN),
    ({"managedFields": [WRITTEN]}, {}, CONTROLLER, set()),
    ({"managedFields": [STATUS]}, {}, "", UNKNOWN),
    ({"managedFields": [WRITTEN | {"manager": "kubectl-create"}]}, {}, "", UNKNOWN),
    ({"ownerReferences": [{"kind": "Workflow", "name": "w", "controller": True}]}, {}, "", UNKNOWN),
]


@pytest.mark.parametrize(("metadata", "notes", "user", "unknown"), MAKERS)
def test_each_job_of_a_cluster_is_asked_as_who_made_it(
    metadata: dict[str, Any], notes: dict[str, str], user: str, unknown: set[str]
) -> None:
    made = job("j", 2, creationTimestamp="2026-03-01T12:00:00Z", **metadata)
    made["spec"]["template"]["metadata"] = {"annotations": notes}
    checked = policy.load({"all.yaml": "rules: [{name: rest, cloud: true}]\n"})

    case = from_manifest(made, "jobs/default/j", Known((checked, checked), UNKNOWN_CLUSTER, QueueStates()))

    assert isinstance(case, Case)
    assert (case.requester.user, case.unknown, case.requester.time) == (user, frozenset(unknown), float(NOON))


OWN_KEY = {signing.key_id(KEY.public_key()): KEY.public_key()}


def _forged(stored: dict[str, Any]) -> None:
    stored["spec"]["template"]["metadata"]["annotations"]["batchgate.dev/requester"] = "root"


def _of_another_job(stored: dict[str, Any]) -> None:
    stored["metadata"]["creationTimestamp"] = "2026-03-01T12:00:00Z"


def _unsigned(stored: dict[str, Any]) -> None:
    del stored["spec"]["template"]["metadata"]["annotations"]["batchgate.dev/signature"]


@pytest.mark.parametrize(
    ("change", "keys", "user"),
    [
        (lambda _: None, OWN_KEY, "ada"),
        (lambda _: None, {}, ""),
        (_forged, OWN_KEY, ""),
        (_of_another_job, OWN_KEY, ""),
        (_unsigned, OWN_KEY, ""),
        (_unsigned, None, "ada"),
    ],
)
def test_where_keys_are_known_only_a_signed_job_says_who_made_it(
    change: Callable[[dict[str, Any]], None], keys: Mapping[str, Ed25519PublicKey] | None, user: str
) -> None:
    """A Job that was made before its namespace was judged carries what its maker wrote."""
    stored = stored_job()
    change(stored)

    case = from_manifest(stored, "jobs/default/j", Known((checked(),) * 2, UNKNOWN_CLUSTER, QueueStates(), keys=keys))

    assert isinstance(case, Case)
    assert case.requester.user == user
    assert case.unknown == (set() if user else UNKNOWN)


@pytest.mark.parametrize(
    ("judged", "user", "unknown"),
    [
        (frozenset({"default", "lab"}), "ada", {"request.groups"}),
        (None, "", UNKNOWN),
    ],
)
def test_a_job_in_the_cloud_says_who_made_it_where_the_webhook_judges_jobs(
    judged: frozenset[str] | None, user: str, unknown: set[str]
) -> None:
    """The webhook replaces what a Job says when it is created, and keeps it as it is later: it needs no signature."""
    stored = stored_job(pod=sized("1"), annotations={"batchgate.dev/requester": "root"})
    assert stored["metadata"]["labels"]["batchgate.dev/target"] == "cloud"
    known = Known((checked(),) * 2, UNKNOWN_CLUSTER, QueueStates(), keys=OWN_KEY, judged=judged)

    case = from_manifest(stored, "jobs/default/j", known)

    assert isinstance(case, Case)
    assert case.requester.user == user
    assert case.unknown == frozenset(unknown)


def test_a_job_of_a_namespace_that_the_webhook_does_not_judge_is_left_out() -> None:
    """A rule that denies would not have denied it."""
    known = Known((checked(),) * 2, UNKNOWN_CLUSTER, QueueStates(), keys=OWN_KEY, judged=frozenset({"lab"}))

    found = from_manifest(stored_job(pod=sized("1")), "jobs/default/j", known)

    assert found == Skipped("of namespaces whose Jobs the webhook does not judge", "jobs/default/j")


def test_the_groups_of_the_controller_that_made_a_job_are_known() -> None:
    """They are the same in each cluster, and a Job in the cloud does not name them."""
    made = job("j", 2, annotations={"batchgate.dev/requester": CONTROLLER}, **OWNED)

    case = from_manifest(made, "jobs/default/j", Known((checked(),) * 2, UNKNOWN_CLUSTER, QueueStates()))

    assert isinstance(case, Case)
    assert (case.requester.groups[0], case.unknown) == ("system:serviceaccounts", frozenset())


def test_a_cronjob_does_not_say_who_asks_as_no_webhook_has_seen_it() -> None:
    template = job("j", 2)["spec"]
    template["template"]["metadata"] = {"annotations": {"batchgate.dev/requester": "root", "batchgate.dev/groups": "a"}}
    metadata = {"name": "c", "namespace": "lab", "uid": "u", "creationTimestamp": "2026-03-01T12:00:00Z"}
    made = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": metadata,
        "spec": {"jobTemplate": {"spec": template}},
    }
    checked = policy.load({"all.yaml": "rules: [{name: rest, cloud: true}]\n"})

    case = from_manifest(made, "cronjobs/lab/c", Known((checked, checked), UNKNOWN_CLUSTER, QueueStates()))

    assert isinstance(case, Case)
    assert (case.requester.user, case.unknown) == (CONTROLLER, frozenset())


def test_an_invalid_job_is_skipped_with_its_field() -> None:
    checked = policy.load({"all.yaml": "rules: [{name: rest, cloud: true}]\n"})
    made = job("j", 2)
    made["spec"]["parallelism"] = "many"

    found = from_manifest(made, "jobs/default/j", Known((checked, checked), UNKNOWN_CLUSTER, QueueStates()))

    assert isinstance(found, Skipped)
    assert (found.why, found.example.partition(": ")[:2]) == ("invalid", ("jobs/default/j", ": "))


def test_policies_that_count_other_gpus_size_a_manifest_each_in_its_way() -> None:
    site = "sites: [{name: s, system: local, workDir: /x, gpuResources: {example.org/a: nvidia}, queues: [{name: q, nodes: 1, cpusPerNode: 1, walltimeMax: 1h}]}]\n"
    rest = "rules: [{name: rest, cloud: true}]\n"
    both = (policy.load({"all.yaml": rest}), policy.load({"all.yaml": site + rest}))
    made = job("j", 2)
    made["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"example.org/a": "2"}

    case = from_manifest(made, "j", Known(both, UNKNOWN_CLUSTER, QueueStates()))

    assert isinstance(case, Case)
    assert case.resized is not None
    assert (case.workload.gpus, case.resized.gpus and case.resized.gpus.value) == (None, 2)
