"""What a user reads of the changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.placement import Difference, differences, foreign_keys, goes_to_hpc, place, strip, with_signature
from tests.placement.given import RECORD, STAYS, job_of, to_hpc

OURS = "batchgate.dev/"
SCRIPT = "#!/bin/sh\n#PBS -q workq\ndeadline=3200 # seconds\nruntime=/usr/bin/apptainer\n"
ON_HOST = SCRIPT.replace("runtime=", "other=")
REPLACEMENT = Difference(
    "A deleted Pod is replaced only once its batch job has ended (podReplacementPolicy: Failed).",
    "a deleted Pod is replaced once its batch job has ended",
)
KILLS = Difference(
    "A run that is killed at its walltime, for memory or by hand is not tried again (podFailurePolicy).",
    "a run killed at its walltime, for memory or by hand is not tried again",
)
LIMIT = Difference(
    "It names no activeDeadlineSeconds, so its containers end after 53m20s on queue workq.",
    "its containers end after 53m20s",
)
KILLS_WITH_OWN_DEADLINE = Difference(
    "A run that is killed for memory or by hand is not tried again (podFailurePolicy).",
    "a run killed for memory or by hand is not tried again",
)
NO_CONTAINER = Difference(
    "Its commands run without a container, with the site's own programs (runtime: host).",
    "they run without a container",
    always=True,
)


@pytest.mark.parametrize(
    ("spec", "pod", "policy", "script", "expected"),
    [
        ({}, {}, {}, SCRIPT, (LIMIT, KILLS, REPLACEMENT)),
        ({}, {}, {}, ON_HOST, (NO_CONTAINER, LIMIT, KILLS, REPLACEMENT)),
        ({"podReplacementPolicy": "Failed"}, {"activeDeadlineSeconds": 60}, {}, SCRIPT, (KILLS_WITH_OWN_DEADLINE,)),
        (
            {"activeDeadlineSeconds": 3600, "podReplacementPolicy": "Failed"},
            {},
            {"on_walltime": True, "on_memory": True, "on_deletion": True},
            SCRIPT,
            (
                Difference(
                    "activeDeadlineSeconds (1h) now counts from the start of each run, not the time in the queue.",
                    "activeDeadlineSeconds counts from the start of each run",
                ),
            ),
        ),
        (
            {"activeDeadlineSeconds": 60, "podReplacementPolicy": "Failed"},
            {"activeDeadlineSeconds": 30, "restartPolicy": "OnFailure"},
            {},
            SCRIPT,
            (
                Difference(
                    "With restartPolicy OnFailure a run that was killed at its walltime is tried again, up to backoffLimit.",
                    "a run killed at its walltime is tried again",
                ),
                Difference(
                    "The Job's activeDeadlineSeconds was taken out, as it counts the time in the queue; the template's holds."
                ),
            ),
        ),
        (
            {"podReplacementPolicy": "Failed", "activeDeadlineSeconds": 5},
            {
                "serviceAccountName": "runner",
                "tolerations": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "tolerationSeconds": 3}],
            },
            {"on_memory": True, "on_deletion": True, "deadline": "total"},
            SCRIPT,
            (
                Difference(
                    "A run that is killed at its walltime is not tried again (podFailurePolicy).",
                    "a run killed at its walltime is not tried again",
                ),
                Difference(
                    "Its own tolerations of not-ready and unreachable nodes are replaced: batch jobs outlast their agent."
                ),
                Difference("Its Pods get no service account token on HPC (automountServiceAccountToken: false)."),
            ),
        ),
    ],
    ids=["ordinary", "on the host", "waits already", "deadline", "two deadlines", "tolerations and token"],
)
def test_each_change_that_the_user_could_notice_is_named(
    spec: Any, pod: Any, policy: Any, script: str, expected: Any
) -> None:
    own = job_of(spec, pod)
    routed = place(own, to_hpc(**policy), script, RECORD)

    assert differences(own, routed) == expected
    assert differences(strip(routed).job, routed) == expected, "a stored Job tells the same"


def test_a_hint_is_a_time_that_was_asked_for() -> None:
    own = job_of({"podReplacementPolicy": "Failed"}, annotations={OURS + "walltime": "1h"})

    assert differences(own, place(own, to_hpc(), SCRIPT, RECORD)) == (KILLS,)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (
            "rule r sends it",
            (
                "; there its containers end after 53m20s, a run killed at its walltime, for memory or by hand is not tried again and "
                "a deleted Pod is replaced once its batch job has ended (batchgate explain says more)."
            ),
        ),
        (
            f"rule {'r' * 60} sends it",
            (
                "; there its containers end after 53m20s and a run killed at its walltime, for memory or by hand is not tried again "
                "(batchgate explain says more)."
            ),
        ),
        (f"rule {'r' * 130} sends it", "; there its containers end after 53m20s (batchgate explain says more)."),
        (f"rule {'r' * 180} sends it.", " (batchgate explain says more)."),
    ],
    ids=["all", "two", "one", "none"],
)
def test_the_one_sentence_holds_as_much_as_a_warning_may(reason: str, told: str) -> None:
    said = goes_to_hpc(reason, (LIMIT, KILLS, REPLACEMENT, Difference("about this Job alone")))

    assert said == (f"This Job goes to HPC: {reason.rstrip('.')}{told}",)
    assert len(said[0]) <= 256


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (
            "rule r sends it",
            (
                (
                    "This Job goes to HPC: rule r sends it; there they run without a container, its containers end after 53m20s "
                    "and a run killed at its walltime, for memory or by hand is not tried again (batchgate explain says more)."
                ),
            ),
        ),
        (
            f"rule {'r' * 150} sends it",
            (
                (
                    f"This Job goes to HPC: rule {'r' * 150} sends it; there they run without a container "
                    "(batchgate explain says more)."
                ),
            ),
        ),
        (
            f"rule {'r' * 180} sends it",
            (
                f"This Job goes to HPC: rule {'r' * 180} sends it (batchgate explain says more).",
                NO_CONTAINER.sentence,
            ),
        ),
        (
            f"rule {'r' * 180} sends it to queue small",
            (
                f"This Job goes to HPC: rule {'r' * 180} sends it to … (batchgate explain says more).",
                NO_CONTAINER.sentence,
            ),
        ),
        ("r" * 300, ("This Job goes to HPC: … (batchgate explain says more).", NO_CONTAINER.sentence)),
    ],
    ids=["others too", "it alone", "no clause", "cut", "one long word"],
)
def test_that_no_container_is_there_is_told_whatever_the_reason(reason: str, expected: tuple[str, ...]) -> None:
    assert goes_to_hpc(reason, (NO_CONTAINER, LIMIT, KILLS, REPLACEMENT)) == expected


@given(st.text(max_size=600), st.lists(st.sampled_from([NO_CONTAINER, LIMIT, KILLS, REPLACEMENT]), unique=True))
def test_no_sentence_is_longer_than_a_warning(reason: str, found: list[Difference]) -> None:
    said = goes_to_hpc(reason, tuple(found))

    assert max(map(len, said)) <= 256
    assert said[0].startswith("This Job goes to HPC: ")
    assert ("without a container" in " ".join(said).removeprefix(reason)) >= (NO_CONTAINER in found)


def test_a_routed_job_that_is_applied_again_is_no_forgery() -> None:
    placed = with_signature(place(job_of(), to_hpc(), SCRIPT, RECORD), "v2.earlier")
    stripped = strip(placed)

    again = with_signature(place(stripped.job, to_hpc(), SCRIPT, RECORD), "v2.later")

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
    assert warnings == (f"Only Batchgate sets {said}: the Job's own values were ignored.",)


def _forged(*keys: str) -> str:
    """The warning of a Job with these keys of ours in its nodeSelector."""
    stripped = strip(job_of(pod={"nodeSelector": {OURS + key: "x" for key in keys}}))
    (warning,) = foreign_keys(stripped, place(stripped.job, STAYS))
    return warning


def _said(*keys: str, more: str = "") -> str:
    named = ", ".join(f"nodeSelector batchgate.dev/{key}" for key in keys)
    return f"Only Batchgate sets {named}{more}: the Job's own values were ignored."


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
        "Only Batchgate sets toleration batchgate.dev/queue: the Job's own values were ignored.",
    )
