"""Whole plans: what is known of a Pod, and what is then done."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.hpc import JobState, Verdict
from router.names import (
    CONDITION_DISRUPTION,
    CONDITION_NODE_LOST,
    CONDITION_READY,
    KEY_EXIT,
    KEY_JOB_ID,
    KEY_QUEUE_NOW,
    KEY_RESOURCES_USED,
)
from router.pod.life import Note
from router.pod.status import Condition, ContainerStatus, PodStatus, Running, Terminated, Waiting
from router.pod.view import departed
from router.reconcile.model import (
    Adopt,
    Ask,
    Attempt,
    Collect,
    Delete,
    Facts,
    Inspect,
    Job,
    Look,
    Plan,
    Release,
    Seal,
    Signal,
    Submit,
    Take,
    Tell,
)
from router.reconcile.planning import plan
from router.reconcile.waiting import spread
from router.workload.model import ContainerKind
from tests.reconcile.given import (
    ALL_WELL,
    NOTHING,
    PLAIN,
    TERMS,
    UID,
    T,
    began,
    deleted,
    ended,
    exited,
    facts,
    job,
    left,
    life,
    over,
    pod,
    report,
)

NOW = T + 110
LISTEN = spread(UID, TERMS.listen)
"""Between two looks for the sign of life of the Pod's script."""
NOTED = pod(job_id="7.pbs")
QUEUED = job(report(JobState.QUEUED))
RUNNING = job(report(JobState.RUNNING, started=T + 10))
SEALED = life(claim=b"cancelled\n")


def actions(known: Facts, now: float = NOW) -> tuple[object, ...]:
    """What a plan does, without Events."""
    return tuple(one for one in plan(known, TERMS, now).actions if not isinstance(one, Tell))


# --- submission -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (facts(staged=None), (Submit(fresh=True),)),
        (facts(staged=False), (Submit(fresh=True),)),
        (facts(submitting=True), ()),
        (facts(reachable=False), ()),
        (facts(older=("batch job 6.pbs may still run",)), ()),
        (facts(refused="its last check failed"), ()),
        (facts(attempt=Attempt("QueueFull", "", not_before=NOW + 1)), ()),
        (facts(attempt=Attempt("QueueFull", "", not_before=NOW)), (Submit(fresh=True),)),
        (facts(staged=True), (Inspect(),)),
        (facts(staged=True, inspected=NOW), (Look(),)),
        (facts(staged=True, inspected=NOW, reachable=False), ()),
        (facts(staged=True, inspected=NOW, looked=True), (Submit(fresh=False),)),
        (facts(staged=True, inspected=NOW, looked=True, older=("x",)), ()),
        (facts(staged=True, inspected=NOW, refused="x"), (Look(),)),
        (facts(staged=True, inspected=NOW, looked=True, refused="x"), ()),
        (facts(pod(), Job("7.pbs"), noted=""), (Adopt("7.pbs"), Ask(("7.pbs",)))),
        (facts(pod(), Job("7.pbs")), (Ask(("7.pbs",)),)),
        (facts(pod(), Job("7.pbs"), refused="x"), (Ask(("7.pbs",)),)),
        (facts(pod(), Job("7.pbs"), reachable=False), ()),
        (facts(pod(), Job("7.pbs"), inspected=None), (Ask(("7.pbs",)), Inspect())),
        # Of a job that an agent which has just begun knows from the list alone: another one may have the claim.
        (facts(pod(), job(report(JobState.QUEUED)), noted="", staged=None, inspected=None), (Inspect(),)),
    ],
)
def test_how_a_pod_gets_its_one_job(known: Facts, expected: tuple[object, ...]) -> None:
    assert actions(known) == expected


def test_a_pod_without_a_job_controller_is_never_run() -> None:
    made = plan(facts(pod(job="", job_uid="", owner="")), TERMS, NOW)

    assert made.status is not None
    assert (made.status.phase, made.status.reason) == ("Failed", "NotVerified")
    assert [type(one) for one in made.actions] == [Tell]


