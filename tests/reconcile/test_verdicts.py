"""How a Pod ends, by what the batch system and the files say: a table of whole endings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.hpc import JobReport, JobState, Verdict
from router.names import CONDITION_DELETED, CONDITION_DISRUPTION, CONDITION_MEMORY, CONDITION_WALLTIME
from router.pod.life import Exit, Life, Note, with_claim, with_exit
from router.pod.view import PodView
from router.reconcile.ending import judge
from router.reconcile.files import complete
from router.reconcile.model import Attempt, Facts, Inspect, Job, Take
from router.reconcile.verdicts import Ending
from router.reconcile.waiting import Wait
from tests.reconcile.given import (
    ALL_WELL,
    INIT,
    MAIN,
    NOTHING,
    PLAIN,
    SIDECAR,
    TERMS,
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

LATER = T + 1000
"""Long after all delays for files."""

MPI = pod(profile="openmpi")
THREE = pod(("prepare", INIT), ("proxy", SIDECAR), ("main", MAIN))
OK = Ending(succeeded=True)
FAILED = Ending()
NO_LAST_WORD = life(began(), exited(), exits=(left(),))
"""One container that ran well, and a script that was killed before it could say so."""
TOLD_TO_END = life(began(), ended(143, "signal"), exits=(left(143),))
DELETED_BY = Ending("JobDeleted", "job 7.pbs was deleted in the batch system", CONDITION_DELETED)
TWICE = Ending(
    "JobLost",
    "job 7.pbs was started a second time by the batch system while its script ran, and then ended: CANCELLED",
    CONDITION_DISRUPTION,
)
NOT_BY_ITSELF = life(began(), exited(code=1), ended(1), exits=(left(1),))
"""A script whose container failed, perhaps as one of its processes was killed on another node."""


@pytest.mark.parametrize(
    ("view", "record", "found", "expected"),
    [
        # The script's own end.
        (PLAIN, over(), ALL_WELL, OK),
        (PLAIN, over(status=3), life(began(), exited(code=3), ended(3), exits=(left(3),)), FAILED),
        (PLAIN, over(status=1), ALL_WELL, OK),
        (
            PLAIN,
            over(status=1),
            life(began(), ended(1)),
            Ending("JobFailed", "job 7.pbs ended with exit code 1 before all its containers had ended"),
        ),
        (THREE, over(), life(ended(), exits=(left(0, "prepare"), left(0), left(143, "proxy"))), OK),
        (THREE, over(status=2), life(ended(2), exits=(left(2, "prepare"),)), FAILED),
        (pod(restart_policy="OnFailure"), over(), life(ended(), exits=(left(1), left(0, restart=1))), OK),
        # The script's own deadline.
        (
            PLAIN,
            over(status=124),
            life(began(), ended(124, "deadline"), exits=(left(0, deadline=True),)),
            Ending("DeadlineExceeded", "job 7.pbs was ended at its deadline", CONDITION_WALLTIME),
        ),
        # The batch system's verdict overrules a zero.
        (
            PLAIN,
            over(Verdict.WALLTIME, -29, reason="Job exceeded  walltime"),
            NO_LAST_WORD,
            Ending("DeadlineExceeded", "job 7.pbs exceeded its walltime: Job exceeded walltime", CONDITION_WALLTIME),
        ),
        (
            PLAIN,
            over(Verdict.MEMORY, -27),
            NO_LAST_WORD,
            Ending("OOMKilled", "job 7.pbs exceeded its memory", CONDITION_MEMORY),
        ),
        (
            PLAIN,
            over(Verdict.CPU_TIME, -28),
            life(),
            Ending("CPUTimeExceeded", "job 7.pbs exceeded its CPU time", CONDITION_WALLTIME),
        ),
        (
            PLAIN,
            over(Verdict.DELETED, 271, reason="terminated by root"),
            NO_LAST_WORD,
            Ending("JobDeleted", "job 7.pbs was deleted in the batch system: terminated by root", CONDITION_DELETED),
        ),
        (
            deleted(),
            over(Verdict.DELETED, 271),
            NO_LAST_WORD,
            Ending("Cancelled", "job 7.pbs was cancelled: the Pod was deleted"),
        ),
        (
            PLAIN,
            over(Verdict.NODE_LOST, -20),
            replace(life(began(), exited(), exits=(left(),), silence=400), cancelled=True),
            Ending("NodeFailed", "job 7.pbs was lost with its node", CONDITION_DISRUPTION),
        ),
        (
            PLAIN,
            over(Verdict.PREEMPTED, 143),
            NO_LAST_WORD,
            Ending("Preempted", "job 7.pbs was ended to make room for others", CONDITION_DISRUPTION),
        ),
        (PLAIN, over(Verdict.NEVER_RAN, -2), life(), Ending("JobFailed", "job 7.pbs could not be started")),
        # But not a script that came to its end before anybody told it to end: the batch system forgot that it had ended.
        (PLAIN, over(Verdict.WALLTIME, 0, reason="TimeLimit"), ALL_WELL, OK),
        (PLAIN, over(Verdict.DELETED, None, reason="CANCELLED by 0"), ALL_WELL, OK),
        (PLAIN, over(Verdict.NODE_LOST, None), ALL_WELL, OK),
        # Of a failed one the batch system may know the cause. A process or a step may be killed and the script not.
        (
            PLAIN,
            over(Verdict.WALLTIME, 1),
            NOT_BY_ITSELF,
            Ending("DeadlineExceeded", "job 7.pbs exceeded its walltime", CONDITION_WALLTIME),
        ),
        (
            PLAIN,
            over(Verdict.DELETED, 1),
            NOT_BY_ITSELF,
            Ending("JobDeleted", "job 7.pbs was deleted in the batch system", CONDITION_DELETED),
        ),
        (
            PLAIN,
            over(Verdict.NODE_LOST, 1),
            NOT_BY_ITSELF,
            Ending("NodeFailed", "job 7.pbs was lost with its node", CONDITION_DISRUPTION),
        ),
        (
            PLAIN,
            over(Verdict.MEMORY, 0),
            ALL_WELL,
            Ending("OOMKilled", "job 7.pbs exceeded its memory", CONDITION_MEMORY),
        ),
        (
            PLAIN,
            over(Verdict.CPU_TIME, 0),
            ALL_WELL,
            Ending("CPUTimeExceeded", "job 7.pbs exceeded its CPU time", CONDITION_WALLTIME),
        ),
        (
            PLAIN,
            over(Verdict.PREEMPTED, 0),
            ALL_WELL,
            Ending("Preempted", "job 7.pbs was ended to make room for others", CONDITION_DISRUPTION),
        ),
        # A script that says 0 while its containers' files do not say so proves nothing.
        (
            PLAIN,
            over(Verdict.WALLTIME, 0),
            life(began(), ended()),
            Ending("DeadlineExceeded", "job 7.pbs exceeded its walltime", CONDITION_WALLTIME),
        ),
        # Of ranks on several nodes, those that were told to end may end well while the script is not told.
        (MPI, over(Verdict.WALLTIME, 0, hosts="n1"), ALL_WELL, OK),
        (
            MPI,
            over(Verdict.WALLTIME, 0, hosts="n[1-2]"),
            ALL_WELL,
            Ending("DeadlineExceeded", "job 7.pbs exceeded its walltime", CONDITION_WALLTIME),
        ),
        (
            MPI,
            over(Verdict.NODE_LOST, 0),
            ALL_WELL,
            Ending("NodeFailed", "job 7.pbs was lost with its node", CONDITION_DISRUPTION),
        ),
        (deleted(), over(Verdict.WALLTIME, 0), ALL_WELL, OK),
        (
            pod(restart_policy="OnFailure"),
            over(Verdict.WALLTIME, 0),
            life(began(), ended(), exits=(left(0, again="yes"),)),
            Ending("DeadlineExceeded", "job 7.pbs exceeded its walltime", CONDITION_WALLTIME),
        ),
        (THREE, over(Verdict.DELETED, 0), life(ended(), exits=(left(0, "prepare"), left(0), left(143, "proxy"))), OK),
        # What the agent was told to end never succeeds.
        (
            deleted(),
            over(Verdict.DELETED, 271),
            ALL_WELL,
            Ending("Cancelled", "job 7.pbs was cancelled: the Pod was deleted"),
        ),
        # Nor a start that came after the script's last word, at T + 55: nothing of the Pod was in that one.
        (MPI, over(Verdict.DELETED, None, submitted=T, started=T + 56, hosts="n[1-2]"), ALL_WELL, OK),
        (MPI, over(Verdict.NODE_LOST, None, submitted=T, started=T + 56, hosts="n[1-2]"), ALL_WELL, OK),
        (PLAIN, over(Verdict.NODE_LOST, None, submitted=T, started=T + 56), NOT_BY_ITSELF, FAILED),
        (
            PLAIN,
            over(Verdict.DELETED, None, submitted=T, started=T + 56),
            life(began(), exited(code=3), ended(3), exits=(left(3),)),
            FAILED,
        ),
        (
            PLAIN,
            over(Verdict.DELETED, None, submitted=T, started=T + 56),
            life(began(), ended(143, "signal"), exits=(left(0),)),
            Ending("JobDeleted", "job 7.pbs was told to end by the batch system"),
        ),
        # Nobody deleted what was started again while its script ran, from T + 10 to T + 55: the batch system forgot the
        # start, and the node refused the second one at once.
        (
            PLAIN,
            over(Verdict.DELETED, 143, reason="CANCELLED", submitted=T, started=T + 16, ended=T + 17),
            TOLD_TO_END,
            TWICE,
        ),
        (
            deleted(),
            over(Verdict.DELETED, 143, submitted=T, started=T + 16, ended=T + 17),
            TOLD_TO_END,
            Ending("Cancelled", "job 7.pbs was cancelled: the Pod was deleted"),
        ),
        # A script that failed by itself is not excused.
        (PLAIN, over(Verdict.DELETED, 1, submitted=T, started=T + 16, ended=T + 17), NOT_BY_ITSELF, DELETED_BY),
        # But somebody deleted what had run for longer by the record: the clock of its node is behind.
        (PLAIN, over(Verdict.DELETED, 143, submitted=T, started=T + 16, ended=T + 22), TOLD_TO_END, DELETED_BY),
        (PLAIN, over(Verdict.DELETED, 143, submitted=T, started=T + 15, ended=T + 17), TOLD_TO_END, DELETED_BY),
        # Slurm says of a job that was resized that it was submitted then.
        (PLAIN, over(Verdict.DELETED, 143, submitted=T + 30, started=T + 30, ended=T + 31), TOLD_TO_END, DELETED_BY),
        (PLAIN, over(Verdict.DELETED, 143, submitted=T, started=None, ended=T + 17), TOLD_TO_END, DELETED_BY),
        (
            PLAIN,
            over(Verdict.WALLTIME, 143, submitted=T, started=T + 16, ended=T + 17),
            TOLD_TO_END,
            Ending("DeadlineExceeded", "job 7.pbs exceeded its walltime", CONDITION_WALLTIME),
        ),
        # A script that ended before it was submitted has a clock that says nothing.
        (
            PLAIN,
            over(Verdict.DELETED, None, submitted=T + 56, started=T + 57),
            NOT_BY_ITSELF,
            Ending("JobDeleted", "job 7.pbs was deleted in the batch system", CONDITION_DELETED),
        ),
        # A termination that the script has recorded overrules a zero, too.
        (
            PLAIN,
            over(status=143),
            life(began(), ended(143, "signal"), exits=(left(0),)),
            Ending("JobDeleted", "job 7.pbs was told to end by the batch system"),
        ),
        (
            deleted(),
            over(status=143),
            life(began(), ended(143, "signal"), exits=(left(0),)),
            Ending("Cancelled", "job 7.pbs was cancelled: the Pod was deleted"),
        ),
        (
            PLAIN,
            over(status=143),
            life(began(), ended(143, "lost"), exits=(left(143),)),
            Ending(
                "NodeFailed",
                "job 7.pbs was ended by its script: the Pod's directory could not be reached from the node",
                CONDITION_DISRUPTION,
            ),
        ),
        # A Pod that was deleted when it had already ended well, has ended well.
        (deleted(), over(), ALL_WELL, OK),
        # Files without the script's last word, which could not be written.
        (PLAIN, over(), life(exits=(left(),)), OK),
        (PLAIN, over(status=5), life(exits=(left(5),)), FAILED),
    ],
)
def test_the_end_of_what_has_run(view: PodView, record: object, found: Life, expected: Ending) -> None:
    known = facts(view, job(record), life=found, inspected=LATER)  # type: ignore[arg-type]

    assert judge(known, TERMS, LATER) == expected


@pytest.mark.parametrize(
    ("view", "deletion", "found", "expected"),
    [
        (
            PLAIN,
            True,
            life(began(), ended(143, "signal"), exits=(left(143),)),
            Ending("JobDeleted", "job 7.pbs was deleted in the batch system: by ada", CONDITION_DELETED),
        ),
        (
            PLAIN,
            False,
            life(began(), ended(143, "signal"), exits=(left(143),)),
            Ending("JobDeleted", "job 7.pbs was told to end by the batch system"),
        ),
        (PLAIN, True, ALL_WELL, OK),
        (
            deleted(),
            True,
            life(began(), ended(143, "signal"), exits=(left(143),)),
            Ending("Cancelled", "job 7.pbs was cancelled: the Pod was deleted"),
        ),
    ],
)
def test_a_deletion_is_known_by_the_last_words_of_a_system_that_keeps_no_records(
    view: PodView, deletion: bool, found: Life, expected: Ending
) -> None:
    """A node that is shut down tells its scripts to end, too: only where somebody's deletion is named it is one."""
    last = report(JobState.EXITING, deletion=deletion, reason="by ada")
    forgotten = job(last, unknown_since=T + 70.0, unknown_last=T + 70.0)
    known = facts(view, forgotten, life=found, inspected=LATER, ended_seen=T + 60.0)

    assert judge(known, TERMS, LATER) == expected


