"""The story of one Job, from its object, its Pods and the Events of its namespace."""

from __future__ import annotations

from typing import Any

import pytest

from router import names
from router.operating.jobs import JobPhase
from router.operating.story import (
    Container,
    Decision,
    PodStory,
    Request,
    Sizes,
    Story,
    ToldEvent,
    decision,
    is_about,
    story,
)
from router.placement import place
from tests.operating.objects import at, event, job, over, pod
from tests.placement.given import RECORD, job_of, to_hpc
from tests.steps import steps_of

IDENTITY = '{"user":"u17","account":"phys"}'
TEMPLATE = {
    "metadata": {
        "annotations": {
            names.KEY_REQUESTER: "ada",
            names.KEY_ACCOUNT: IDENTITY,
            names.KEY_SCRIPT: "#!/bin/bash\n#PBS -l select=1:ncpus=4\n#PBS -q batch\necho '#PBS no'\n",
        }
    },
    "spec": {
        "activeDeadlineSeconds": 600,
        "containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": 4}}}],
    },
}
ENDED = {"exitCode": 3, "reason": "Error", "startedAt": at("09:10:00"), "finishedAt": at("09:20:00")}


def ended_job() -> dict[str, Any]:
    return job(
        "large",
        annotations={names.KEY_RULE: "big", names.KEY_REASON: "asks for 4 CPUs", names.HINT_WALLTIME: "10m"},
        spec={"completions": 1, "parallelism": 1, "backoffLimit": 2, "template": TEMPLATE},
        status={"startTime": at("09:00:01"), "failed": 1, **over("Failed", "BackoffLimitExceeded", "too often")},
    )


def ended_pod() -> dict[str, Any]:
    return pod(
        "large-abcde",
        of="large",
        phase="Failed",
        reason="Error",
        startTime=at("09:09:00"),
        containerStatuses=[{"name": "main", "state": {"terminated": ENDED}}],
        conditions=[{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": at("09:20:00")}],
        annotations={names.KEY_JOB_ID: "7.pbs", names.KEY_EXIT: "3", names.KEY_RESOURCES_USED: '{"cput": "1"}'},
    )


def test_a_job_that_ended() -> None:
    one = ended_pod()
    events = [
        event(one, "ResultsBrought", "results in /r/default/large", "09:21:00"),
        event(one, "Submitted", "Batch job 7.pbs", "09:05:00"),
        event(pod("other"), "Submitted", "another's", "09:06:00"),
    ]

    assert story(ended_job(), [one], events) == Story(
        namespace="default",
        name="large",
        uid="job-large",
        state=JobPhase.FAILED,
        reason="BackoffLimitExceeded",
        message="too often",
        created=at("09:00:00"),
        started=at("09:00:01"),
        ended=at("09:30:00"),
        succeeded=0,
        failed=1,
        decision=Decision("hpc", "big", "asks for 4 CPUs", "ada", "u17", "phys", "", "demo", "batch"),
        sizes=Sizes(
            completions=1,
            parallelism=1,
            retries=2,
            deadline=600,
            containers=(Request("main", "busybox", {"cpu": "4"}, {}),),
            hints={names.HINT_WALLTIME: "10m"},
            directives=("-l select=1:ncpus=4", "-q batch"),
        ),
        different=(),
        pods=(
            PodStory(
                name="large-abcde",
                uid="pod-large-abcde",
                index="noindex",
                node="batch.demo.batchgate",
                batch_job="7.pbs",
                queue_now="",
                phase="Failed",
                reason="Error",
                message="",
                created=at("09:00:00"),
                queued=at("09:05:00"),
                started=at("09:09:00"),
                ended=at("09:20:00"),
                deleted="",
                exit="3",
                used={"cput": "1"},
                containers=(Container("main", "terminated", "Error", "", 3, 0, at("09:10:00"), at("09:20:00"), 0),),
                conditions=("DisruptionTarget",),
                logs=("kubectl logs -n default large-abcde -c main",),
            ),
        ),
        events=(
            ToldEvent(at("09:05:00"), "Normal", "Pod/large-abcde", "Submitted", "Batch job 7.pbs", 2),
            ToldEvent(at("09:21:00"), "Normal", "Pod/large-abcde", "ResultsBrought", "results in /r/default/large", 2),
        ),
        results=("results in /r/default/large",),
    )


@pytest.mark.parametrize(
    ("times", "queued"),
    [
        ([{"firstTimestamp": at("09:01:00"), "lastTimestamp": at("09:30:00"), "count": 14}], at("09:01:00")),
        (
            [{"eventTime": "2026-01-01T09:01:00.250000Z", "series": {"lastObservedTime": at("09:30:00")}}],
            at("09:01:00"),
        ),
        ([{"lastTimestamp": at("09:30:00")}], at("09:30:00")),
        ([{"firstTimestamp": at("09:03:00")}, {"firstTimestamp": at("09:01:00")}, {}], at("09:01:00")),
        ([{}], ""),
    ],
)
def test_a_job_was_queued_when_that_was_told_first(times: list[dict[str, Any]], queued: str) -> None:
    """It is told anew while the Pod's status cannot be written, long after the batch job has begun."""
    one = pod("a-abcde", of="a")
    told = [{**event(one, "Submitted", "Batch job 7.pbs", "09:30:00"), "lastTimestamp": None, **own} for own in times]

    assert [found.queued for found in story(job("a"), [one], told).pods] == [queued]


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({"reason": "Queued"}, ("Pending", "Queued", "", "")),
        ({}, ("Pending", "", "", "")),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    {
                        "name": "main",
                        "restartCount": 1,
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "in 10 s"}},
                        "lastState": {"terminated": ENDED},
                    }
                ],
            },
            ("Running", "CrashLoopBackOff", "in 10 s", ""),
        ),
    ],
)
def test_a_pod_that_goes_on(status: dict[str, Any], shown: tuple[str, ...]) -> None:
    (found,) = story(job("a"), [pod("a-abcde", of="a", **status)], []).pods

    assert (found.phase, found.reason, found.message, found.ended) == shown