def test_a_run_of_a_pod_that_was_taken_from_its_job_is_read_before_it_is_ended() -> None:
    """Else it would count as over while its batch job uses its grace period."""
    taken = pod(job="", job_uid="", owner="")

    assert actions(facts(taken, Job("7.pbs"), staged=True, inspected=None))[0] == Inspect()


# --- a whole way, status by status ----------------------------------------------------------------------------------

SCHEDULED = Condition("PodScheduled", "True", T)


def _conditions(*ready: object) -> tuple[Condition, ...]:
    return (
        SCHEDULED,
        Condition("Initialized", "True", NOW),
        Condition("ContainersReady", *ready),  # type: ignore[arg-type]
        Condition("Ready", *ready),  # type: ignore[arg-type]
    )


UNREADY = ("False", NOW, "ContainersNotReady", "containers with unready status: [main]")


def test_a_pod_that_waits_says_so_in_the_batch_system_s_words() -> None:
    known = facts(PLAIN, job(report(JobState.HELD, reason="Held by  admin")))

    assert plan(known, TERMS, NOW) == Plan(
        actions=(
            Tell("Normal", "Submitted", "Batch job 7.pbs in queue batch of site hpc1"),
            Tell("Warning", "Held", "Held by admin"),
        ),
        annotations={KEY_JOB_ID: "7.pbs"},
        status=PodStatus(
            phase="Pending",
            reason="Held",
            message="Held by admin",
            conditions=(
                *_conditions(*UNREADY),
                Condition("batchgate.dev/Queued", "True", NOW, "Held", "Held by admin"),
            ),
            containers=(ContainerStatus("main", Waiting("Held", "Held by admin")),),
        ),
    )


def test_a_pod_that_runs() -> None:
    made = plan(facts(NOTED, RUNNING, life=life(began(time=T + 12))), TERMS, NOW)

    assert made == Plan(
        actions=(Tell("Normal", "Started", "Batch job 7.pbs has started on n1"),),
        status=PodStatus(
            phase="Running",
            started=T + 10,
            conditions=_conditions("True", NOW),
            containers=(ContainerStatus("main", Running(T + 12), ready=True, started=True),),
        ),
        again_at=T + 100 + LISTEN,
    )


def test_a_start_names_all_nodes_that_the_batch_system_tells() -> None:
    """The script knows its own alone."""
    runs = job(report(JobState.RUNNING, started=T + 10, hosts="n1/0*4+n2/0*4"))
    known = facts(NOTED, runs, life=life(began(time=T + 12)))

    told = (Tell("Normal", "Started", "Batch job 7.pbs has started on n1/0*4+n2/0*4"),)
    assert plan(known, TERMS, NOW).actions == told


def test_a_pod_that_has_ended_well() -> None:
    record = over(used={"walltime": "00:00:50", "mem": "1kb"})
    known = facts(NOTED, job(record), life=ALL_WELL)

    assert actions(known) == (Collect(),)
    assert plan(replace(known, collecting_since=NOW - 1), TERMS, NOW).status is None
    made = plan(replace(known, collecting_since=NOW - 1, collected=True), TERMS, NOW)
    assert made == Plan(
        actions=(Tell("Normal", "Started", "Batch job 7.pbs has started on n1"),),
        annotations={KEY_EXIT: "0", KEY_RESOURCES_USED: '{"mem": "1kb", "walltime": "00:00:50"}'},
        status=PodStatus(
            phase="Succeeded",
            started=T + 10,
            conditions=(
                SCHEDULED,
                Condition("Initialized", "True", NOW, "PodCompleted"),
                Condition("ContainersReady", "False", NOW, "PodCompleted"),
                Condition("Ready", "False", NOW, "PodCompleted"),
            ),
            containers=(ContainerStatus("main", Terminated(0, "Completed", started=T + 11, finished=T + 50)),),
        ),
    )


