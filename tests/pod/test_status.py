"""A Pod's status to the API's form and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.names import CONDITION_DISRUPTION, CONDITION_READY, CONDITION_SCHEDULED
from router.pod.status import (
    CONDITIONS,
    Condition,
    ContainerStatus,
    PodStatus,
    Running,
    Terminated,
    Waiting,
    as_patch,
    read,
    rfc3339,
    seconds,
)

FAILED = PodStatus(
    phase="Failed",
    reason="OOMKilled",
    message="job 7.pbs exceeded its memory",
    started=1_700_000_010,
    conditions=(
        Condition(CONDITION_SCHEDULED, "True", 1_700_000_000),
        Condition(CONDITION_READY, "False", 1_700_000_100, "PodFailed"),
    ),
    init_containers=(
        ContainerStatus(
            "prepare", Terminated(0, "Completed", started=1_700_000_010, finished=1_700_000_020), ready=True
        ),
    ),
    containers=(
        ContainerStatus(
            "main",
            Terminated(137, "OOMKilled", 9, "words", 1_700_000_090, 1_700_000_100),
            last=Terminated(1, "Error", started=1_700_000_020, finished=1_700_000_080),
            restarts=1,
        ),
        ContainerStatus("other", Waiting("PodInitializing")),
        ContainerStatus("third", Running(1_700_000_020), ready=True, started=True),
    ),
)

PATCH = {
    "metadata": {"uid": "uid-1"},
    "status": {
        "phase": "Failed",
        "reason": "OOMKilled",
        "message": "job 7.pbs exceeded its memory",
        "startTime": "2023-11-14T22:13:30Z",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "True",
                "lastTransitionTime": "2023-11-14T22:13:20Z",
                "reason": None,
                "message": None,
            },
            {
                "type": "Ready",
                "status": "False",
                "lastTransitionTime": "2023-11-14T22:15:00Z",
                "reason": "PodFailed",
                "message": None,
            },
        ],
        "initContainerStatuses": [
            {
                "name": "prepare",
                "image": "tools:1",
                "imageID": "",
                "state": {
                    "terminated": {
                        "exitCode": 0,
                        "reason": "Completed",
                        "startedAt": "2023-11-14T22:13:30Z",
                        "finishedAt": "2023-11-14T22:13:40Z",
                    }
                },
                "restartCount": 0,
                "ready": True,
                "started": False,
            }
        ],
        "containerStatuses": [
            {
                "name": "main",
                "image": "app:2",
                "imageID": "",
                "state": {
                    "terminated": {
                        "exitCode": 137,
                        "signal": 9,
                        "reason": "OOMKilled",
                        "message": "words",
                        "startedAt": "2023-11-14T22:14:50Z",
                        "finishedAt": "2023-11-14T22:15:00Z",
                    }
                },
                "lastState": {
                    "terminated": {
                        "exitCode": 1,
                        "reason": "Error",
                        "startedAt": "2023-11-14T22:13:40Z",
                        "finishedAt": "2023-11-14T22:14:40Z",
                    }
                },
                "restartCount": 1,
                "ready": False,
                "started": False,
            },
            {
                "name": "other",
                "image": "",
                "imageID": "",
                "state": {"waiting": {"reason": "PodInitializing"}},
                "restartCount": 0,
                "ready": False,
                "started": False,
            },
            {
                "name": "third",
                "image": "",
                "imageID": "",
                "state": {"running": {"startedAt": "2023-11-14T22:13:40Z"}},
                "restartCount": 0,
                "ready": True,
                "started": True,
            },
        ],
    },
}


def test_a_whole_status_as_a_patch() -> None:
    assert as_patch(FAILED, uid="uid-1", images={"prepare": "tools:1", "main": "app:2"}, annotations={}) == PATCH


def test_annotations_are_written_with_the_status() -> None:
    patch = as_patch(PodStatus(phase="Running"), uid="uid-1", images={}, annotations={"batchgate.dev/job-id": "7.pbs"})

    assert patch["metadata"] == {"uid": "uid-1", "annotations": {"batchgate.dev/job-id": "7.pbs"}}


def test_a_patch_takes_away_what_is_no_more() -> None:
    patch = as_patch(PodStatus(phase="Running"), uid="uid-1", images={}, annotations={})

    assert patch == {
        "metadata": {"uid": "uid-1"},
        "status": {"phase": "Running", "reason": None, "message": None, "conditions": []},
    }


TIMES = st.integers(0, 2_000_000_000)
WORDS = st.text(max_size=20)
TERMINATED = st.builds(
    Terminated,
    code=st.integers(0, 255),
    reason=WORDS,
    signal=st.integers(0, 64),
    message=WORDS,
    started=st.none() | TIMES,
    finished=st.none() | TIMES,
)
CONTAINERS = st.lists(
    st.builds(
        ContainerStatus,
        name=st.text(alphabet="abc", min_size=1, max_size=3),
        state=st.one_of(st.builds(Waiting, reason=WORDS, message=WORDS), st.builds(Running, started=TIMES), TERMINATED),
        last=st.none() | TERMINATED,
        restarts=st.integers(0, 9),
        ready=st.booleans(),
        started=st.booleans(),
    ),
    max_size=3,
).map(tuple)
STATUSES = st.builds(
    PodStatus,
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
    reason=WORDS,
    message=WORDS,
    started=st.none() | TIMES,
    conditions=st.lists(st.sampled_from(range(len(CONDITIONS))), unique=True).map(
        lambda kinds: tuple(Condition(CONDITIONS[kind], "True", 1_700_000_000 + kind, "Why") for kind in sorted(kinds))
    ),
    init_containers=CONTAINERS,
    containers=CONTAINERS,
)


@given(status=STATUSES)
def test_what_is_written_reads_back_as_it_was(status: PodStatus) -> None:
    stored = as_patch(status, uid="u", images={}, annotations={})["status"]

    assert read(_as_stored(stored)) == status


def _as_stored(value: Any) -> Any:
    """What a strategic merge leaves of it: nothing where it says null."""
    if isinstance(value, dict):
        return {key: _as_stored(one) for key, one in value.items() if one is not None}
    return [_as_stored(one) for one in value] if isinstance(value, list) else value


def test_what_the_agent_does_not_set_is_not_read() -> None:
    stored = {
        "phase": "Pending",
        "qosClass": "Burstable",
        "hostIP": "10.0.0.1",
        "conditions": [
            {"type": "example.org/Ready", "status": "True", "lastTransitionTime": "2023-11-14T22:13:20Z"},
            {
                "type": CONDITION_DISRUPTION,
                "status": "True",
                "lastTransitionTime": "2023-11-14T22:13:20Z",
                "lastProbeTime": None,
                "reason": "EvictionByEvictionAPI",
            },
        ],
    }

    assert read(stored) == PodStatus(
        conditions=(Condition(CONDITION_DISRUPTION, "True", 1_700_000_000, "EvictionByEvictionAPI"),)
    )


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"phase": None, "conditions": None, "containerStatuses": None},
        {"conditions": [None, 3], "containerStatuses": ["x"]},
    ],
)
def test_what_is_missing_reads_as_not_set(stored: dict[str, Any]) -> None:
    assert read(stored) == PodStatus()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2023-11-14T22:13:20Z", 1_700_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000),
        ("2023-11-14T22:13:20.999999Z", 1_700_000_000),
        ("", None),
        (None, None),
        ("yesterday", None),
    ],
)
def test_times_of_the_api(text: object, expected: int | None) -> None:
    assert seconds(text) == expected


def test_times_to_the_api() -> None:
    assert rfc3339(1_700_000_000.9) == "2023-11-14T22:13:20Z"
