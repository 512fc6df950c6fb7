"""A Pod's status through its life, as a kubelet would report it; and what has been said is not taken back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.hpc import JobState, Verdict
from router.names import CONDITION_DISRUPTION, CONDITION_MEMORY, CONDITION_SUSPENDED
from router.pod.life import Life, Note
from router.pod.status import Condition, ContainerStatus, PodStatus, Running, State, Terminated, Waiting
from router.reconcile.ending import judge
from router.reconcile.model import Attempt, Facts
from router.reconcile.status import status
from router.reconcile.verdicts import Ending
from tests.reconcile.given import (
    ALL_WELL,
    INIT,
    MAIN,
    PLAIN,
    SIDECAR,
    TERMS,
    T,
    began,
    ended,
    exited,
    facts,
    job,
    left,
    life,
    over,
    pod,
    probed,
    report,
)

NOW = T + 110
THREE = pod(("prepare", INIT), ("proxy", SIDECAR), ("main", MAIN))
RUNNING = job(report(JobState.RUNNING, started=T + 10))
INITIALIZING = Waiting("PodInitializing")


def shown(known: Facts, now: float = NOW) -> PodStatus:
    """The status of what is known, terminal where it is over."""
    found = judge(known, TERMS, now)
    return status(known, found if isinstance(found, Ending) else None, TERMS, now)


def ready(found: PodStatus) -> dict[str, str]:
    """The conditions that a kubelet sets, in short."""
    kinds = ("Initialized", "ContainersReady", "Ready")
    return {kind: f"{one.status} {one.reason}".strip() for kind in kinds if (one := found.condition(kind))}


def states(found: PodStatus) -> list[State]:
    return [one.state for one in (*found.init_containers, *found.containers)]


UNREADY = {
    "Initialized": "False ContainersNotInitialized",
    "ContainersReady": "False ContainersNotReady",
    "Ready": "False ContainersNotReady",
}


@pytest.mark.parametrize(
    ("found", "phase", "expected", "conditions"),
    [
        (life(), "Pending", [INITIALIZING, INITIALIZING, INITIALIZING], UNREADY),
        (life(began("prepare")), "Pending", [Running(T + 12), INITIALIZING, INITIALIZING], UNREADY),
        (
            life(exits=(left(0, "prepare"),)),
            "Pending",
            [Terminated(0, "Completed", started=T + 11, finished=T + 50), INITIALIZING, INITIALIZING],
            UNREADY,
        ),
        (
            life(began("proxy", T + 51), exits=(left(0, "prepare"),)),
            "Running",
            [Terminated(0, "Completed", started=T + 11, finished=T + 50), Running(T + 51), INITIALIZING],
            {**UNREADY, "Initialized": "True"},
        ),
        (
            life(began("proxy", T + 51), began("main", T + 52), exits=(left(0, "prepare"),)),
            "Running",
            [Terminated(0, "Completed", started=T + 11, finished=T + 50), Running(T + 51), Running(T + 52)],
            {"Initialized": "True", "ContainersReady": "True", "Ready": "True"},
        ),
        (
            life(began("main", T + 52), exits=(left(0, "prepare"), left(1, "proxy"))),
            "Running",
            [
                Terminated(0, "Completed", started=T + 11, finished=T + 50),
                Waiting("CrashLoopBackOff", "exited with code 1; the container will be restarted"),
                Running(T + 52),
            ],
            {**UNREADY, "Initialized": "True"},
        ),
    ],
)
def test_init_containers_and_sidecars(
    found: Life, phase: str, expected: list[State], conditions: dict[str, str]
) -> None:
    seen = shown(facts(THREE, RUNNING, life=found))

    assert (seen.phase, states(seen), ready(seen)) == (phase, expected, conditions)


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ((), (True, True)),
        ((probed(ready=False, up=False),), (False, False)),
        ((probed(ready=False),), (False, True)),
        ((probed(ready=True),), (True, True)),
        ((probed(ready=True, up=False),), (False, False)),
        ((probed(ready=True, number=2), probed(ready=False)), (True, True)),
        ((probed(ready=True), probed(ready=False, number=2)), (False, True)),
        ((probed(ready=False, restart=1),), (True, True)),
    ],
)
def test_a_container_is_ready_where_its_probes_say_so(notes: tuple[Note, ...], expected: tuple[bool, bool]) -> None:
    seen = shown(facts(pod(), RUNNING, life=life(began(), *notes)))

    (one,) = seen.containers
    assert (one.ready, one.started) == expected
    assert ready(seen)["Ready"] == ("True" if expected[0] else "False ContainersNotReady")


def test_a_pod_is_initialized_when_its_sidecar_has_started() -> None:
    found = life(began("proxy", T + 51), probed("proxy", ready=False, up=False), exits=(left(0, "prepare"),))
    seen = shown(facts(THREE, RUNNING, life=found))

    assert (seen.phase, ready(seen)) == ("Pending", UNREADY)


def test_an_init_container_that_fails() -> None:
    record = job(over(status=2))
    seen = shown(facts(THREE, record, life=life(ended(2), exits=(left(2, "prepare"),)), inspected=T + 900.0), T + 900)

    assert seen.phase == "Failed"
    assert states(seen) == [Terminated(2, "Error", started=T + 11, finished=T + 50), INITIALIZING, INITIALIZING]
    assert ready(seen) == {
        "Initialized": "False ContainersNotInitialized",
        "ContainersReady": "False PodFailed",
        "Ready": "False PodFailed",
    }
    message = seen.condition("Initialized")
    assert message is not None
    assert message.message == "containers with incomplete status: [prepare proxy]"


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (facts(PLAIN, job()), Waiting("Queued")),
        (
            facts(PLAIN, job(report(JobState.QUEUED, reason="Not Running:\n no cpus"))),
            Waiting("Queued", "Not Running: no cpus"),
        ),
        (facts(PLAIN, job(report(JobState.HELD))), Waiting("Held")),
        (facts(PLAIN, RUNNING), Waiting("ContainerCreating")),
        (
            facts(older=("batch job 6.pbs may still run",)),
            Waiting("WaitingForOlderRun", "batch job 6.pbs may still run"),
        ),
        (facts(refused="its last check failed"), Waiting("SiteRefused", "its last check failed")),
        (facts(older=("x",), refused="its last check failed"), Waiting("WaitingForOlderRun", "x")),
        (facts(PLAIN, job(), refused="its last check failed"), Waiting("Queued")),
        (
            facts(refused="its last check failed", attempt=Attempt("QueueFull", "full")),
            Waiting("SiteRefused", "its last check failed"),
        ),
        (facts(attempt=Attempt("QueueFull", "would exceed limit")), Waiting("QueueFull", "would exceed limit")),
    ],
)
def test_what_a_container_waits_for(known: Facts, expected: Waiting) -> None:
    assert states(shown(known)) == [expected]


@pytest.mark.parametrize("state", [JobState.MOVED, JobState.UNKNOWN])
def test_a_state_that_tells_nothing_changes_nothing(state: JobState) -> None:
    stored = PodStatus(reason="Held", containers=(ContainerStatus("main", Waiting("Held")),))

    assert shown(facts(pod(status=stored), job(report(state)))) == stored


def test_nothing_is_said_before_anything_is_known() -> None:
    assert shown(facts()) == PodStatus()
    assert shown(facts(submitting=True)) == PodStatus()


def test_a_container_between_two_runs() -> None:
    again = pod(restart_policy="OnFailure")
    seen = shown(facts(again, RUNNING, life=life(began(), exits=(left(7),))))

    assert seen.phase == "Running"
    assert seen.containers == (
        ContainerStatus(
            "main",
            Waiting("CrashLoopBackOff", "exited with code 7; the container will be restarted"),
            last=Terminated(7, "Error", started=T + 11, finished=T + 50),
        ),
    )
    second = shown(facts(again, RUNNING, life=life(began(restart=1, time=T + 60), exits=(left(7),))))
    assert second.containers == (
        ContainerStatus(
            "main",
            Running(T + 60),
            last=Terminated(7, "Error", started=T + 11, finished=T + 50),
            restarts=1,
            ready=True,
            started=True,
        ),
    )


def test_a_container_that_a_probe_has_ended_runs_again_whatever_its_code() -> None:
    again = pod(restart_policy="OnFailure")
    seen = shown(facts(again, RUNNING, life=life(began(), exits=(left(0, again="yes"),))))

    assert states(seen) == [Waiting("CrashLoopBackOff", "exited with code 0; the container will be restarted")]


NOT_FOUND = 'FATAL:   "solver": executable file not found in $PATH'


def test_a_container_that_could_not_be_started() -> None:
    never = left(127, reason="CreateContainerError", message=NOT_FOUND)
    record = job(over(status=127))

    seen = shown(facts(PLAIN, record, life=life(began(), ended(127), exits=(never,)), inspected=T + 900.0), T + 900)

    assert seen.phase == "Failed"
    assert states(seen) == [Terminated(127, "CreateContainerError", 0, NOT_FOUND, T + 11, T + 50)]


def test_a_container_that_could_not_be_started_and_is_tried_again() -> None:
    never = left(125, reason="ErrImagePull", message="no space left on device")

    seen = shown(facts(pod(restart_policy="OnFailure"), RUNNING, life=life(began(), exits=(never,))))

    assert states(seen) == [Waiting("ErrImagePull", "no space left on device; the container will be restarted")]


@pytest.mark.parametrize(
    ("message", "said", "containers", "expected"),
    [
        ("", "why", 1, "why"),
        (NOT_FOUND, "why", 1, f"{NOT_FOUND}: why"),
        ("", "x" * 4096, 3, "x" * 4096),
        ("", "x" * 4096, 4, "x" * 3072),
        ("", "é" * 2048, 5, "é" * 1228),  # 12 KiB by five is 2457 bytes; no half a letter
    ],
)
def test_a_program_s_last_word(message: str, said: str, containers: int, expected: str) -> None:
    main = pod(*[(name, MAIN) for name in ("main", "b", "c", "d", "e")[:containers]])
    exits = (left(7, reason="CreateContainerError" if message else "", message=message, said=said),)

    seen = shown(
        facts(main, job(over(status=7)), life=life(began(), ended(7), exits=exits), inspected=T + 900.0), T + 900
    )

    assert isinstance(seen.containers[0].state, Terminated)
    assert seen.containers[0].state.message == expected


def test_the_last_word_of_a_run_before() -> None:
    exits = (left(7, said="why"),)

    seen = shown(facts(pod(restart_policy="OnFailure"), RUNNING, life=life(began(), exits=exits)))

    assert states(seen) == [Waiting("CrashLoopBackOff", "exited with code 7; the container will be restarted")]
    assert seen.containers[0].last == Terminated(7, "Error", 0, "why", T + 11, T + 50)


def test_a_suspended_job_runs_on_paper() -> None:
    suspended = facts(PLAIN, job(report(JobState.SUSPENDED, reason="preempted")), life=life(began()))
    seen = shown(suspended)

    assert seen.phase == "Running"
    assert seen.condition(CONDITION_SUSPENDED) == Condition("Suspended", "True", NOW, "Suspended", "preempted")
    after = shown(facts(pod(status=seen), RUNNING, life=life(began())), NOW + 50)
    assert after.condition(CONDITION_SUSPENDED) == Condition("Suspended", "False", NOW + 50, "Resumed")


def test_a_job_that_was_queued_again_is_still_running_to_kubernetes() -> None:
    seen = shown(facts(PLAIN, RUNNING, life=life(began())))
    again = shown(facts(pod(status=seen), job(report(JobState.QUEUED)), life=life(began())))

    assert (again.phase, states(again)) == ("Running", [Waiting("Requeued")])


@pytest.mark.parametrize(
    ("record", "found", "expected"),
    [
        (
            over(Verdict.MEMORY, -27),
            life(began(), exits=(left(137),)),
            Terminated(137, "OOMKilled", 9, "", T + 11, T + 50),
        ),
        (over(Verdict.MEMORY, -27), life(exits=(left(0),)), Terminated(0, "OOMKilled", 0, "", T + 11, T + 50)),
        (
            over(Verdict.MEMORY, -27),
            life(began()),
            Terminated(
                137, "OOMKilled", 9, "the Pod ended before this container's exit code was recorded", T + 12, T + 60
            ),
        ),
        (
            over(Verdict.WALLTIME, -29),
            life(began(), exits=(left(143),)),
            Terminated(143, "DeadlineExceeded", 15, "", T + 11, T + 50),
        ),
        (over(Verdict.DELETED, 271), life(exits=(left(143),)), Terminated(143, "JobDeleted", 15, "", T + 11, T + 50)),
        (over(Verdict.DELETED, 271), life(exits=(left(0),)), Terminated(0, "JobDeleted", 0, "", T + 11, T + 50)),
        (
            over(Verdict.DELETED, 265),
            life(began()),
            Terminated(
                137, "JobDeleted", 9, "the Pod ended before this container's exit code was recorded", T + 12, T + 60
            ),
        ),
        (over(status=3), life(began(), exits=(left(3),)), Terminated(3, "Error", 0, "", T + 11, T + 50)),
        (
            over(status=124),
            life(began(), exits=(left(0, deadline=True),)),
            Terminated(0, "DeadlineExceeded", 0, "", T + 11, T + 50),
        ),
        (
            over(status=1),
            life(began(), exited(code=1), ended(1)),
            Terminated(1, "Error", 0, "", T + 12, T + 50),
        ),
    ],
)
def test_how_a_container_ended(record: object, found: Life, expected: Terminated) -> None:
    known = facts(PLAIN, job(record), life=found, inspected=T + 900.0)  # type: ignore[arg-type]

    assert states(shown(known, T + 900)) == [expected]


@pytest.mark.parametrize(
    ("verdict", "code", "first", "last"),
    [
        (Verdict.MEMORY, 137, "Error", "OOMKilled"),
        (Verdict.MEMORY, 0, "Completed", "OOMKilled"),
        (Verdict.WALLTIME, 143, "Error", "DeadlineExceeded"),
        (Verdict.DELETED, 143, "Error", "JobDeleted"),
        (Verdict.DELETED, 0, "Completed", "JobDeleted"),
        (Verdict.NODE_LOST, 137, "Error", "Error"),
    ],
)
def test_a_verdict_that_comes_after_the_exit_file_names_the_end(
    verdict: Verdict, code: int, first: str, last: str
) -> None:
    """The file is seen at once, and the batch system's record up to a cycle later."""
    found = life(began(), exits=(left(code),))
    seen = shown(facts(PLAIN, RUNNING, life=found, inspected=T + 90.0), T + 90)
    known = facts(pod(status=seen), job(over(verdict, 1)), life=found, inspected=T + 900.0)
    then = shown(known, T + 900)

    assert states(seen) == [Terminated(code, first, max(0, code - 128), "", T + 11, T + 50)]
    assert states(then) == [Terminated(code, last, max(0, code - 128), "", T + 11, T + 50)]