def test_results_are_not_waited_for_for_ever() -> None:
    known = facts(NOTED, job(over()), life=ALL_WELL, collecting_since=NOW)

    assert plan(known, TERMS, NOW + 1).again_at == NOW + TERMS.collect_patience
    made = plan(known, TERMS, NOW + TERMS.collect_patience)
    assert made.status is not None
    assert made.status.phase == "Succeeded"


def test_what_is_as_it_should_be_is_not_written_again() -> None:
    known = facts(NOTED, RUNNING, life=life(began(time=T + 12)))
    first = plan(known, TERMS, NOW)
    assert first.status is not None

    again = plan(replace(known, pod=replace(NOTED, status=first.status)), TERMS, NOW + 500)

    assert again == Plan(again_at=T + 100 + LISTEN)


def test_a_scheduler_s_new_words_are_written_once_a_while() -> None:
    known = facts(NOTED, job(report(JobState.QUEUED, reason="one reason")))
    status = plan(known, TERMS, NOW).status
    assert status is not None
    known = facts(replace(NOTED, status=status), job(report(JobState.QUEUED, reason="another")), written_at=float(NOW))

    assert plan(known, TERMS, NOW + 1) == Plan(again_at=NOW + TERMS.words_interval)
    later = plan(known, TERMS, NOW + TERMS.words_interval)
    assert later.status is not None
    assert later.status.message == "another"
    assert later.actions == (Tell("Normal", "Queued", "another"),)


def test_a_job_that_has_moved_is_noted() -> None:
    made = plan(facts(NOTED, job(report(JobState.QUEUED, queue="long"))), TERMS, NOW)

    assert made.annotations == {KEY_QUEUE_NOW: "long"}


# --- the claim ------------------------------------------------------------------------------------------------------

SECOND = Job("9.pbs", report(JobState.QUEUED, "9.pbs"), heard=T)


def test_before_the_claim_is_anybody_s_no_job_is_deleted() -> None:
    assert actions(facts(NOTED, QUEUED, SECOND)) == ()


def test_the_job_with_the_claim_is_followed_and_every_other_deleted() -> None:
    claimed = life(began(), claim=b"9.pbs.1\n")
    second = replace(SECOND, report=report(JobState.RUNNING, "9.pbs"))

    assert actions(facts(NOTED, QUEUED, second, life=claimed)) == (Adopt("9.pbs"), Delete("7.pbs"))


def test_a_deletion_is_tried_again_at_longer_and_longer_intervals() -> None:
    known = facts(NOTED, RUNNING, replace(SECOND, deletes=3, deleted_at=float(NOW)), life=life(began()))

    assert actions(known, NOW + 7) == ()
    assert plan(known, TERMS, NOW + 7).again_at == NOW + 8
    assert actions(known, NOW + 8) == (Ask(("9.pbs",)), Delete("9.pbs"))


def test_a_note_makes_the_claim_be_read() -> None:
    known = facts(NOTED, RUNNING, life=life(began(), claim=b""), inspected=T + 50.0)

    assert actions(known) == (Inspect(),)


def test_the_note_of_an_end_makes_the_exit_file_be_read() -> None:
    known = facts(NOTED, RUNNING, life=life(began(), exited()), inspected=T + 50.0)

    assert actions(known) == (Inspect(),)
    assert actions(replace(known, inspected=float(NOW))) == ()
    assert plan(replace(known, inspected=float(NOW)), TERMS, NOW).again_at == NOW + 1


