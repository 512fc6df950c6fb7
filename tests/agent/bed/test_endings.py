"""How Jobs end on Slurm, and what Kubernetes shows of it: one row each. All of them run at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bed.standing import variant
from router import names
from router.reconcile.starts import PLANS
from tests.agent.bed.conftest import NAMESPACE, Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply, job_id, pod_of
from tests.agent.bed.site import BEN, LAYOUT, SUDO, as_user, living, slurm
from tests.agent.bed.tally import await_empty, await_ends, await_started, counted, let_go, lines, told, waiting
from tests.agent.whole.jobs import LABEL
from tests.agent.whole.kubectl import Kubectl
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Seen:
    """What there is to see of a Job that is over, and of its one Pod and container."""

    end: str
    why: str
    phase: str
    reason: str
    code: int
    container: str
    told: tuple[str, ...]


def _nothing(_who: Kubectl, _name: str) -> None:
    """Nobody does anything."""


def _scancel(who: Kubectl, name: str) -> None:
    slurm("scancel", job_id(who, name))


def _cut(who: Kubectl, name: str) -> None:
    slurm("scontrol", "update", f"JobId={job_id(who, name)}", "TimeLimit=1")


@dataclass(frozen=True)
class Case:
    """A row: what the container does, what somebody does to it when it runs, and what is to be seen.

    :param words: what the Pod's message and an Event say
    """

    body: str
    seen: Seen
    words: str = ""
    act: Callable[[Kubectl, str], None] = _nothing
    spec: dict[str, Any] = field(default_factory=dict)


RUN = ("start", "end")
EXPECTED = "; expected to start about "
HELD = "JobHeldAdmin (an admin of the batch system holds it)"
WHOLE = ("--nodes=4", "--exclusive", "--chdir=/", "--output=/dev/null", "--wrap=sleep 600")
CASES = {
    "success": Case("true", Seen("Complete", "CompletionsReached", "Succeeded", "", 0, "Completed", RUN)),
    "exit code": Case(
        "tell end; exit 7", Seen("Failed", "BackoffLimitExceeded", "Failed", "", 7, "Error", RUN)
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
        "trap 'tell term; exit 0' TERM; while :; do sleep 0.2; done",
        Seen("Failed", "PodFailurePolicy", "Failed", "DeadlineExceeded", 0, "DeadlineExceeded", ("start", "term")),
        "was ended at its deadline",
        spec={"activeDeadlineSeconds": 20, "backoffLimit": 6},
    ),
    "walltime": Case(
        "sleep 600",
        Seen("Failed", "PodFailurePolicy", "Failed", "DeadlineExceeded", 143, "DeadlineExceeded", ("start",)),
        "was ended at its deadline",
        act=_cut,
        spec={"backoffLimit": 6},
    ),
    "walltime, trapped": Case(
        "trap 'tell term; exit 0' TERM; while :; do sleep 0.2; done",
        Seen("Failed", "PodFailurePolicy", "Failed", "DeadlineExceeded", 0, "DeadlineExceeded", ("start", "term")),
        "was ended at its deadline",
        act=_cut,
        spec={"backoffLimit": 6},
    ),
    "walltime, ignored": Case(
        "trap '' TERM; while :; do sleep 0.2; done",
        Seen("Failed", "PodFailurePolicy", "Failed", "DeadlineExceeded", 137, "DeadlineExceeded", ("start",)),
        "was ended at its deadline",
        act=_cut,
        spec={"backoffLimit": 6},
    ),
    "memory": Case(
        """exec python3 -c 'x = b"x" * (700 << 20); import time; time.sleep(600)'""",
        Seen("Failed", "PodFailurePolicy", "Failed", "OOMKilled", 137, "OOMKilled", ("start",)),
        "exceeded its memory",
        spec={"backoffLimit": 6},
    ),
    "scancel": Case(
        "sleep 600",
        Seen("Failed", "PodFailurePolicy", "Failed", "JobDeleted", 143, "JobDeleted", ("start",)),
        "was deleted in the batch system",
        act=_scancel,
        spec={"backoffLimit": 6},
    ),
}  # fmt: skip
ENDED_BY = {"memory": "(memory)", "scancel": "(deleted)"}
"""What Slurm says of those that did not end by themselves."""


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    with reached(cluster, SUDO) as found:
        yield found


@pytest.fixture(scope="module")
def over(stack: Stack) -> dict[str, str]:
    """The Jobs of all rows by the row's name, when they are over."""
    made = {row: apply(stack.ada, counted(case.body, **case.spec)) for row, case in CASES.items()}
    for row, case in CASES.items():
        if case.act is not _nothing:
            await_started(made[row])
            case.act(stack.ada, made[row])
    await_ends(stack.ada, list(made.values()))
    await_empty(*made.values())
    return made


