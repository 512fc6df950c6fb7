"""What a user reads of the changes."""

from __future__ import annotations

from typing import Any

import pytest

from router.placement import foreign_keys, noticed, place, strip
from tests.placement.given import RECORD, SCRIPT, STAYS, job_of, to_hpc

OURS = "batchgate.dev/"
REPLACEMENT = "A deleted Pod is replaced only once its batch job has ended (podReplacementPolicy: Failed)."
KILLS = "A run that is killed at its walltime or for memory is not tried again (podFailurePolicy)."


@pytest.mark.parametrize(
    ("spec", "pod", "policy", "expected"),
    [
        ({}, {}, {}, (KILLS, REPLACEMENT)),
        ({"podReplacementPolicy": "Failed"}, {}, {}, (KILLS,)),
        (
            {"activeDeadlineSeconds": 3600, "podReplacementPolicy": "Failed"},
            {},
            {"on_walltime": True, "on_memory": True},
            ("activeDeadlineSeconds (1h) now counts from the start of each run, not the time in the queue.",),
        ),
        (
            {"activeDeadlineSeconds": 60, "podReplacementPolicy": "Failed"},
            {"activeDeadlineSeconds": 30, "restartPolicy": "OnFailure"},
            {},
            (
                "The Job's activeDeadlineSeconds was taken out, as it counts the time in the queue; the template's holds.",
                "With restartPolicy OnFailure a run that was killed at its walltime is tried again, up to backoffLimit.",
            ),
        ),
        (
            {"podReplacementPolicy": "Failed"},
            {
                "serviceAccountName": "runner",
                "tolerations": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "tolerationSeconds": 3}],
            },
            {"on_memory": True},
            (
                "A run that is killed at its walltime is not tried again (podFailurePolicy).",
                "Its own tolerations of not-ready and unreachable nodes are replaced: batch jobs outlast their agent.",
                "Its Pods get no service account token on HPC (automountServiceAccountToken: false).",
            ),
        ),
    ],
    ids=["ordinary", "waits already", "deadline", "two deadlines", "tolerations and token"],
)
def test_each_change_that_the_user_could_notice_is_named(spec: Any, pod: Any, policy: Any, expected: Any) -> None:
    own = job_of(spec, pod)

    assert noticed(own, place(own, to_hpc(**policy), SCRIPT, RECORD)) == expected


def test_a_routed_job_that_is_applied_again_is_no_forgery() -> None:
    placed = place(job_of(), to_hpc(), SCRIPT, RECORD)
    stripped = strip(placed)

    again = place(stripped.job, to_hpc(), SCRIPT, type(RECORD)(RECORD.requester, RECORD.account, "v1.later"))

    assert foreign_keys(stripped, again) == ()


def test_forged_values_are_named() -> None:
    job = job_of(
        pod={"nodeName": "x.y.batchgate", "tolerations": [{"key": OURS + "queue", "operator": "Exists"}]},
        labels={OURS + "target": "hpc"},
        annotations={OURS + "reason": "it asks for 1 core", OURS + "signature": "v1"},
    )
    stripped = strip(job)

    warnings = foreign_keys(stripped, place(stripped.job, STAYS))

    said = "label batchgate.dev/target, toleration batchgate.dev/queue, nodeName"
    assert warnings == (f"Only Batchgate sets {said}: what the Job said there was not used.",)


def test_many_forged_values_are_counted() -> None:
    stripped = strip(job_of(annotations={OURS + key: "x" for key in ("rule", "script", "account", "exit", "job-id")}))

    (warning,) = foreign_keys(stripped, place(stripped.job, STAYS))

    assert "annotation batchgate.dev/account and 2 more:" in warning