# --- deletion -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        # Nothing was ever submitted, as far as is known: its directory tells.
        (facts(deleted(), staged=None), (Inspect(),)),
        (facts(deleted(), staged=True, inspected=NOW), (Seal(), Look())),
        (facts(deleted(), staged=True, inspected=NOW, reachable=False), (Seal(),)),
        # Queued: sealed first, then deleted.
        (facts(deleted(), QUEUED), (Seal(),)),
        (facts(deleted(), QUEUED, life=SEALED), (Delete("7.pbs"),)),
        (facts(deleted(), job(), life=SEALED), (Ask(("7.pbs",)),)),
        # Running: the script alone, then the job.
        (facts(deleted(), RUNNING, life=life(began())), (Signal("7.pbs"),)),
        (facts(deleted(grace=0), RUNNING, life=life(began())), (Delete("7.pbs"),)),
        (facts(deleted(), RUNNING, life=life(began()), reachable=False), ()),
        (
            facts(deleted(), RUNNING, life=life(began()), signals=1, signalled_at=NOW - 1.0, signalled_last=NOW - 1.0),
            (),
        ),
        (
            facts(deleted(), RUNNING, life=life(began()), signals=1, signalled_at=NOW - 2.0, signalled_last=NOW - 2.0),
            (Ask(("7.pbs",)), Signal("7.pbs")),
        ),
        (
            facts(deleted(), RUNNING, life=life(began()), signals=9, signalled_at=NOW - 35.0, signalled_last=NOW - 9.0),
            (Delete("7.pbs"),),
        ),
        (facts(deleted(), job(report(JobState.EXITING)), life=life(began())), ()),
        # Started again by the batch system, though told not to.
        (facts(deleted(), QUEUED, life=life(began())), (Delete("7.pbs"),)),
        # While a submission is under way nobody knows what there is.
        (facts(deleted(), submitting=True), ()),
    ],
)
def test_how_a_deleted_pod_is_brought_to_its_end(known: Facts, expected: tuple[object, ...]) -> None:
    known = replace(known, pod=replace(known.pod, job_id="7.pbs" if known.jobs else ""))

    assert actions(known) == expected


ENDED = PodStatus(
    phase="Failed",
    started=T + 10,
    conditions=(Condition(CONDITION_READY, "False", T, "PodFailed"),),
    containers=(ContainerStatus("main", Terminated(137, "Error")),),
)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (facts(deleted(status=ENDED), collected=True), (Release(),)),
        (facts(deleted(status=ENDED), collected=True, releases=1, released_at=NOW - 1.0), ()),
        (facts(deleted(status=ENDED), collected=True, releases=1, released_at=NOW - 2.0), (Release(),)),
        (facts(deleted(grace=0, status=ENDED), collected=True), ()),
        (facts(deleted(grace=0, finalizers=False, status=ENDED), collected=True), (Release(),)),
        (facts(replace(deleted(grace=0, finalizers=False, status=ENDED), deleted_at=NOW), collected=True), ()),
        (facts(deleted(status=ENDED)), (Collect(),)),
        (facts(deleted(status=ENDED), collecting_since=T), (Release(),)),
        (facts(pod(status=ENDED), collected=True), ()),
        (facts(deleted(status=replace(ENDED, started=None))), (Release(),)),
    ],
    ids=[
        "deleted",
        "just released",
        "released in vain",
        "finalizers hold it",
        "cut off in the middle",
        "others delete it now",
        "results first",
        "results are late",
        "not deleted",
        "never ran",
    ],
)
def test_a_pod_is_let_go_only_when_its_end_is_written(known: Facts, expected: tuple[object, ...]) -> None:
    made = plan(known, TERMS, NOW)

    assert (made.actions, made.status, made.over) == (expected, None, True)


LINGER = TERMS.linger
LINGERS = job(report(), heard=NOW - 1.0)
AFTER = NOW - LINGER - 10