DELETED = over(Verdict.DELETED, None, started=None)
SEALED = with_claim(Life(), b"cancelled\n")
RAN_AND_LOST_ITS_CLAIM = [life(claim=b"cancelled\n"), with_exit(SEALED, *left())]
"""A site may remove old files: of a script that had the claim, newer ones are left."""


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (
            facts(PLAIN, job(DELETED), life=SEALED),
            Ending(
                "JobDeleted",
                "job 7.pbs was deleted in the batch system before it had started",
                CONDITION_DELETED,
                never_ran=True,
            ),
        ),
        (
            facts(deleted(), job(DELETED), life=SEALED),
            Ending("Cancelled", "the Pod was deleted before any of its containers had started", never_ran=True),
        ),
        (
            facts(PLAIN, job(over(Verdict.NEVER_RAN, None, reason="afterok failed")), life=SEALED),
            Ending("JobFailed", "job 7.pbs could not be started: afterok failed", CONDITION_DISRUPTION, never_ran=True),
        ),
        (
            facts(PLAIN, job(over(Verdict.ENDED, 75)), life=SEALED),
            Ending(
                "JobFailed",
                "job 7.pbs ended before any container had started (exit code 75)",
                CONDITION_DISRUPTION,
                never_ran=True,
            ),
        ),
        (
            facts(
                PLAIN,
                job(over(Verdict.ENDED, 2, reason="NonZeroExitCode")),
                life=SEALED,
                output="execve(): No such file",
            ),
            Ending(
                "JobFailed",
                "job 7.pbs ended before any container had started (exit code 2): NonZeroExitCode; its output ends: "
                "execve(): No such file",
                CONDITION_DISRUPTION,
                never_ran=True,
            ),
        ),
        # Its own program may have removed the directory: then it has run.
        (
            facts(PLAIN, job(over(status=1, reason="NonZeroExitCode")), staged=False, locked_since=T + 70.0),
            Ending(
                "JobFailed",
                "job 7.pbs ended (exit code 1), and its files are gone, so it is unknown whether it has run: "
                "NonZeroExitCode",
                never_ran=True,
            ),
        ),
        (
            facts(PLAIN, job(over(Verdict.NEVER_RAN, -2)), staged=False, locked_since=T + 70.0),
            Ending("JobFailed", "job 7.pbs could not be started", CONDITION_DISRUPTION, never_ran=True),
        ),
        (
            facts(PLAIN, job(over(Verdict.NODE_LOST, -20)), life=SEALED),
            Ending("NodeFailed", "job 7.pbs was lost with its node", CONDITION_DISRUPTION, never_ran=True),
        ),
        (
            facts(PLAIN, job(unknown_since=T, unknown_last=T + 700), life=SEALED),
            Ending(
                "JobLost",
                "job 7.pbs is not known to the batch system any more, and had not started",
                CONDITION_DISRUPTION,
                never_ran=True,
            ),
        ),
        (
            facts(deleted(), staged=False),
            Ending("Cancelled", "the Pod was deleted before any of its containers had started", never_ran=True),
        ),
        (
            facts(PLAIN, attempt=Attempt("Refused", "Unknown queue", final=True), staged=False),
            Ending("Refused", "Unknown queue", never_ran=True),
        ),
        (
            facts(
                PLAIN, attempt=Attempt("Refused", "Unknown queue", final=True), staged=True, looked=True, life=SEALED
            ),
            Ending("Refused", "Unknown queue", never_ran=True),
        ),
        # Sealed, and the batch system cannot be told: the Pod may go all the same.
        (
            facts(deleted(), job(report(JobState.QUEUED)), life=SEALED, reachable=False),
            Ending("Cancelled", "the Pod was deleted before any of its containers had started", never_ran=True),
        ),
    ],
)
def test_the_end_of_what_has_never_started(known: Facts, expected: Ending) -> None:
    assert judge(known, TERMS, LATER) == expected