def test_a_container_between_two_runs_shows_how_the_last_one_ended() -> None:
    waiting = {"name": "main", "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    one = pod("a-abcde", of="a", phase="Running", containerStatuses=[waiting | {"lastState": {"terminated": ENDED}}])

    (found,) = story(job("a"), [one], []).pods

    assert found.containers == (Container("main", "waiting", "CrashLoopBackOff", "", 3, 0, "", at("09:20:00"), 1),)


@pytest.mark.parametrize(
    ("about", "of", "expected"),
    [
        (pod("large-abcde"), {}, True),  # a Pod that is no more
        (pod("large-abcdef"), {}, False),
        (pod("large-2-abcde"), {}, False),  # perhaps of the Job large-2
        (pod("large-abcde"), {"spec": {"completionMode": "Indexed"}}, False),
        (pod("large-abcde"), {"created": "09:30:00"}, False),  # of an earlier Job of that name
    ],
)
def test_whose_events_are_told(about: dict[str, Any], of: dict[str, Any], expected: bool) -> None:
    assert is_about(event(about, "Submitted", "", "09:10:00"), job("large", **of), set()) is expected


def test_events_of_the_job_itself_and_of_its_pods_are_told() -> None:
    owner, one = job("large"), pod("large-2-abcde")

    assert is_about(event(owner, "SuccessfulCreate", "", "09:10:00", kind="Job"), owner, set())
    assert is_about(event(one, "Submitted", "", "09:10:00"), owner, {"pod-large-2-abcde"})


def test_twice_the_pods_with_their_events_are_twice_the_work() -> None:
    def told(count: int) -> int:
        pods = [pod(f"large-{number}", of="large") for number in range(count)]
        events = [event(one, reason, "", "09:05:00") for one in pods for reason in ("Submitted", "Started")]
        return steps_of(lambda: story(job("large"), pods, events))

    assert told(400) < 2.1 * told(200)


@pytest.mark.parametrize("text", ["nobody", "[" * 100_000, '{"user":' * 20_000, "[1]", "9" * 5000])
def test_annotations_that_are_no_json_are_left_out(text: str) -> None:
    one = pod("a-abcde", of="a", annotations={names.KEY_RESOURCES_USED: text, names.KEY_JOB_ID: "1"})

    found = story(job("a", annotations={names.KEY_ACCOUNT: text}), [one], [])

    assert (found.pods[0].used, found.decision.user) == ({}, "")


def test_what_is_different_on_hpc_is_read_from_the_job() -> None:
    own = job_of({"podReplacementPolicy": "Failed"})
    routed = place(own, to_hpc(), "#!/bin/bash\ndeadline=600 # seconds\nruntime=apptainer\n", RECORD)
    routed["metadata"] |= {"uid": "u", "creationTimestamp": at("09:00:00")}

    assert story(routed, [], []).different == (
        "It names no activeDeadlineSeconds, so its containers end after 10m on queue workq.",
        "A run that is killed at its walltime, for memory or by hand is not tried again (podFailurePolicy).",
    )


@pytest.mark.parametrize(
    ("notes", "signed", "maker"),
    [({names.KEY_REQUESTER: "eve"}, TEMPLATE, "ada"), ({names.KEY_REQUESTER: "eve"}, {}, "eve")],
)
def test_who_made_a_job_stands_in_its_proof_and_in_the_cloud_on_the_job(
    notes: dict[str, str], signed: dict[str, Any], maker: str
) -> None:
    assert decision(job("large", annotations=notes, spec={"template": signed})).requester == maker


def test_a_job_that_was_left_to_a_listed_controller_says_to_which() -> None:
    job = {"metadata": {"annotations": {"batchgate.dev/managed-by": "kueue.x-k8s.io/multikueue"}}}

    assert decision(job) == Decision("", "", "", "", "", "", "", "", "", "kueue.x-k8s.io/multikueue")


@pytest.mark.parametrize(
    ("text", "trace"),
    [
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "4bf92f3577b34da6a3ce929d0e0e4736"),
        ("\x1b[2J", ""),
        (7, ""),
    ],
)
def test_the_id_of_a_jobs_trace_is_shown_if_it_is_one(text: object, trace: str) -> None:
    job = {"metadata": {"annotations": {"batchgate.dev/traceparent": text}}}

    assert decision(job) == Decision("", "", "", "", "", "", "", "", "", trace=trace)