def test_a_deletion_names_only_the_containers_that_it_has_ended() -> None:
    """What had ended by itself before, well or not, has its own reason."""
    two = pod(("early", MAIN), ("late", MAIN))
    early = left(3, "early", finished=T + 20)
    killed, caught = (life(exits=(early, left(code, "late"))) for code in (143, 1))

    for found in (killed, caught):
        known = facts(two, job(over(Verdict.DELETED, 271)), life=found, inspected=T + 900.0)
        ended = [state for state in states(shown(known, T + 900)) if isinstance(state, Terminated)]
        assert [state.reason for state in ended] == ["Error", "JobDeleted"]


def test_a_memory_kill_sets_the_condition_that_policies_match() -> None:
    known = facts(PLAIN, job(over(Verdict.MEMORY, -27)), life=ALL_WELL)
    assert shown(known).holds(CONDITION_MEMORY)


def test_containers_of_a_pod_that_was_refused_wait_for_ever() -> None:
    refused = Attempt("Refused", "Unknown queue", final=True)
    seen = shown(facts(THREE, attempt=refused, staged=False))

    assert (seen.phase, seen.reason, seen.message) == ("Failed", "Refused", "Unknown queue")
    assert states(seen) == [Waiting("Refused")] * 3
    assert seen.started is None


