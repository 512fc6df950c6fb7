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


def _forged(*keys: str) -> str:
    """The warning of a Job with these keys of ours in its nodeSelector."""
    stripped = strip(job_of(pod={"nodeSelector": {OURS + key: "x" for key in keys}}))
    (warning,) = foreign_keys(stripped, place(stripped.job, STAYS))
    return warning


def _said(*keys: str, more: str = "") -> str:
    named = ", ".join(f"nodeSelector batchgate.dev/{key}" for key in keys)
    return f"Only Batchgate sets {named}{more}: what the Job said there was not used."


def test_as_many_forged_values_are_named_as_a_warning_holds() -> None:
    keys = ("a", "b", "c", "d", "e")
    fits, does_not = "x" * (256 - len(_said(*keys, ""))), "x" * (257 - len(_said(*keys, "")))

    assert _forged(*keys) == _said(*keys)
    assert (_forged(*keys, fits), len(_forged(*keys, fits))) == (_said(*keys, fits), 256)
    assert _forged(*keys, does_not) == _said(*keys, more=" and 1 more")


def test_forged_values_beyond_a_warning_are_counted() -> None:
    keys = [f"key-{n:02}" for n in range(100)]

    assert _forged(*keys) == _said(*keys[:5], more=" and 95 more")


def test_a_forged_key_that_is_longer_than_a_warning_is_named_all_the_same() -> None:
    assert _forged("x" * 300, "rule") == _said("x" * 300, more=" and 1 more")


def test_what_is_forged_twice_is_named_once() -> None:
    stripped = strip(job_of(pod={"tolerations": [{"key": OURS + "queue", "effect": e} for e in ("NoExecute", "")]}))

    assert foreign_keys(stripped, place(stripped.job, STAYS)) == (
        "Only Batchgate sets toleration batchgate.dev/queue: what the Job said there was not used.",
    )
