"""The routed copy, field by field: expected values come from the table of changes in docs/judging.md."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from router.placement import place, with_signature
from router.policy.decision import Decision
from tests.placement.given import RECORD, SCRIPT, STAYS, job_of, to_hpc

OURS = "batchgate.dev/"
NOT_READY = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
OF_QUEUE = {"key": OURS + "queue", "operator": "Equal", "value": "workq", "effect": "NoSchedule"}
LABELS = {OURS + "target": "hpc", OURS + "site": "hpc1", OURS + "queue": "workq"}
JUDGED = {OURS + "rule": "big", OURS + "reason": "it asks for 4 cores"}


def condition(action: str, kind: str) -> dict[str, Any]:
    return {"action": action, "onPodConditions": [{"type": kind, "status": "True"}]}


NO_RETRIES = {
    "rules": [
        condition("FailJob", OURS + "WalltimeExceeded"),
        condition("FailJob", OURS + "OutOfMemory"),
        condition("FailJob", OURS + "JobDeleted"),
        condition("Ignore", "DisruptionTarget"),
    ]
}


def replaced(job: dict[str, Any]) -> Any:
    return json.loads(job["metadata"]["annotations"][OURS + "replaced"])


def test_a_job_for_hpc_carries_all_of_the_table_and_nothing_else() -> None:
    job = job_of({"activeDeadlineSeconds": 3600}, labels={"app": "a"})

    routed = place(job, to_hpc(), SCRIPT, RECORD)

    kept = routed["metadata"]["annotations"].pop(OURS + "replaced")
    assert json.loads(kept) == {
        "was": {
            "spec.activeDeadlineSeconds": 3600,
            "spec.podReplacementPolicy": "TerminatingOrFailed",
            "spec.template.metadata": {},
        },
        "added": [
            "spec.podFailurePolicy",
            "spec.template.spec.activeDeadlineSeconds",
            "spec.template.spec.automountServiceAccountToken",
            "spec.template.spec.tolerations",
        ],
    }
    assert routed == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default", "labels": {"app": "a", **LABELS}, "annotations": JUDGED},
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "suspend": False,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": NO_RETRIES,
            "template": {
                "metadata": {
                    "labels": LABELS,
                    "annotations": {
                        **JUDGED,
                        OURS + "script": SCRIPT,
                        OURS + "requester": "ada",
                        OURS + "account": '{"user":"ada"}',
                    },
                },
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i", "command": ["true"]}],
                    "nodeName": "workq.hpc1.batchgate",
                    "nodeSelector": {OURS + "site": "hpc1", OURS + "queue": "workq"},
                    "tolerations": [NOT_READY, UNREACHABLE, OF_QUEUE],
                    "activeDeadlineSeconds": 3600,
                    "automountServiceAccountToken": False,
                },
            },
        },
    }


def test_groups_are_recorded_where_they_count_also_if_there_are_none() -> None:
    for groups, expected in ((None, None), ("", ""), ("a\nb", "a\nb")):
        record = dataclasses.replace(RECORD, groups=groups)
        annotations = place(job_of(), to_hpc(), SCRIPT, record)["spec"]["template"]["metadata"]["annotations"]
        assert annotations.get(OURS + "groups") == expected


def test_a_job_that_stays_gets_the_record_on_itself_and_its_pods_nothing() -> None:
    job = job_of(annotations={"a": "b"})

    kept = place(job, STAYS)

    assert kept == {
        **job,
        "metadata": {
            "name": "j",
            "namespace": "default",
            "labels": {OURS + "target": "cloud"},
            "annotations": {"a": "b", OURS + "rule": "small", OURS + "reason": "it asks for 1 core"},
        },
    }


def test_a_job_that_stays_is_not_made_too_large_by_a_remark() -> None:
    job = job_of(annotations={"a": "x" * (256 * 1024 - 10)})

    kept = place(job, STAYS)

    assert kept["metadata"]["annotations"] == job["metadata"]["annotations"]
    assert kept["metadata"]["labels"] == {OURS + "target": "cloud"}


def test_a_denied_job_is_left_as_it_is() -> None:
    job = job_of()

    assert place(job, Decision("deny", "no", "it may not")) is job


@pytest.mark.parametrize(
    ("own", "left", "kept"),
    [
        ([], [], []),
        ([{"operator": "Exists"}], [{"operator": "Exists"}], {}),
        (
            [{"key": "gpu"}, {**NOT_READY, "tolerationSeconds": 30}, {"key": "x"}, {**UNREACHABLE, "effect": ""}],
            [{"key": "gpu"}, {"key": "x"}],
            {"1": {**NOT_READY, "tolerationSeconds": 30}, "3": {**UNREACHABLE, "effect": ""}},
        ),
        ([{**NOT_READY, "effect": "NoSchedule"}], [{**NOT_READY, "effect": "NoSchedule"}], {}),
        ([NOT_READY], [], {"0": NOT_READY}),
    ],
    ids=["none", "everything", "both", "another effect", "the same as ours"],
)
def test_tolerations_come_first_and_in_place_of_the_users_own_for_the_two(own: Any, left: Any, kept: Any) -> None:
    routed = place(job_of(pod={"tolerations": own}), to_hpc(), SCRIPT, RECORD)

    assert routed["spec"]["template"]["spec"]["tolerations"] == [NOT_READY, UNREACHABLE, OF_QUEUE, *left]
    assert replaced(routed)["was"]["spec.template.spec.tolerations"] == kept


@pytest.mark.parametrize(
    ("policy", "job", "pod", "expected"),
    [
        ("run", 60, None, (None, 60)),
        ("run", None, 90, (None, 90)),
        ("run", 60, 90, (None, 90)),
        ("run", 0, None, (0, None)),  # a Pod's deadline is at least 1
        ("run", 2**31, None, (2**31, None)),  # and at most 2^31-1
        ("total", 60, None, (60, None)),
        ("total", 60, 90, (60, 90)),
    ],
)
def test_the_deadline_moves_to_the_pods(policy: str, job: Any, pod: Any, expected: Any) -> None:
    given = job_of(
        {"activeDeadlineSeconds": job} if job is not None else {},
        {"activeDeadlineSeconds": pod} if pod is not None else {},
    )

    routed = place(given, to_hpc(deadline=policy), SCRIPT, RECORD)["spec"]

    assert (routed.get("activeDeadlineSeconds"), routed["template"]["spec"].get("activeDeadlineSeconds")) == expected


OWN = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}


@pytest.mark.parametrize(
    ("spec", "pod", "retries", "expected"),
    [
        ({}, {}, {}, NO_RETRIES),
        (
            {"backoffLimitPerIndex": 0},
            {},
            {},
            {
                "rules": [
                    condition("FailIndex", OURS + "WalltimeExceeded"),
                    condition("FailIndex", OURS + "OutOfMemory"),
                    condition("FailIndex", OURS + "JobDeleted"),
                    condition("Ignore", "DisruptionTarget"),
                ]
            },
        ),
        ({}, {}, {"on_walltime": True}, {"rules": NO_RETRIES["rules"][1:]}),
        ({}, {}, {"on_memory": True, "on_deletion": True, "disruptions": 0}, {"rules": NO_RETRIES["rules"][:1]}),
        ({}, {}, {"on_walltime": True, "on_memory": True, "disruptions": 0}, {"rules": NO_RETRIES["rules"][2:3]}),
        ({}, {}, {"on_walltime": True, "on_memory": True, "on_deletion": True, "disruptions": 0}, None),
        ({"podFailurePolicy": OWN}, {}, {}, OWN),
        ({}, {"activeDeadlineSeconds": 60}, {}, {"rules": NO_RETRIES["rules"][1:]}),
        ({"activeDeadlineSeconds": 600}, {"activeDeadlineSeconds": 60}, {}, {"rules": NO_RETRIES["rules"][1:]}),
        ({"activeDeadlineSeconds": 60}, {"activeDeadlineSeconds": 600}, {}, NO_RETRIES),
        ({}, {"restartPolicy": "OnFailure"}, {}, None),  # Kubernetes takes such rules with Never only
    ],
    ids=[
        "plain",
        "by index",
        "walltime again",
        "memory and deletion again",
        "only deletion",
        "all again",
        "the user's own",
        "a Pod's own deadline",
        "a Pod's own deadline before the Job's",
        "the Job's deadline before a Pod's",
        "OnFailure",
    ],
)
def test_kills_are_not_repeated_unless_the_policy_says_so(spec: Any, pod: Any, retries: Any, expected: Any) -> None:
    routed = place(job_of(spec, pod), to_hpc(**retries), SCRIPT, RECORD)

    assert routed["spec"].get("podFailurePolicy") == expected


@pytest.mark.parametrize(
    ("tokens", "own", "expected"),
    [
        ("cloud", None, False),
        ("cloud", True, False),
        ("cloud", False, False),
        ("stage", None, None),
        ("stage", True, True),
    ],
)
def test_no_token_lies_on_a_shared_file_system_unless_the_site_stages_them(
    tokens: str, own: Any, expected: Any
) -> None:
    job = job_of(pod={} if own is None else {"automountServiceAccountToken": own})

    routed = place(job, to_hpc(tokens=tokens), SCRIPT, RECORD)

    assert routed["spec"]["template"]["spec"].get("automountServiceAccountToken") == expected


def test_the_nodes_name_is_valid_where_the_queues_is_no_node_name() -> None:
    routed = place(job_of(), to_hpc("gpu_long"), SCRIPT, RECORD)["spec"]["template"]

    assert routed["spec"]["nodeName"].startswith("gpu-long-")
    assert routed["spec"]["nodeSelector"][OURS + "queue"] == "gpu_long"
    assert routed["metadata"]["labels"][OURS + "queue"] == "gpu_long"


def test_the_record_says_the_same_on_job_and_pod_and_the_proof_is_added_to_it() -> None:
    routed = place(job_of(), to_hpc(), SCRIPT, type(RECORD)("ada", "{}"))

    on_pod = routed["spec"]["template"]["metadata"]["annotations"]
    assert {key: on_pod[key] for key in JUDGED} == {key: routed["metadata"]["annotations"][key] for key in JUDGED}
    assert OURS + "signature" not in on_pod
    signed = with_signature(routed, "v2.k.c.s")["spec"]["template"]
    metadata = {**routed["spec"]["template"]["metadata"], "annotations": {**on_pod, OURS + "signature": "v2.k.c.s"}}
    assert signed == {**routed["spec"]["template"], "metadata": metadata}
