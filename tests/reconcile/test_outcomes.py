"""What each answer from outside changes in what is known."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from router.hpc import JobState
from router.pod.life import Exit
from router.pod.view import departed
from router.reconcile import outcomes
from router.reconcile.model import Attempt, Facts, Inspection, Job, Line
from tests.reconcile.given import PLAIN, UID, T, ended, facts, job, note, over, pod, report

NOW = T + 500.0
EXIT_FILE = json.dumps({"code": 3, "signal": 0, "started": T, "finished": T + 1, "deadline": False}).encode() + b"\n"


def test_a_pod_never_seen_before() -> None:
    assert outcomes.first(PLAIN) == Facts(PLAIN)


def test_a_pod_with_a_job_id_on_it() -> None:
    noted = pod(job_id="7.pbs")

    assert outcomes.first(noted) == Facts(noted, jobs=(Job("7.pbs"),), noted="7.pbs", staged=True)


def test_what_is_left_of_a_pod_needs_no_search() -> None:
    assert outcomes.first(departed(uid=UID, job_uid="j", index="0", job_id="7.pbs")).looked


def test_a_directory_is_read() -> None:
    inspection = Inspection(
        exists=True,
        claim=b"7.pbs.1\n",
        claimed_at=T + 10,
        alive=T + 400,
        clock=T + 410,
        exits=(("main.0", EXIT_FILE), (".main.1", b"half"), ("main.1", b"{")),
        job_id=b"7.pbs\n",
    )

    known, words = outcomes.inspected(outcomes.first(PLAIN), inspection, NOW)

    assert (known.staged, known.inspected, known.noted, known.jobs) == (True, NOW, "7.pbs", (Job("7.pbs"),))
    assert (known.life.owner, known.life.silence) == ("7.pbs", 10)
    assert known.life.exits == (("main", (Exit(0, 3, 0, T, T + 1, deadline=False),)),)
    assert len(words) == 2


@pytest.mark.parametrize(
    ("jobs", "kept"),
    [
        ((), False),
        ((Job("7.pbs"),), False),
        ((job(report(JobState.QUEUED)),), True),
        ((job(report(JobState.HELD)),), False),
        ((job(report(JobState.RUNNING)),), False),
        ((job(over()),), False),
        ((job(over()), job(report(JobState.QUEUED, "8.pbs"))), True),
    ],
)
def test_only_a_pod_whose_job_waits_keeps_the_line(jobs: tuple[Job, ...], kept: bool) -> None:
    """A line names thousands of jobs, and Pods that have ended stay for long."""
    line = Line({"7.pbs": 1})
    before = facts(PLAIN, *jobs)

    for known in (before, replace(before, line=line)):
        found = outcomes.surroundings(known, reachable=True, older=(), disruptions=0, line=line)

        assert found.line == (line if kept else None)


@pytest.mark.parametrize("words", ["-u root", "nonsense", "71[].vm", "7.vm@evil", "٧.vm", "7.vm 8.vm", "@evil"])
def test_what_is_no_id_names_no_job(words: str) -> None:
    """The directory is its user's, and annotations can be changed by whoever may change the Pod."""
    noted = Inspection(exists=True, claim=f"{words}.1\n".encode(), clock=T, job_id=f"{words}\n".encode())
    first = outcomes.first(PLAIN)

    assert outcomes.inspected(first, noted, NOW)[0].jobs == ()
    assert outcomes.first(pod(job_id=words)) == Facts(pod(job_id=words))


def test_a_directory_that_is_not_there() -> None:
    known, words = outcomes.inspected(outcomes.first(PLAIN), Inspection(exists=False), NOW)

    assert (known, words) == (replace(outcomes.first(PLAIN), staged=False, inspected=NOW), ())


def test_the_agent_s_own_claim_is_no_sign_of_life() -> None:
    taken = Inspection(exists=True, claim=b"cancelled\n", claimed_at=T + 400, alive=T + 20, clock=T + 410)

    known, _ = outcomes.inspected(outcomes.first(PLAIN), taken, NOW)

    assert (known.life.cancelled, known.life.silence) == (True, 390)


def test_the_job_of_a_claim_is_known_from_then_on() -> None:
    known = outcomes.sealed(outcomes.first(PLAIN), b"9.pbs.1\n", NOW)

    assert known.jobs == (Job("9.pbs"),)


def test_the_end_is_seen_once() -> None:
    known = outcomes.sealed(outcomes.first(PLAIN), b"7.pbs.1\n", NOW)
    known = outcomes.noticed(known, [note("started", T), ended()], NOW + 1)
    known = outcomes.noticed(known, [ended()], NOW + 50)

    assert known.ended_seen == NOW + 1