@pytest.mark.parametrize("found", RAN_AND_LOST_ITS_CLAIM, ids=["it lived", "a container ended"])
def test_what_has_lived_is_not_excused_as_never_begun(found: Life) -> None:
    words = "job 7.pbs ended (exit code 0), and its files are gone, so it is unknown whether it has run"

    assert judge(facts(PLAIN, job(over()), life=found), TERMS, LATER) == Ending("JobFailed", words, never_ran=True)


@pytest.mark.parametrize(
    ("record", "found"),
    [
        (over(Verdict.DELETED, 271, reason="terminated by root"), ALL_WELL),
        (over(), life(began(), ended(143, "signal"), exits=(left(0),))),
        (over(status=1), life(began(), ended(1))),
    ],
)
def test_a_run_that_the_agent_has_cancelled_itself_ends_with_its_reason(record: JobReport, found: Life) -> None:
    """The batch system's words would name the agent's own account as the one who deleted it."""
    refused = Attempt("NotVerified", "no Job controls it", final=True)
    known = facts(PLAIN, job(record), life=found, attempt=refused, inspected=LATER)

    assert judge(known, TERMS, LATER) == Ending("NotVerified", "job 7.pbs was cancelled: no Job controls it")


@pytest.mark.parametrize(
    "known",
    [
        facts(),
        facts(PLAIN, job(report(JobState.QUEUED))),
        facts(PLAIN, job(report(JobState.HELD))),
        facts(PLAIN, job(report()), life=life(began()), inspected=None),
        facts(PLAIN, job(report(JobState.SUSPENDED)), life=life(began())),
        facts(PLAIN, job(report(JobState.UNKNOWN)), life=life(began())),
        facts(PLAIN, job(), reachable=False),
        facts(PLAIN, job(), life=life(began()), reachable=False),
        facts(PLAIN, submitting=True),
    ],
)
def test_nothing_is_concluded_from_what_goes_on(known: Facts) -> None:
    assert judge(known, TERMS, LATER) == Wait()