@pytest.mark.parametrize(
    ("one", "since", "expected"),
    [
        (LINGERS, NOW - LINGER + 10, ()),
        (job(report(), heard=AFTER), AFTER, (Ask(("7.pbs",)),)),
        (LINGERS, AFTER, (Delete("7.pbs"),)),
        (replace(LINGERS, deletes=1, deleted_at=NOW - 1.0), AFTER, ()),
        (replace(LINGERS, deletes=1, deleted_at=NOW - 2.0), AFTER, (Ask(("7.pbs",)), Delete("7.pbs"))),
        (replace(LINGERS, deletes=3, deleted_at=NOW - 60.0), AFTER, (Ask(("7.pbs",)), Delete("7.pbs", force=True))),
        (job(report(JobState.EXITING), heard=NOW - 1.0), AFTER, (Delete("7.pbs", force=True),)),
        (job(report(JobState.SUSPENDED), heard=NOW - 1.0), AFTER, (Delete("7.pbs"),)),
        (job(over(), heard=NOW - 1.0), AFTER, ()),
        (replace(LINGERS, unknown_since=NOW, unknown_last=NOW), AFTER, ()),
    ],
    ids=["soon", "unheard", "late", "just deleted", "again", "force", "exiting", "suspended", "over", "unknown"],
)
def test_a_job_that_lingers_after_its_end_is_deleted(one: Job, since: float, expected: tuple[object, ...]) -> None:
    """The script has said its last word, the Pod's end is written, and the batch system does not end the job."""
    known = facts(pod(status=ENDED, job_id="7.pbs"), one, life=ALL_WELL, collected=True, ended_seen=since)
    known = replace(known, pod=replace(known.pod, exit="0", used="{}") if one.finished else known.pod)

    made = plan(known, TERMS, NOW)

    assert (made.actions, made.status, made.over) == (expected, None, True)
    assert plan(replace(known, reachable=False), TERMS, NOW).actions == ()


def test_a_restarted_agent_knows_since_when_a_job_lingers() -> None:
    long_ago = replace(ENDED, conditions=(Condition(CONDITION_READY, "False", int(AFTER), "PodFailed"),))
    lately = replace(ENDED, conditions=(Condition(CONDITION_READY, "False", int(NOW) - 10, "PodFailed"),))

    assert plan(facts(pod(status=long_ago, job_id="7.pbs"), LINGERS, collected=True), TERMS, NOW).actions == (
        Delete("7.pbs"),
    )
    made = plan(facts(pod(status=lately, job_id="7.pbs"), LINGERS, collected=True), TERMS, NOW)
    assert (made.actions, made.again_at) == ((), int(NOW) - 10 + LINGER)


def test_what_lingers_of_a_pod_that_is_gone_is_not_over() -> None:
    gone = departed(uid=UID, job_uid="job-uid", index="0", job_id="7.pbs")
    known = facts(gone, LINGERS, life=ALL_WELL, ended_seen=AFTER)

    assert plan(known, TERMS, NOW) == Plan((Delete("7.pbs"),), again_at=NOW + TERMS.retry)
    assert plan(replace(known, jobs=(job(over()),)), TERMS, NOW) == Plan(over=True)


def test_a_terminal_status_of_somebody_else_s_does_not_end_the_job() -> None:
    """The garbage collector of a Node that is gone writes Failed, whatever runs."""
    stored = PodStatus(phase="Failed", started=T + 10, containers=(ContainerStatus("main", Running(T + 12)),))
    made = plan(facts(pod(status=stored, job_id="7.pbs"), RUNNING, life=life(began())), TERMS, NOW)

    assert made == Plan(actions=(Signal("7.pbs"),), again_at=NOW + TERMS.retry)


def test_a_terminal_status_is_never_rewritten() -> None:
    known = facts(pod(status=ENDED, job_id="7.pbs"), job(over()), life=ALL_WELL, collected=True)

    assert plan(known, TERMS, NOW).status is None


# --- what is lost ---------------------------------------------------------------------------------------------------

GONE = job(report(), unknown_since=T + 200.0, unknown_last=T + 200.0)


