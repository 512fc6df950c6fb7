from __future__ import annotations

import json

import pytest

from router import policy
from router.errors import InputError
from router.policy.decision import QueueState, QueueStates

FILE = {
    "queues": [
        {"site": "local", "queue": "workq", "up": True, "freeNodes": 1, "queuedJobs": 0, "runningJobs": 2, "waitSeconds": 60},
        {"site": "local", "queue": "other"},
        {"site": "elsewhere", "queue": "workq", "up": False},
    ]
}  # fmt: skip


def test_what_the_embedded_queue_prints() -> None:
    assert policy.queue_states(json.dumps(FILE), "f") == QueueStates(
        {
            ("local", "workq"): QueueState(
                "local", "workq", up=True, free_nodes=1, queued_jobs=0, running_jobs=2, wait_seconds=60
            ),
            ("local", "other"): QueueState("local", "other"),
            ("elsewhere", "workq"): QueueState("elsewhere", "workq", up=False),
        }
    )


@pytest.mark.parametrize("time", ['"2026-03-01T12:00:00Z"', "2026-03-01T13:00:00+01:00", "1772366400", "1772366400.0"])
def test_the_moment_may_stand_in_the_file(time: str) -> None:
    assert policy.queue_states(f"time: {time}\nqueues: []\n", "f").time == 1772366400


def test_without_it_the_moment_is_not_known() -> None:
    assert policy.queue_states("queues: []", "f").time is None


def test_an_empty_file_knows_nothing() -> None:
    assert policy.queue_states("", "f") == QueueStates()


NO_TIME = "is not a time; write 2026-03-01T12:00:00Z or seconds since 1970"
WRONG = [
    ("time: soon\nqueues: []", f"f:1:7: time: {NO_TIME}"),
    ("time: 2026-03-01T12:00:00\nqueues: []", f"f:1:7: time: {NO_TIME}"),  # whose noon?
    ("time: true\nqueues: []", f"f:1:7: time: {NO_TIME}"),
    ("[]", "f:1:1: is not a queue state: write a mapping with the key queues"),
    ("queues: 1", "f:1:9: queues: "),
    ("queues: [{site: a}]", "f:1:10: queues[0].queue: "),
    ("queues:\n  - {site: a, queue: b, free: 1}", "f:2:31: queues[0].free: is not a key of a queue state"),
    ("queues:\n  - {site: a, queue: b, up: 1}", "f:2:29: queues[0].up: "),
    ("queues:\n  - {site: a, queue: b, freeNodes: -1}", "f:2:36: queues[0].freeNodes: "),
    ("queues:\n  - {site: a, queue: b, freeNodes: '1'}", "f:2:36: queues[0].freeNodes: "),
    ("queues:\n  - {site: a, queue: b}\n  - {site: a, queue: b}", "f:3:5: queue b of site a is listed twice"),
    ("queues: []\n---\nqueues: []", "f:3:1: a queue state file must be one document"),
    ("queues: [\n", "f:2:1: is not YAML: "),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_is_wrong_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        policy.queue_states(text, "f")

    assert str(caught.value).startswith(message)


def test_equal_states_hash_equally() -> None:
    assert hash(policy.queue_states(json.dumps(FILE), "f")) == hash(policy.queue_states(json.dumps(FILE), "g"))


@pytest.mark.parametrize(
    ("time", "written", "problem"),
    [
        (1_772_366_400.0, None, ""),
        (1_772_366_399.0, None, "is of 2026-03-01T11:59:59Z, more than 10m ago"),
        (1_772_366_400.0, 1_000_000_000.0, ""),  # what it says itself counts
        (None, 1_772_366_399.0, "is of 2026-03-01T11:59:59Z, more than 10m ago"),
        (None, None, ""),
    ],
)
def test_a_state_that_is_too_old(time: float | None, written: float | None, problem: str) -> None:
    states = QueueStates(time=time)

    assert policy.age_problem(states, now=1_772_367_000, most=600, written=written) == problem