@pytest.mark.parametrize("code", [0, 42])
def test_a_container_that_runs_again_whatever_its_code_has_not_ended(code: int) -> None:
    found = [
        complete(facts(PLAIN, job(report()), life=life(began(), exits=(left(code, again=again),))))
        for again in ("", "no", "yes")
    ]

    assert found == [True, True, False]


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.EXITING])
@pytest.mark.parametrize("silence", [5, 400])
def test_nothing_but_a_lost_node_is_concluded_from_silence(state: JobState, silence: float) -> None:
    known = facts(PLAIN, job(report(state)), life=life(began(), silence=silence))

    assert judge(known, TERMS, LATER) == Wait((Inspect(),), LATER + TERMS.retry, node_lost=silence == 400)


CUT = Ending("NodeFailed", "job 7.pbs was lost with its node", CONDITION_DISRUPTION)
"""Of a job whose record says 0, though its script never came to its end."""


def taken(*notes: Note, exits: tuple[tuple[str, Exit], ...] = (), silence: float = 400) -> Life:
    """What a script has left that had the claim, which was taken from it."""
    return replace(life(*notes, exits=exits, silence=silence), cancelled=True)


@pytest.mark.parametrize(
    ("view", "found", "expected"),
    [
        (PLAIN, taken(), CUT),
        (PLAIN, taken(began()), CUT),
        (THREE, taken(began(), exits=(left(0, "prepare"),)), CUT),
        (pod(restart_policy="OnFailure"), taken(began(), exits=(left(1),)), CUT),
        (deleted(), taken(began()), Ending("Cancelled", "job 7.pbs was cancelled: the Pod was deleted")),
        # Every container has ended: only the script's last word is missing.
        (PLAIN, taken(began(), exits=(left(),)), OK),
        (PLAIN, taken(began(), exits=(left(3),)), FAILED),
        # The script's last word is there.
        (
            PLAIN,
            taken(began(), ended()),
            Ending("JobFailed", "job 7.pbs ended with exit code 0 before all its containers had ended"),
        ),
        # Silence, and the claim, are proved first.
        (PLAIN, taken(began(), silence=100), Wait((), LATER + 80, node_lost=True)),
        (PLAIN, life(began(), silence=400), Wait((Take("7.pbs"),), node_lost=True)),
    ],
)
def test_a_job_with_the_status_0_whose_script_never_ended_is_lost(
    view: PodView, found: Life, expected: Ending | Wait
) -> None:
    known = facts(view, job(over()), life=found, inspected=LATER)

    assert judge(known, TERMS, LATER) == expected