@pytest.mark.parametrize(
    ("known", "now", "expected"),
    [
        # The first answer "unknown id": nothing, until ten minutes later.
        (facts(NOTED, GONE, life=life(began()), inspected=T + 201.0), T + 205, ()),
        # Meanwhile it is seen whether the script is alive.
        (facts(NOTED, GONE, life=life(began()), inspected=T + 201.0), T + 376, (Inspect(),)),
        (facts(NOTED, GONE, life=life(began()), inspected=T + 799.0), T + 800, (Ask(("7.pbs",)),)),
        (facts(NOTED, GONE, life=life(began()), inspected=T + 799.0, reachable=False), T + 800, ()),
        # It is not: a second answer half a minute after the first is enough.
        (facts(NOTED, GONE, life=life(began(), silence=180), inspected=T + 229.0), T + 229, ()),
        (facts(NOTED, GONE, life=life(began(), silence=180), inspected=T + 229.0), T + 230, (Ask(("7.pbs",)),)),
        (
            facts(NOTED, replace(GONE, unknown_last=T + 230.0), life=life(began(), silence=180), inspected=T + 229.0),
            T + 230,
            (Take("7.pbs"),),
        ),
        # But not of one that was suspended.
        (
            facts(
                NOTED,
                replace(GONE, report=report(JobState.SUSPENDED), unknown_last=T + 230.0),
                life=life(began(), silence=180),
                inspected=T + 229.0,
            ),
            T + 230,
            (),
        ),
        # The second: is the script alive?
        (
            facts(NOTED, replace(GONE, unknown_last=T + 800.0), life=life(began()), inspected=T + 201.0),
            T + 801,
            (Inspect(),),
        ),
        (
            facts(NOTED, replace(GONE, unknown_last=T + 800.0), life=life(began()), inspected=T + 801.0),
            T + 801,
            (),
        ),
        # It is silent: its claim is taken, and only then it is lost.
        (
            facts(NOTED, replace(GONE, unknown_last=T + 800.0), life=life(began(), silence=180), inspected=T + 801.0),
            T + 801,
            (Take("7.pbs"),),
        ),
        # Deleted for us, and no longer known since: it has ended. Where the deletion was refused, that is no sign of it.
        (
            facts(
                NOTED,
                replace(GONE, deletes=1, deleted_at=T + 190.0, agreed_at=T + 190.0),
                life=life(began(), exits=(left(143),)),
                inspected=T + 201.0,
                collected=True,
            ),
            T + 202,
            (),
        ),
        (
            facts(
                NOTED,
                replace(GONE, deletes=1, deleted_at=T + 190.0, unknown_last=T + 230.0),
                life=life(began(), silence=180),
                inspected=T + 230.0,
            ),
            T + 230,
            (Take("7.pbs"),),
        ),
        # Without a history a job that was ending is over as soon as it is not known.
        (
            facts(
                NOTED,
                replace(GONE, report=report(JobState.EXITING)),
                life=life(began(), exits=(left(),)),
                inspected=T + 201.0,
                collected=True,
            ),
            T + 202,
            (),
        ),
    ],
)
def test_absence_is_no_proof(known: Facts, now: float, expected: tuple[object, ...]) -> None:
    assert actions(known, now) == expected


def test_a_job_is_lost_with_proof() -> None:
    taken = replace(life(began(), silence=180), cancelled=True)
    known = facts(NOTED, replace(GONE, unknown_last=T + 800.0), life=taken, inspected=T + 801.0, collected=True)

    status = plan(known, TERMS, T + 802).status

    assert status is not None
    assert (status.phase, status.reason) == ("Failed", "JobLost")
    assert status.holds(CONDITION_DISRUPTION)
    assert status.containers[0].state == Terminated(
        137,
        "ContainerStatusUnknown",
        9,
        "the Pod ended before this container's exit code was recorded",
        T + 12,
        T + 802,
    )


