from __future__ import annotations

import pytest

from router.errors import RequestError
from router.kubelet.runs import LoggedContainer, LoggedPod, RunState, container_of, is_written, run_of
from router.pod.layout import PodDirectory

WAITING, RUNNING, TERMINATED = RunState.WAITING, RunState.RUNNING, RunState.TERMINATED


def pod_with(*containers: LoggedContainer) -> LoggedPod:
    directory = PodDirectory("/work", "job", "noindex", "uid")
    return LoggedPod("default", "y", "uid", "batch.demo.batchgate", directory, containers)


# What validateContainerLogStatus of kubelet 1.36 does with the status of such a container.
RUNS = [
    (LoggedContainer("x", WAITING, None, "Queued"), False, 'container "x" in pod "y" is waiting to start: Queued'),
    (LoggedContainer("x", WAITING), False, 'container "x" in pod "y" is waiting to start - no logs yet'),
    (LoggedContainer("x", WAITING, None, "Queued"), True, 'previous terminated container "x" in pod "y" not found'),
    (LoggedContainer("x", RUNNING, 0), False, 0),
    (LoggedContainer("x", RUNNING, 0), True, 'previous terminated container "x" in pod "y" not found'),
    (LoggedContainer("x", RUNNING, 3), False, 3),
    (LoggedContainer("x", RUNNING, 3), True, 2),
    (LoggedContainer("x", WAITING, 3, "CrashLoopBackOff"), False, 3),
    (LoggedContainer("x", WAITING, 3, "CrashLoopBackOff"), True, 3),
    (LoggedContainer("x", TERMINATED, 0), False, 0),
    (LoggedContainer("x", TERMINATED, 0), True, 'previous terminated container "x" in pod "y" not found'),
    (LoggedContainer("x", TERMINATED, 1), True, 0),
    (LoggedContainer("x", TERMINATED), False, 'container "x" in pod "y" is terminated'),
    (LoggedContainer("x", TERMINATED), True, 'previous terminated container "x" in pod "y" not found'),
]


@pytest.mark.parametrize(("container", "previous", "expected"), RUNS)
def test_a_request_means_the_run_that_a_kubelet_would_show(
    container: LoggedContainer, previous: bool, expected: int | str
) -> None:
    pod = pod_with(container)

    if isinstance(expected, int):
        assert run_of(pod, container, previous=previous) == expected
    else:
        with pytest.raises(RequestError) as refused:
            run_of(pod, container, previous=previous)
        assert (refused.value.status, refused.value.text) == (400, expected)


def test_a_container_is_found_by_its_name() -> None:
    one, two = LoggedContainer("one", RUNNING, 0), LoggedContainer("two", WAITING)

    assert container_of(pod_with(one, two), "two") is two
    with pytest.raises(RequestError) as refused:
        container_of(pod_with(one, two), "three")
    assert (refused.value.status, refused.value.text) == (404, 'container "three" not found in pod "y"')


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (pod_with(LoggedContainer("x", RUNNING, 1)), True),
        (pod_with(LoggedContainer("x", TERMINATED, 1)), False),
        (pod_with(LoggedContainer("x", WAITING, 1, "CrashLoopBackOff")), False),
        (pod_with(LoggedContainer("x", RUNNING, 2)), False),
        (pod_with(LoggedContainer("z", RUNNING, 1)), False),
        (pod_with(), False),
        (None, False),
    ],
)
def test_a_run_is_written_to_until_it_ends_or_another_takes_its_place(pod: LoggedPod | None, expected: bool) -> None:
    assert is_written(pod, "uid", "x", 1) is expected
    assert is_written(pod, "of another Pod of that name", "x", 1) is False