def events(who: Kubectl, name: str) -> dict[str, str]:
    """The messages of the Events of a Job's one Pod, by reason."""
    pod = pod_of(who, name)["metadata"]["name"]
    words = ("get", "events", "--field-selector", f"involvedObject.name={pod}", "-o", "json")
    return {one["reason"]: one["message"] for one in json.loads(who.ok(*words))["items"]}


def seen(who: Kubectl, name: str) -> Seen:
    job, status = who.get("job", name), pod_of(who, name)["status"]
    assert job is not None
    (last,) = [one for one in job["status"]["conditions"] if one["type"] in {"Complete", "Failed"}]
    ended = status["containerStatuses"][0]["state"]["terminated"]
    return Seen(
        end=last["type"],
        why=last["reason"],
        phase=status["phase"],
        reason=status.get("reason", ""),
        code=ended["exitCode"],
        container=ended["reason"],
        told=tuple(line.event for line in lines(name)),
    )


@pytest.mark.parametrize("row", CASES)
def test_what_is_seen_of_an_end(stack: Stack, over: dict[str, str], row: str) -> None:
    case, name = CASES[row], over[row]

    assert seen(stack.ada, name) == case.seen
    batch_job = job_id(stack.ada, name)
    reasons = {"Submitted", "Started"} | ({case.seen.reason} if case.words else set())
    told_of = until(lambda: events(stack.ada, name), lambda found: reasons <= found.keys(), what="for the Events")
    assert f"Batch job {batch_job} in queue all of site bed" in told_of["Submitted"]
    message = pod_of(stack.ada, name)["status"].get("message", "")
    assert case.words in message
    if case.words:
        assert batch_job in message
        assert told_of[case.seen.reason] == message


@pytest.mark.parametrize("row", CASES)
def test_the_accounting_and_the_results_of_an_end(stack: Stack, over: dict[str, str], row: str) -> None:
    """Kubernetes has what Slurm itself says of the job; what is brought says of which run it is, and is whole."""
    name, expected = over[row], CASES[row].seen
    batch_job = job_id(stack.ada, name)
    found = until(lambda: pod_of(stack.ada, name), lambda pod: names.KEY_EXIT in pod["metadata"]["annotations"])
    metadata = found["metadata"]

    codes, elapsed = record(batch_job)
    told, _, how = metadata["annotations"][names.KEY_EXIT].partition(" ")
    assert how == ENDED_BY.get(row, "")
    assert told in codes or how  # what was ended from outside has one code in Slurm's list and another in its records
    assert json.loads(metadata["annotations"][names.KEY_RESOURCES_USED])["walltime"] == elapsed
    place = stack.site.results / NAMESPACE / name / f"{metadata['name']}.{metadata['uid'][:8]}"
    until((place / "manifest.json").exists, seconds=SECONDS, what="for the results")
    manifest = json.loads((place / "manifest.json").read_text())
    assert (manifest["batchJob"], manifest["podUid"], manifest["complete"]) == (batch_job, metadata["uid"], True)
    assert {one: told["code"] for one, told in manifest["containers"].items()} == {"main": expected.code}
    assert {"output", "log/main.0"} <= {one["path"] for one in manifest["files"]}


def record(batch_job: str) -> tuple[set[str], str]:
    """What Slurm says itself of a job that is over: its exit code as a shell's, and its run time as ``hh:mm:ss``.

    sacct takes 128 from a code that is as large: 143 reads 15, which may be either. scontrol does not.
    """
    if variant(LAYOUT).accounting:
        words = ("-X", "-n", "-P", "-j", batch_job, "-o", "ExitCode,Elapsed")
        exit_code, elapsed = slurm("sacct", *words).strip().split("|")
        code = int(exit_code.partition(":")[0])
        return {str(code), str(code + 128)}, elapsed
    shown = dict(one.split("=", 1) for one in slurm("scontrol", "show", "job", batch_job).split() if "=" in one)
    return {shown["ExitCode"].partition(":")[0]}, shown["RunTime"]


def test_a_pod_that_is_deleted_has_its_grace_and_its_job_fails(stack: Stack) -> None:
    """The Job controller counts it when it is deleted. It has time to see that before the container ends with 0."""
    body = "trap 'tell term; sleep 5; exit 0' TERM; while :; do sleep 0.2; done"
    name = apply(stack.ada, counted(body, pod={"terminationGracePeriodSeconds": 20}))
    await_started(name)

    stack.ada.ok("delete", "pod", pod_of(stack.ada, name)["metadata"]["name"], "--wait=false")

    assert await_ends(stack.ada, [name]) == {name: "Failed"}
    until(lambda: stack.ada.every("pods", f"{LABEL}={name}"), lambda pods: not pods, what="for the Pod to go")
    assert [line.event for line in lines(name)] == ["start", "term"]