def test_after_so_many_losses_a_loss_is_a_failure() -> None:
    taken = replace(life(began(), silence=180), cancelled=True)
    known = facts(NOTED, replace(GONE, unknown_last=T + 800.0), life=taken, inspected=T + 801.0, collected=True)

    status = plan(replace(known, disruptions=TERMS.disruptions), TERMS, T + 802).status

    assert status is not None
    assert not status.holds(CONDITION_DISRUPTION)


@pytest.mark.parametrize(
    ("state", "silence", "fields", "now", "expected"),
    [
        # Looked for every ten minutes or more.
        (JobState.RUNNING, 5, {}, T + 700, (False, (), T + 100 + LISTEN)),
        (JobState.RUNNING, 5, {}, T + 100 + LISTEN, (False, (Inspect(),), T + 102 + LISTEN)),
        # Every minute while it is missed, and once the job was to end.
        (JobState.RUNNING, 180, {}, T + 159, (True, (), T + 161.0)),
        (JobState.RUNNING, 180, {}, T + 160, (True, (Inspect(),), T + 162.0)),
        (JobState.EXITING, 180, {}, T + 150, (True, (), T + 160.0)),
        (JobState.RUNNING, 5, {"signals": 1}, T + 160, (False, (Inspect(),), T + 162.0)),
        # A suspended script gives none.
        (JobState.SUSPENDED, 180, {}, T + 800, (False, (), None)),
    ],
)
def test_a_silent_script_says_that_its_node_is_lost_whatever_the_batch_system_says(
    state: JobState, silence: float, fields: dict[str, Any], now: float, expected: tuple[object, ...]
) -> None:
    known = facts(NOTED, job(report(state)), life=life(began(), silence=silence), inspected=T + 100.0, **fields)

    made = plan(known, TERMS, now)

    assert made.status is not None
    looks = tuple(one for one in made.actions if isinstance(one, Inspect))
    assert (made.status.holds(CONDITION_NODE_LOST), looks, made.again_at) == expected


def test_looks_for_signs_of_life_are_spread_over_half_as_long_again() -> None:
    every = sorted(spread(f"00000000-0000-4000-8000-{number:012}", 600) for number in range(1000))

    assert 600 <= every[0] < 610
    assert 890 < every[-1] < 900
    assert max(later - before for before, later in pairwise(every)) < 5


def test_a_lost_node_is_said_and_waited_for() -> None:
    lost = job(over(Verdict.NODE_LOST, -20))
    known = facts(NOTED, lost, life=life(began(), silence=10), inspected=T + 100.0)

    made = plan(known, TERMS, NOW)

    assert made.status is not None
    assert made.status.phase == "Running"
    assert made.status.holds(CONDITION_NODE_LOST)
    assert made.again_at == T + 100 + 170
    assert [one for one in made.actions if not isinstance(one, Tell)] == []


# --- the end of the script and the batch system's record ------------------------------------------------------------


def test_a_script_that_has_ended_makes_the_record_be_asked_for_at_once() -> None:
    known = facts(NOTED, replace(RUNNING, heard=T + 60.0), life=ALL_WELL, ended_seen=float(NOW))

    made = plan(known, TERMS, NOW)

    assert Ask(("7.pbs",)) in made.actions
    assert made.again_at == NOW + 1


@pytest.mark.parametrize("reachable", [True, False])
def test_without_a_record_the_files_decide_after_a_while(reachable: bool) -> None:
    known = facts(NOTED, RUNNING, life=ALL_WELL, ended_seen=float(NOW), reachable=reachable, collected=True)

    assert plan(known, TERMS, NOW + TERMS.record_patience - 1).status is not None
    late = plan(known, TERMS, NOW + TERMS.record_patience)
    assert late.status is not None
    assert late.status.phase == "Succeeded"


def test_where_the_batch_system_forgets_at_once_the_files_decide_at_once() -> None:
    forgotten = replace(RUNNING, unknown_since=NOW + 1.0, unknown_last=NOW + 1.0)
    known = facts(NOTED, forgotten, life=ALL_WELL, ended_seen=float(NOW), inspected=NOW + 0.5, collected=True)

    made = plan(known, TERMS, NOW + 1)

    assert made.status is not None
    assert made.status.phase == "Succeeded"