@pytest.mark.parametrize(
    ("view", "verdict", "found", "expected"),
    [
        (PLAIN, Verdict.WALLTIME, NO_LAST_WORD, True),
        (PLAIN, Verdict.WALLTIME, life(began(), exited(code=3), exits=(left(3),)), False),
        (PLAIN, Verdict.DELETED, NO_LAST_WORD, True),
        (PLAIN, Verdict.DELETED, life(began(), exited(code=3), exits=(left(3),)), True),
        (deleted(), Verdict.DELETED, NO_LAST_WORD, False),
        (PLAIN, Verdict.MEMORY, NO_LAST_WORD, False),
    ],
)
def test_a_last_word_that_may_overrule_the_record_is_waited_for(
    view: PodView, verdict: Verdict, found: Life, *, expected: bool
) -> None:
    known = facts(view, job(over(verdict), over_since=LATER), life=found, inspected=LATER)

    assert isinstance(judge(known, TERMS, LATER + 10), Wait) == expected
    assert isinstance(judge(replace(known, inspected=LATER + TERMS.fs_delay), TERMS, LATER + 100), Ending)


def test_a_script_without_a_last_word_that_was_started_twice_is_lost_once_it_is_silent() -> None:
    """Slurm kills after 30 s, and a Pod's containers have as long to end."""
    record = over(Verdict.DELETED, 143, reason="CANCELLED", submitted=T, started=T + 16, ended=T + 17)
    silent = facts(PLAIN, job(record), life=taken(began()), inspected=LATER)
    alive = replace(silent, life=life(began()))

    assert isinstance(judge(alive, TERMS, LATER), Wait)
    assert judge(silent, TERMS, LATER) == TWICE
    assert judge(replace(silent, pod=deleted()), TERMS, LATER) == Ending(
        "Cancelled", "job 7.pbs was cancelled: the Pod was deleted"
    )
    assert judge(replace(silent, jobs=(job(replace(record, verdict=Verdict.WALLTIME)),)), TERMS, LATER) == Ending(
        "DeadlineExceeded", "job 7.pbs exceeded its walltime: CANCELLED", CONDITION_WALLTIME
    )


