"""A claim that its user has overwritten: the Pod ends all the same, when nothing of it can run any more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.hpc import JobState, Verdict
from router.pod.life import Life, with_alive
from router.reconcile import outcomes
from router.reconcile.ending import judge
from router.reconcile.model import Ask, Attempt, Delete, Facts, Inspect, Job, Look, Seal, Signal, Tell
from router.reconcile.planning import plan
from router.reconcile.verdicts import Ending
from router.reconcile.waiting import Wait
from tests.reconcile.given import NOTHING, PLAIN, TERMS, T, deleted, facts, job, over, report
from tests.reconcile.spoilt import assert_gone
from tests.reconcile.world import Directory

SINCE = T + 200.0
NOW = SINCE + TERMS.fs_delay
WORDS = (
    'the file "claim" in the Pod\'s directory was overwritten, so it is unknown whether the Pod has run; as the batch '
    "system has no running job of the Pod, the Pod counts as cancelled or failed"
)
BREATHING = with_alive(Life(), NOW - 30, NOW)
GONE = job(report(), unknown_since=NOW - 600, unknown_last=NOW)


def spoilt(*jobs: Job, view: object = None, **fields: object) -> Facts:
    """A deleted Pod whose claim is nobody's and could not be taken for so long as files take to be seen."""
    usual = {"looked_at": SINCE + 1, "sealed_at": NOW, "unsealed_since": SINCE, "inspected": NOW, "staged": True}
    return facts(view or deleted(), *jobs, **{**usual, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (spoilt(job(over(Verdict.DELETED))), Ending("Cancelled", f"job 7.pbs: {WORDS}")),
        (spoilt(job(over())), Ending("Cancelled", f"job 7.pbs: {WORDS}")),
        (spoilt(job(over()), view=PLAIN), Ending("JobFailed", f"job 7.pbs: {WORDS}")),
        (spoilt(), Ending("Cancelled", WORDS)),
        (spoilt(GONE), Ending("Cancelled", f"job 7.pbs: {WORDS}")),
        # Deleted for us, and no longer known since: over.
        (
            spoilt(replace(GONE, unknown_since=NOW, deletes=1, deleted_at=NOW - 5, agreed_at=NOW - 5)),
            Ending("Cancelled", f"job 7.pbs: {WORDS}"),
        ),
        (
            spoilt(attempt=Attempt("Refused", "Unknown queue", final=True)),
            Ending("Refused", "Unknown queue", never_ran=True),
        ),
    ],
)
def test_it_ends_by_the_word_of_the_batch_system(known: Facts, expected: Ending) -> None:
    assert judge(known, TERMS, NOW) == expected


SEALING = NOW + TERMS.retry_most


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        # Nobody can be asked, or has been asked since.
        (spoilt(job(over()), reachable=False), Wait((), SEALING)),
        (spoilt(job(over()), looked_at=SINCE - 1), Wait((Look(),), SEALING)),
        (spoilt(job()), Wait((Ask(("7.pbs",)),), NOW + TERMS.retry)),
        # Something may be alive.
        (spoilt(job(report())), Wait((), SEALING)),
        (spoilt(job(report(JobState.QUEUED))), Wait((), SEALING)),
        (spoilt(replace(GONE, unknown_since=NOW)), Wait((), SEALING)),
        (spoilt(GONE, life=BREATHING), Wait((), SEALING, node_lost=True)),
        (spoilt(GONE, life=BREATHING, inspected=None), Wait((Inspect(),), SEALING, node_lost=True)),
        (spoilt(job(over(Verdict.NODE_LOST)), life=BREATHING), Wait((), SEALING, node_lost=True)),
        # It may only not be seen yet, or have been mended.
        (spoilt(job(over()), unsealed_since=NOW - 2, sealed_at=NOW - 2), Wait((Seal(),), NOW + TERMS.retry)),
        (spoilt(job(over()), sealed_at=NOW - 61, reachable=False), Wait((Seal(),), NOW + TERMS.retry)),
    ],
)
def test_until_then_it_is_waited_for(known: Facts, expected: Wait) -> None:
    assert judge(known, TERMS, NOW) == expected


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (job(report()), (Signal("7.pbs"),)),
        (job(report(JobState.QUEUED)), (Delete("7.pbs"),)),
        (job(report(JobState.EXITING)), ()),
    ],
)
def test_its_job_is_ended_as_one_that_may_run(one: Job, expected: tuple[object, ...]) -> None:
    assert [act for act in plan(spoilt(one), TERMS, NOW).actions if not isinstance(act, Tell)] == list(expected)
    early = replace(spoilt(one), unsealed_since=NOW - 1)
    assert [act for act in plan(early, TERMS, NOW).actions if not isinstance(act, Tell)] == []


def test_its_end_is_told_in_an_event() -> None:
    known = spoilt(job(over(Verdict.DELETED)), collected=True)

    made = plan(known, TERMS, NOW)

    assert Tell("Warning", "Cancelled", f"job 7.pbs: {WORDS}") in made.actions
    assert made.status is not None
    assert (made.status.phase, made.status.reason) == ("Failed", "Cancelled")


def test_since_when_it_could_not_be_taken() -> None:
    known = outcomes.sealed(facts(deleted(), job(over())), b"rubbish", SINCE)
    again = outcomes.sealed(known, b"", SINCE + 9)
    mended = outcomes.sealed(again, b"cancelled\n", SINCE + 20)

    assert (known.life, known.unsealed_since) == (NOTHING, SINCE)
    assert (again.unsealed_since, again.sealed_at) == (SINCE, SINCE + 9)
    assert (mended.unsealed_since, mended.life.sealed) == (None, True)


@pytest.mark.parametrize("history", [True, False])
@pytest.mark.parametrize("claim", ["rubbish", "1.pbs.rubbish"], ids=["which ends the script", "in which it goes on"])
@pytest.mark.parametrize("restarted", [True, False])
def test_a_deleted_pod_goes(history: bool, claim: str, restarted: bool) -> None:
    def overwrite(directory: Directory) -> None:
        directory.claim = claim

    assert_gone(overwrite, history=history, restarted=restarted, early=restarted)