def test_times_lie_between_the_pod_s_creation_and_now() -> None:
    early = life(began(time=T - 500), exits=())
    assert states(shown(facts(PLAIN, RUNNING, life=early))) == [Running(T)]
    late = life(exits=(left(0, started=T + 5000, finished=T + 4000),))
    assert states(shown(facts(PLAIN, job(over()), life=late, inspected=NOW + 0.0), NOW)) == [
        Terminated(0, "Completed", started=NOW, finished=NOW)
    ]


def test_a_time_that_was_clamped_does_not_move_with_now() -> None:
    ahead = facts(PLAIN, RUNNING, life=life(began(time=T + 5000)))
    first = shown(ahead)

    assert shown(replace(ahead, pod=pod(status=first)), NOW + 100) == first


def test_a_disruption_that_others_have_said_stays() -> None:
    evicted = Condition(CONDITION_DISRUPTION, "True", T, "EvictionByEvictionAPI", "words")
    seen = shown(facts(pod(status=PodStatus(conditions=(evicted,))), RUNNING, life=life(began())))

    assert seen.condition(CONDITION_DISRUPTION) == evicted


# --- whatever is known next -----------------------------------------------------------------------------------------

RECORDS = st.sampled_from(
    [
        None,
        *(report(state) for state in JobState if state is not JobState.FINISHED),
        over(),
        over(status=1),
        over(Verdict.DELETED, 271),
        over(Verdict.NODE_LOST, -20),
        over(Verdict.MEMORY, 0),
    ]
)


