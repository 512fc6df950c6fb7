"""What stands in a Pod's way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.hpc import JobState
from router.names import CONDITION_DISRUPTION
from router.pod.layout import NO_INDEX
from router.pod.status import Condition, PodStatus
from router.pod.view import PodView, departed
from router.reconcile import outcomes
from router.reconcile.fence import Rival, excused, in_the_way, rival
from tests.reconcile.given import PLAIN, T, began, ended, exited, facts, job, life, pod, report

STRAY = departed(uid="gone", job_uid="job-uid", index="0", job_id="6.pbs")


def _rival(number: int) -> Rival:
    return Rival((T + number, f"uid-{number}"), f"batch job {number}")


def test_who_is_a_rival() -> None:
    queued = facts(pod(), job(report(JobState.QUEUED)))
    assert rival(queued, over=False) == Rival((T, PLAIN.uid), "batch job 7.pbs of Pod train-0 may still run")
    assert rival(outcomes.first(STRAY), over=False) == Rival(
        (0, "gone"), "batch job 6.pbs of a Pod that is gone (gone) may still run"
    )
    assert rival(queued, over=True) is None


def test_a_pod_that_the_agent_has_ended_is_no_rival_and_one_that_others_ended_is() -> None:
    ended = PodStatus(phase="Failed", conditions=(Condition("Ready", "False", T, "PodFailed"),))
    assert rival(facts(pod(status=ended)), over=False) is None
    assert rival(facts(pod(status=PodStatus(phase="Failed"))), over=False) is not None


def test_a_script_that_has_said_its_last_word_runs_nothing_more() -> None:
    """Whatever the batch system still says of its job: an epilogue takes its time."""
    exiting = job(report(JobState.EXITING))
    running = life(began())
    assert rival(facts(pod(), exiting, life=running), over=False) is not None
    assert rival(facts(pod(), exiting, life=life(began(), exited(), ended())), over=False) is None


YOUNG = replace(PLAIN, created=T + 10, uid="uid-young")


@pytest.mark.parametrize(
    ("view", "rivals", "parallelism", "expected"),
    [
        (YOUNG, [], 1, ()),
        (YOUNG, [_rival(1)], 1, ("batch job 1",)),
        (YOUNG, [_rival(1)], 5, ("batch job 1",)),
        (YOUNG, [_rival(11)], 1, ()),
        (replace(YOUNG, index=NO_INDEX), [_rival(1)], 2, ()),
        (
            replace(YOUNG, index=NO_INDEX),
            [_rival(2), _rival(1)],
            2,
            ("batch job 1", "batch job 2"),
        ),
        (replace(YOUNG, index=NO_INDEX), [_rival(1)], 0, ("batch job 1",)),
    ],
)
def test_what_stands_in_the_way(
    view: PodView, rivals: list[Rival], parallelism: int, expected: tuple[str, ...]
) -> None:
    assert in_the_way(view, rivals, parallelism=parallelism) == expected


def test_only_as_many_young_pods_pass_as_there_is_room_for() -> None:
    """Two runs are left over, one of them ends, and two Pods wait: one may pass, not both."""
    first, second = (replace(PLAIN, index=NO_INDEX, created=T + n, uid=f"uid-{n}") for n in (1, 2))
    rivals = [_rival(0), *(Rival((one.created, one.uid), one.uid) for one in (first, second))]

    assert in_the_way(first, rivals, parallelism=2) == ()
    assert in_the_way(second, rivals, parallelism=2) != ()


def test_losses_are_counted() -> None:
    lost = PodStatus(phase="Failed", conditions=(Condition(CONDITION_DISRUPTION, "True", T),))
    pods = [
        replace(PLAIN, uid="a", status=lost),
        replace(PLAIN, uid="b", status=lost),
        replace(PLAIN, uid="e", status=replace(lost, phase="Running")),
        replace(PLAIN, uid="f", status=PodStatus(phase="Failed")),
    ]

    assert excused(pods) == 2