def test_a_job_that_waits_and_is_held_says_so_in_slurms_words(stack: Stack) -> None:
    """All nodes are somebody else's for half an hour, so that it waits, and is expected to start then."""
    half = "--time=30"
    others = slurm(*as_user(BEN), "sbatch", "--parsable", "--partition=all", half, *WHOLE).strip()
    until(lambda: slurm("squeue", "-h", "-j", others, "-o", "%T").strip(), lambda word: word == "RUNNING")
    name = apply(stack.ada, waiting(counted()))

    def waits() -> tuple[str, str]:
        state = pod_of(stack.ada, name)["status"].get("containerStatuses", [{}])[0].get("state", {}).get("waiting", {})
        return state.get("reason", ""), state.get("message", "")

    reason, said = until(waits, lambda words: EXPECTED in words[1], what="for its expected start")
    words, _, expected = said.partition(EXPECTED)
    start, _, rests_on = expected.partition(", by ")
    assert rests_on == PLANS
    assert (reason, words.split(" (")[0] in {"Resources", "Priority"}) == ("Queued", True), said
    away = datetime.fromisoformat(start) - datetime.now(UTC)
    assert timedelta(minutes=20) < away < timedelta(minutes=31)
    (queued,) = [
        one for one in pod_of(stack.ada, name)["status"]["conditions"] if one["type"] == names.CONDITION_QUEUED
    ]
    assert (queued["status"], queued["reason"], queued["message"]) == ("True", "Queued", said)
    until(lambda: events(stack.ada, name).get("Queued", ""), what="for the Event")
    batch_job = job_id(stack.ada, name)
    slurm("scontrol", "hold", batch_job)
    until(waits, lambda words: words == ("Held", HELD), what="to be held")
    slurm("scancel", others)
    until(lambda: living(BEN), lambda ids: others not in ids)
    let_go(name)
    assert told(name, "start") == 0
    slurm("scontrol", "release", batch_job)

    assert await_ends(stack.ada, [name]) == {name: "Complete"}
    assert [line.event for line in lines(name)] == ["start", "end"]
    assert job_id(stack.ada, name) == batch_job
    assert "JobHeldAdmin" in events(stack.ada, name)["Held"]


def test_an_indexed_job_of_20_runs_each_index_once(stack: Stack) -> None:
    name = apply(stack.ada, counted(completions=20, parallelism=20, completionMode="Indexed"))

    assert await_ends(stack.ada, [name]) == {name: "Complete"}

    indexes = sorted(int(line.index) for line in lines(name) if line.event == "start")
    assert indexes == list(range(20))
    pods = {line.pod for line in lines(name)}
    assert {event: sum(line.event == event for line in lines(name)) for event in RUN} == {"start": 20, "end": 20}
    assert len(pods) == 20


def test_a_job_is_tried_again_as_often_as_it_says(stack: Stack) -> None:
    name = apply(stack.ada, counted("tell end; exit 3", backoffLimit=1))

    assert await_ends(stack.ada, [name]) == {name: "Failed"}

    assert [line.event for line in lines(name)] == ["start", "end"] * 2
    assert len({line.pod for line in lines(name)}) == 2
    job = stack.ada.get("job", name)
    assert job is not None
    assert [one["reason"] for one in job["status"]["conditions"] if one["type"] == "Failed"] == ["BackoffLimitExceeded"]


def test_a_cron_job_fires_once(stack: Stack) -> None:
    made = counted()
    name = made["metadata"]["name"]
    spec = {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": made["spec"]}}
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}
    stack.ada.apply(cron)

    def fired() -> list[str]:
        jobs = stack.ada.every("jobs")
        return [one["metadata"]["name"] for one in jobs if one["metadata"]["name"].startswith(f"{name}-")]

    until(fired, seconds=SECONDS, pause=1, what="for the CronJob to fire")
    stack.ada.ok("patch", "cronjob", name, "--patch", '{"spec": {"suspend": true}}')
    jobs = fired()
    assert await_ends(stack.ada, jobs) == dict.fromkeys(jobs, "Complete")

    assert [line.event for line in lines(name)] == ["start", "end"] * len(jobs)
    assert len({line.pod for line in lines(name)}) == len(jobs)
    assert jobs == fired()