def test_files_of_a_job_with_the_status_0_are_waited_for_before_it_is_lost() -> None:
    known = facts(PLAIN, job(over(), over_since=LATER), life=taken(began()), inspected=LATER)

    assert isinstance(found := judge(known, TERMS, LATER + 10), Wait)
    assert Inspect() in found.actions


def test_a_sealed_pod_waits_for_its_jobs_to_be_gone_where_they_can_be_deleted() -> None:
    known = facts(deleted(), job(report(JobState.QUEUED)), life=SEALED)

    assert judge(known, TERMS, LATER) == Wait()


def test_jobs_are_known_by_the_one_that_the_claim_names() -> None:
    other = Job("9.pbs", report(JobState.QUEUED, "9.pbs"))

    assert judge(facts(PLAIN, other, job(over()), life=ALL_WELL), TERMS, LATER) == OK


def test_notes_of_a_job_without_the_claim_end_nothing() -> None:
    known = facts(PLAIN, job(report()), life=life(ended(), exits=(left(),), claim=b"9.pbs.1\n"))

    assert judge(known, TERMS, LATER) == Wait()
    assert judge(facts(PLAIN, job(report()), life=NOTHING), TERMS, LATER) == Wait()


SHORT = replace(life(began(), exited(), ended(), exits=(left(log=100),)), short=("main.0",))
"""A container that ran well, and of whose log not all is seen."""


