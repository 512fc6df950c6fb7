"""How Jobs end on OpenPBS, and what Kubernetes shows of it: one row each. All of them run at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.agent.bed.jobs import SECONDS, apply, job_id, pod_of, printed
from tests.agent.pbs import server
from tests.agent.pbs.conftest import Stack
from tests.agent.pbs.jobs import (
    Seen,
    await_ends,
    await_nothing_left,
    await_started,
    counted,
    events,
    seen,
    submitted,
    told,
    waits,
)
from tests.agent.pbs.site import ADA, QUEUE, SITE
from tests.agent.whole.jobs import LABEL
from tests.agent.whole.kubectl import Kubectl
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.pbs, pytest.mark.apptainer, pytest.mark.timeout(900)]


def _nothing(_who: Kubectl, _name: str) -> None:
    """Nobody does anything."""


def _qdel(who: Kubectl, name: str) -> None:
    server.ok("qdel", job_id(who, name))


def _cut(who: Kubectl, name: str) -> None:
    server.ok("qalter", "-l", "walltime=00:00:01", job_id(who, name))


@dataclass(frozen=True)
class Case:
    """A row: what the container does, what the admin does to it when it runs, and what is to be seen.

    :param words: what the Pod's message and an Event say
    """

    body: str
    seen: Seen
    words: str = ""
    act: Callable[[Kubectl, str], None] = _nothing
    spec: dict[str, Any] = field(default_factory=dict)


ENDED = ("start", "end")
TRAPS = "trap 'tell term; exit 0' TERM; while :; do sleep 0.2; done"
DELETED = (
    # TORQUE's record of a job that somebody has deleted is that of one whose node was shut down.
    {"job": "BackoffLimitExceeded", "words": "was told to end by the batch system", "tries": "0"}
    if server.TORQUE
    else {"job": "PodFailurePolicy", "words": "was deleted in the batch system", "tries": "6"}
)
CASES = {
    "success": Case("echo well", Seen("Complete", "CompletionsReached", "Succeeded", "", 0, "Completed", ENDED)),
    "exit code": Case(
        "echo broken; exit 7", Seen("Failed", "BackoffLimitExceeded", "Failed", "", 7, "Error", ENDED)
    ),
    "signal": Case(
        "kill -KILL $$$$", Seen("Failed", "BackoffLimitExceeded", "Failed", "", 137, "Error", ("start",))
    ),
    "deadline": Case(
        "sleep 600",
        Seen("Failed", "PodFailurePolicy", "Failed", "DeadlineExceeded", 143, "DeadlineExceeded", ("start",)),
        "was ended at its deadline",
        spec={"activeDeadlineSeconds": 20, "backoffLimit": 6},
    ),
    "deadline, trapped": Case(
        TRAPS,
        Seen("Failed", "PodFailurePolicy", "Failed", "DeadlineExceeded", 0, "DeadlineExceeded", ("start", "term", "end")),
        "was ended at its deadline",
        spec={"activeDeadlineSeconds": 20, "backoffLimit": 6},
    ),
    "walltime": Case(
        "sleep 600",
        Seen("Failed", "PodFailurePolicy", "Failed", "DeadlineExceeded", 143, "DeadlineExceeded", ("start",)),
        "walltime",
        act=_cut,
        spec={"backoffLimit": 6},
    ),
    "qdel": Case(
        "sleep 600",
        Seen("Failed", DELETED["job"], "Failed", "JobDeleted", 143, "JobDeleted", ("start",)),
        DELETED["words"],
        act=_qdel,
        spec={"backoffLimit": int(DELETED["tries"])},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def over(attending: Stack) -> dict[str, str]:
    """The Jobs of all rows by the row's name, when they are over."""
    made = {row: apply(attending.ada, counted(case.body, **case.spec)) for row, case in CASES.items()}
    for row, case in CASES.items():
        if case.act is not _nothing:
            await_started(made[row])
            case.act(attending.ada, made[row])
    await_ends(attending.ada, *made.values())
    await_nothing_left(list(made.values()), ADA)
    return made


