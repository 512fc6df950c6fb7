"""Pods that wait for an image: their status and Events are those of a kubelet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.hpc import JobState
from router.pod.status import PodStatus, State, Waiting
from router.pod.view import PodView
from router.reconcile import outcomes
from router.reconcile.model import Attempt, Tell
from router.reconcile.planning import plan
from router.reconcile.status import status
from router.workload.model import ContainerKind
from tests.reconcile.given import INIT, MAIN, TERMS, T, facts, job, pod, report

NOW = T + 5.0
WAITING = NOW + 10
DIGEST = "docker.io/library/perl@sha256:" + "ab" * 32
CREATING = Waiting("ContainerCreating")
PULLING = Attempt("ContainerCreating", 'Pulling image "perl"', not_before=WAITING, image="perl")
FAILED = Attempt("ErrImagePull", "no such image", not_before=WAITING, image="perl")
BACK_OFF = replace(
    FAILED, reason="ImagePullBackOff", message='Back-off pulling image "perl": ErrImagePull: no such image'
)
UNAVAILABLE = replace(FAILED, reason="RegistryUnavailable", message="cannot be reached")
NEVER = replace(FAILED, reason="ErrImageNeverPull")


def two(kind: ContainerKind = MAIN) -> PodView:
    found = pod(("first", kind), ("main", MAIN))
    first, main = found.containers
    return replace(found, containers=(replace(first, image="busybox"), replace(main, image="perl")))


@pytest.mark.parametrize("kind", [MAIN, INIT])
@pytest.mark.parametrize(
    ("attempt", "own", "shown"),
    [
        (PULLING, Waiting("ContainerCreating", 'Pulling image "perl"'), ("", "")),
        (FAILED, Waiting("ErrImagePull", "no such image"), ("ErrImagePull", "no such image")),
        (BACK_OFF, Waiting(BACK_OFF.reason, BACK_OFF.message), (BACK_OFF.reason, BACK_OFF.message)),
    ],
)
def test_only_the_containers_of_that_image_wait_for_it(
    kind: ContainerKind, attempt: Attempt, own: State, shown: tuple[str, str]
) -> None:
    found = status(facts(two(kind), attempt=attempt), None, TERMS, NOW)

    assert {one.name: one.state for one in (*found.init_containers, *found.containers)} == {
        "first": CREATING,
        "main": own,
    }
    assert (found.phase, found.reason, found.message) == ("Pending", *shown)


def _told(attempt: Attempt, before: PodStatus | None = None) -> list[Tell]:
    view = two()
    view = view if before is None else replace(view, status=before)
    return [one for one in plan(facts(view, attempt=attempt), TERMS, NOW).actions if isinstance(one, Tell)]


@pytest.mark.parametrize(
    ("attempt", "expected"),
    [
        (PULLING, [Tell("Normal", "Pulling", 'Pulling image "perl"')]),
        (replace(PULLING, message=""), []),
        (
            FAILED,
            [
                Tell("Warning", "Failed", 'Failed to pull image "perl": no such image'),
                Tell("Warning", "Failed", "Error: ErrImagePull"),
            ],
        ),
        (
            BACK_OFF,
            [
                Tell("Normal", "BackOff", 'Back-off pulling image "perl": ErrImagePull: no such image'),
                Tell("Warning", "Failed", "Error: ImagePullBackOff"),
            ],
        ),
        (
            UNAVAILABLE,
            [
                Tell("Warning", "Failed", 'Failed to pull image "perl": cannot be reached'),
                Tell("Warning", "Failed", "Error: RegistryUnavailable"),
            ],
        ),
        (NEVER, [Tell("Warning", "ErrImageNeverPull", "no such image")]),
    ],
)
def test_events_are_told_once_for_a_change(attempt: Attempt, expected: list[Tell]) -> None:
    assert _told(attempt) == expected
    written = status(facts(two(), attempt=attempt), None, TERMS, NOW)
    assert _told(attempt, written) == []


def test_the_image_of_a_submitted_pod_is_shown_and_not_forgotten_by_the_next_agent() -> None:
    queued = job(report(JobState.QUEUED))
    known = outcomes.submitted(facts(two()), queued.job_id, {"main": DIGEST})
    first = status(replace(known, jobs=(queued,)), None, TERMS, NOW)
    later = status(facts(replace(two(), status=first), jobs=(queued,)), None, TERMS, NOW + 60)

    assert {one.name: one.image_id for one in first.containers} == {"first": "", "main": DIGEST}
    assert later == first


def test_a_volume_that_cannot_be_made_is_told_once_as_a_kubelet_tells_it() -> None:
    words = "MountVolume.SetUp failed for volume \"v\" : spec.volumes[v].secret: Secret 's' does not exist"
    attempt = Attempt("ContainerCreating", words, not_before=WAITING)

    assert _told(attempt) == [Tell("Warning", "FailedMount", words)]
    shown = status(facts(two(), attempt=attempt), None, TERMS, NOW)
    assert {one.state for one in shown.containers} == {Waiting("ContainerCreating", words)}
    assert _told(attempt, shown) == []