@pytest.mark.parametrize(
    "record",
    [over(), report(JobState.EXITING)],
    ids=["with a record", "without one"],
)
def test_a_log_that_is_not_seen_whole_is_waited_for_though_not_for_ever(record: JobReport) -> None:
    known = facts(PLAIN, job(record), life=SHORT, ended_seen=T + 60)
    late = replace(known, inspected=T + 60 + TERMS.fs_delay)
    whole = replace(known, life=replace(SHORT, short=()))

    assert isinstance(waits := judge(known, TERMS, T + 120), Wait)
    assert Inspect() in waits.actions
    assert judge(late, TERMS, LATER) == OK
    assert judge(whole, TERMS, T + 120) == OK


def test_a_job_that_is_silent_and_unknown_is_not_lost_for_a_log_that_somebody_has_cut() -> None:
    found = replace(life(began(), exited(), exits=(left(log=100),), silence=400), short=("main.0",))
    known = facts(PLAIN, job(unknown_since=T + 60, unknown_last=T + 90), life=found)

    assert judge(known, TERMS, T + 120) == OK


def test_an_exit_that_only_a_note_tells_does_not_succeed() -> None:
    """The file could not be written: the script itself then exits with 1."""
    known = facts(PLAIN, job(over(status=1)), life=life(began(), exited(), ended(1)), inspected=LATER)

    assert isinstance(found := judge(known, TERMS, LATER), Ending)
    assert not found.succeeded