@pytest.mark.parametrize("row", CASES)
def test_what_is_seen_of_an_end(attending: Stack, over: dict[str, str], row: str) -> None:
    case, name, who = CASES[row], over[row], attending.ada

    assert seen(who, name) == case.seen
    batch_job = submitted(who, name)
    reasons = {"Submitted", "Started"} | ({case.seen.reason} if case.words else set())
    told_of = until(lambda: events(who, name), lambda found: reasons <= found.keys(), what="for the Events")
    assert f"Batch job {batch_job} in queue {QUEUE} of site {SITE}" in told_of["Submitted"]
    message = pod_of(who, name)["status"].get("message", "")
    assert case.words in message
    if case.words:
        assert batch_job in message
        assert told_of[case.seen.reason] == message


def test_logs_are_shown_of_jobs_that_are_over(attending: Stack, over: dict[str, str]) -> None:
    assert printed(attending.ada, over["success"]) == ["well"]
    assert printed(attending.ada, over["exit code"]) == ["broken"]


def test_results_are_brought(attending: Stack) -> None:
    made = counted("mkdir /out/deep; echo 42 >/out/deep/answer; echo told")
    made["metadata"]["annotations"]["batchgate.dev/results"] = "out/**"
    pod = made["spec"]["template"]["spec"]
    pod["volumes"].append({"name": "out", "emptyDir": {}})
    pod["containers"][0]["volumeMounts"].append({"name": "out", "mountPath": "/out"})

    name = apply(attending.ada, made)
    assert await_ends(attending.ada, name) == {name: "Complete"}

    metadata = pod_of(attending.ada, name)["metadata"]
    place = attending.site.results / "default" / name / f"{metadata['name']}.{metadata['uid'][:8]}"
    until(place.exists, seconds=SECONDS, what="for its results")
    manifest = json.loads((place / "manifest.json").read_text())
    assert (manifest["complete"], manifest["batchJob"]) == (True, submitted(attending.ada, name))
    assert (place / "results" / "out" / "deep" / "answer").read_text() == "42\n"
    assert (place / "log" / "main.0").read_text().splitlines()[-1] == "told"


def test_a_job_that_is_deleted_is_cancelled_with_its_grace(attending: Stack) -> None:
    name = apply(attending.ada, counted(TRAPS, pod={"terminationGracePeriodSeconds": 20}))
    await_started(name)
    batch_job = submitted(attending.ada, name)

    attending.ada.ok("delete", "job", name, "--wait=false")

    until(lambda: server.attribute(batch_job, "job_state"), lambda state: state == server.OVER, seconds=SECONDS)
    until(lambda: attending.ada.every("pods", f"{LABEL}={name}"), lambda pods: not pods, seconds=SECONDS)
    await_nothing_left([name], ADA)
    assert told(name) == ["start", "term", "end"]


def test_a_job_that_waits_and_is_held_says_so(attending: Stack) -> None:
    """Nothing is started meanwhile, so that it waits."""
    who = attending.ada

    with server.setting("scheduling", "False"):
        name = apply(who, counted())
        until(lambda: waits(who, name)[0], lambda word: word == "Queued", seconds=SECONDS, what="for its wait")
        batch_job = submitted(who, name)
        server.ok("qhold", batch_job)
        until(lambda: waits(who, name)[0], lambda word: word == "Held", seconds=SECONDS, what="to be held")
    until(lambda: server.attribute(batch_job, "job_state"), lambda state: state == "H")
    assert told(name) == []
    server.ok("qrls", batch_job)

    assert await_ends(who, name) == {name: "Complete"}
    assert told(name) == ["start", "end"]
    assert submitted(who, name) == batch_job
    until(lambda: events(who, name), lambda found: {"Held", "Started"} <= found.keys(), what="for the Events")


def test_an_indexed_job_of_5_runs_each_index_once(attending: Stack) -> None:
    made = counted("echo index $JOB_COMPLETION_INDEX", completions=5, parallelism=5, completionMode="Indexed")

    name = apply(attending.ada, made)
    assert await_ends(attending.ada, name) == {name: "Complete"}

    pods = attending.ada.every("pods", f"{LABEL}={name}")
    logs = [attending.ada.ok("logs", pod["metadata"]["name"]).splitlines()[-1] for pod in pods]
    assert sorted(logs) == [f"index {number}" for number in range(5)]
    assert sorted(told(name)) == ["end"] * 5 + ["start"] * 5
    assert len({pod["metadata"]["annotations"]["batchgate.dev/job-id"] for pod in pods}) == 5