def what_is_known(code: int) -> st.SearchStrategy[dict[str, Any]]:
    """One moment of a Pod whose main container exits with this code: a run's files are written once."""
    notes = [
        began("prepare"),
        exited("prepare"),
        began("proxy"),
        began("main"),
        exited("main", code),
        ended(0),
        ended(1),
    ]
    exits = [left(0, "prepare"), left(code, "main"), left(9, "proxy")]
    return st.builds(
        lambda record, notes, exits, claim: {
            "jobs": (job(record),),
            "life": life(*notes, exits=tuple(exits), claim=claim),
        },
        RECORDS,
        st.lists(st.sampled_from(notes), max_size=5),
        st.lists(st.sampled_from(exits), max_size=3),
        st.sampled_from([b"7.pbs.1\n", b"", b"cancelled\n"]),
    )


@given(
    steps=st.sampled_from([0, 1]).flatmap(lambda code: st.lists(what_is_known(code), min_size=2, max_size=5)),
    policy=st.sampled_from(["Never", "OnFailure"]),
    waits=st.lists(st.sampled_from([1, 30, 500]), min_size=5, max_size=5),
)
def test_what_has_been_said_is_not_taken_back(steps: list[dict[str, Any]], policy: str, waits: list[int]) -> None:
    """Whatever is known next, in whatever order: the API server would take the next status."""
    view = replace(THREE, restart_policy=policy)
    now = NOW
    for known, wait in zip(steps, waits, strict=False):
        before = view.status
        after = shown(facts(view, **known, inspected=now + 0.0, looked=True, staged=True, noted="7.pbs"), now)
        _check_transition(before, after, policy)
        assert (
            shown(
                facts(
                    replace(view, status=after), **known, inspected=now + 0.0, looked=True, staged=True, noted="7.pbs"
                ),
                now,
            )
            == after
        ), "said again, it is the same"
        view = replace(view, status=after)
        now += wait


def _check_transition(before: PodStatus, after: PodStatus, policy: str) -> None:
    if before.terminal:
        assert after == before
    assert not (before.phase == "Running" and after.phase == "Pending")
    if after.phase == "Succeeded":
        codes = [one.state.code for one in after.containers if isinstance(one.state, Terminated)]
        assert codes == [0]
    for was in (*before.init_containers, *before.containers):
        now = after.container(was.name)
        assert now is not None
        assert now.restarts >= was.restarts
        never_again = policy == "Never" or (isinstance(was.state, Terminated) and was.state.code == 0)
        if isinstance(was.state, Terminated) and never_again and was.name != "proxy":
            assert isinstance(now.state, Terminated)
            assert replace(now.state, reason=was.state.reason) == was.state
            assert now.state.reason in {was.state.reason, "OOMKilled", "DeadlineExceeded", "JobDeleted"}, (
                "named by a verdict that came later"
            )