def test_a_job_with_another_s_name_or_directory_is_gone() -> None:
    """Batch systems use their ids again."""
    mine = facts(PLAIN, Job("7.pbs"))
    for other in (
        report(name="else", directory=""),
        report(directory=f"/work/pods/job-uid/0/{UID[:-1]}2"),
        report(directory="/home/eve"),
    ):
        known = outcomes.reported(mine, other, NOW)
        assert known.jobs == (Job("7.pbs", unknown_since=NOW, unknown_last=NOW, heard=NOW),)
    assert outcomes.reported(facts(), report(directory="/home/eve"), NOW) == facts()


def test_a_job_is_known_by_its_directory_whatever_a_hook_calls_it() -> None:
    renamed = report(name="site-prefix", directory=f"/work/pods/job-uid/0/{UID}/")

    assert outcomes.reported(facts(), renamed, NOW).jobs == (Job("7.pbs", renamed, heard=NOW),)


def test_a_record_of_the_end_outlives_the_batch_system_s_memory() -> None:
    known = outcomes.reported(facts(), over(), NOW)

    assert known.jobs == (Job("7.pbs", over(), over_since=NOW, heard=NOW),)
    assert outcomes.unknown(known, "7.pbs", NOW + 5) == known
    assert outcomes.reported(known, over(), NOW + 5).jobs[0].over_since == NOW


def test_answers_that_there_is_no_such_job_are_dated() -> None:
    known = outcomes.unknown(facts(PLAIN, Job("7.pbs", report(JobState.QUEUED))), "7.pbs", NOW)
    known = outcomes.unknown(known, "7.pbs", NOW + 600)

    assert (known.jobs[0].unknown_since, known.jobs[0].unknown_last) == (NOW, NOW + 600)
    found = outcomes.reported(known, report(), NOW + 700)
    assert (found.jobs[0].unknown_since, found.jobs[0].unknown_last) == (None, None)


def test_submissions() -> None:
    later = Attempt("QueueFull", "words", not_before=NOW)
    begun = outcomes.submitting(facts(attempt=later))
    assert (begun.submitting, begun.attempt) == (True, None)

    done = outcomes.submitted(begun, "7.pbs")
    assert (done.submitting, done.noted, done.staged, done.looked) == (False, "7.pbs", True, True)
    assert done.jobs == (Job("7.pbs"),)

    full = outcomes.held_back(begun, later, staged=True)
    assert (full.submitting, full.attempt, full.staged, full.looked) == (False, later, True, True)

    early = outcomes.held_back(replace(begun, staged=None), later, staged=False)
    assert (early.staged, early.looked) == (None, False)

    unclear = outcomes.unclear(begun, later)
    assert (unclear.submitting, unclear.staged, unclear.looked) == (False, True, False)

    found = outcomes.found_directory(begun)
    assert (found.submitting, found.staged, found.looked) == (False, True, False)


def test_tries_are_counted() -> None:
    known = outcomes.signalled(outcomes.signalled(facts(PLAIN, Job("7.pbs")), NOW), NOW + 2)
    assert (known.signals, known.signalled_at, known.signalled_last) == (2, NOW, NOW + 2)

    known = outcomes.deleted(known, "7.pbs", NOW, agreed=True)
    known = outcomes.deleted(known, "7.pbs", NOW + 3, agreed=False)
    assert (known.jobs[0].deletes, known.jobs[0].deleted_at, known.jobs[0].agreed_at) == (2, NOW + 3, NOW)

    known = outcomes.collecting(outcomes.collecting(known, NOW), NOW + 9)
    assert (known.collecting_since, known.collected) == (NOW, False)
    assert outcomes.collected(known).collected


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (b"", ""),
        (b"module: not found\nslurmstepd: error: \x1b[31mexecve()\x1b[0m: No such file\n\n", None),
        (b"\xff\xfe" + b"a " * 600, "a " * 149 + "a"),
    ],
    ids=["none", "two lines", "long, and no text"],
)
def test_the_last_words_of_a_job_that_never_began(output: bytes, words: str | None) -> None:
    known, _ = outcomes.inspected(outcomes.first(PLAIN), Inspection(exists=True, output=output), NOW)

    told = "module: not found slurmstepd: error: [31mexecve()[0m: No such file" if words is None else words
    assert known.output == told
    assert outcomes.inspected(known, Inspection(exists=True), NOW)[0].output == told