def test_files_that_come_late_are_waited_for() -> None:
    """The record is there, the exit file is not: on a network file system that takes a minute."""
    known = facts(NOTED, job(over(), over_since=float(NOW)), life=life(began(), ended()), inspected=float(NOW))

    made = plan(known, TERMS, NOW)
    assert [one for one in made.actions if not isinstance(one, Tell)] == []
    assert made.again_at == NOW + 1
    assert Inspect() in plan(known, TERMS, NOW + 1).actions
    final = plan(replace(known, inspected=NOW + TERMS.fs_delay, collected=True), TERMS, NOW + TERMS.fs_delay).status
    assert final is not None
    assert (final.phase, final.reason) == ("Failed", "JobFailed")


@pytest.mark.parametrize("end", [(), (ended(),)], ids=["no end note", "end note"])
def test_the_exit_code_of_a_sidecar_is_waited_for(end: tuple[Note, ...]) -> None:
    """The containers that count are over, and the agent has not read yet how the sidecar ended."""
    two = pod(("proxy", ContainerKind.SIDECAR), ("main", ContainerKind.MAIN), job_id="7.pbs")
    notes = (began("proxy"), began(), *end)
    known = facts(two, job(over(), over_since=float(NOW)), life=life(*notes, exits=(left(),)), inspected=NOW - 5.0)

    made = plan(known, TERMS, NOW + 1)

    assert Inspect() in made.actions
    assert made.status is None or made.status.phase == "Running"
    late = replace(known, inspected=NOW + TERMS.fs_delay, collected=True)
    for found, code in ((late, 137), (replace(late, life=life(*notes, exits=(left(), left(5, "proxy")))), 5)):
        final = plan(found, TERMS, NOW + TERMS.fs_delay).status
        assert final is not None
        (proxy,) = final.init_containers
        assert (final.phase, isinstance(proxy.state, Terminated) and proxy.state.code) == ("Succeeded", code)


PLANNED = st.builds(
    facts,
    st.sampled_from([PLAIN, NOTED, deleted(), deleted(grace=0), pod(status=ENDED), deleted(status=ENDED)]),
    st.sampled_from([QUEUED, RUNNING, GONE, job(), job(over()), job(over(Verdict.NODE_LOST, -20))]),
    life=st.sampled_from(
        [NOTHING, SEALED, ALL_WELL, life(began()), life(began(), exited()), life(began(), silence=400)]
    ),
    reachable=st.booleans(),
    looked=st.booleans(),
    staged=st.sampled_from([None, True, False]),
    inspected=st.sampled_from([None, T + 50.0, T + 100.0, T + 800.0]),
    ended_seen=st.sampled_from([None, T + 60.0]),
    collecting_since=st.sampled_from([None, T + 60.0]),
    collected=st.booleans(),
    signals=st.just(0),
    looked_at=st.sampled_from([None, T + 70.0]),
    sealed_at=st.sampled_from([None, T + 60.0]),
    unsealed_since=st.sampled_from([None, T + 60.0]),
    attempt=st.sampled_from([None, Attempt("QueueFull", "", not_before=T + 900.0), Attempt("Refused", "", final=True)]),
)


@given(known=PLANNED, now=st.integers(T + 100, T + 2000))
def test_every_plan_does_something_or_rests(known: Facts, now: int) -> None:
    """A plan that asks to be made again at once, without having done anything, would turn the agent in circles."""
    made = plan(known, TERMS, now)

    acts = [one for one in made.actions if not isinstance(one, Tell)]
    if not acts and made.status is None and not made.annotations:
        assert made.again_at is None or made.again_at > now
    if not known.reachable:
        assert not any(isinstance(one, Look | Ask | Submit | Signal | Delete) for one in acts)
