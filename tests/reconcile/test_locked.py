"""A directory that its own Job has replaced or locked: the batch system's word counts, and the Pod ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.hpc import Verdict
from router.pod.life import Life, with_alive, with_claim
from router.reconcile import outcomes
from router.reconcile.ending import judge
from router.reconcile.model import Facts, Inspect, Inspection, Job, Take
from router.reconcile.verdicts import Ending
from router.reconcile.waiting import Wait, spread
from tests.reconcile.given import PLAIN, TERMS, T, deleted, facts, job, over, report
from tests.reconcile.spoilt import assert_gone
from tests.reconcile.world import Directory

OVER = T + 300.0
LATE = OVER + TERMS.fs_delay
WORDS = "job 7.pbs: the job replaced or locked its own directory, so its exit code and logs cannot be read"
RAN = with_alive(with_claim(Life(), b"7.pbs.1\n"), T + 100, T + 103)
LOST = over(Verdict.NODE_LOST)


def ended(found: Job, view: object = PLAIN, **fields: object) -> Facts:
    """A Pod whose script ran, whose directory is locked, and which was read once more after the delay."""
    usual = {"life": RAN, "staged": True, "inspected": LATE, "locked_since": T + 200.0, "looked": True}
    return facts(view, replace(found, over_since=OVER), **{**usual, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (ended(job(over(status=1))), Ending("JobFailed", WORDS)),
        (ended(job(over(status=0))), Ending("JobFailed", WORDS)),
        (ended(job(over(status=1)), deleted()), Ending("Cancelled", "job 7.pbs was cancelled: the Pod was deleted")),
        (
            ended(job(over(Verdict.WALLTIME, -29))),
            Ending("DeadlineExceeded", "job 7.pbs exceeded its walltime", "batchgate.dev/WalltimeExceeded"),
        ),
        # The delay is not over: the files may be there again.
        (ended(job(over(status=1)), inspected=OVER + 5), Wait((Inspect(),), LATE + TERMS.retry / 2)),
        # No claim was ever seen.
        (
            ended(job(over(status=1)), life=Life(), unsealed_since=OVER, sealed_at=LATE, looked_at=LATE),
            Ending("JobFailed", WORDS),
        ),
        # A lost node: without a sign of life to be seen, the time without one counts.
        (
            ended(job(LOST), locked_since=LATE - 10),
            Wait((), LATE - 10 + TERMS.silence, node_lost=True),
        ),
    ],
)
def test_how_it_ends(known: Facts, expected: Ending | Wait) -> None:
    assert judge(known, TERMS, LATE) == expected


def test_a_lost_node_s_pod_ends_after_as_long_as_a_silent_script_s() -> None:
    found = judge(ended(job(LOST)), TERMS, LATE)

    assert isinstance(found, Ending)
    assert found.reason == "NodeFailed"


def test_a_claim_that_cannot_be_taken_is_tried_once() -> None:
    silent = with_alive(RAN, T + 100, LATE)
    known = ended(job(LOST), life=silent, locked_since=None)

    assert judge(known, TERMS, LATE) == Wait((Take("7.pbs"),), node_lost=True)
    assert isinstance(judge(outcomes.untaken(known), TERMS, LATE), Ending)


def test_a_running_job_is_not_ended_by_it() -> None:
    known = ended(job(report()))

    assert judge(known, TERMS, LATE) == Wait((), LATE + spread(known.pod.uid, TERMS.listen))


@pytest.mark.parametrize(
    ("found", "since"),
    [
        (Inspection(exists=True, locked=True), 200.0),
        (Inspection(exists=True), None),
        (Inspection(exists=False, locked=True), 200.0),
        (Inspection(exists=False), None),
    ],
)
def test_since_when(found: Inspection, since: float | None) -> None:
    first, _ = outcomes.inspected(facts(PLAIN), replace(found, locked=since is not None), 200.0)
    second, _ = outcomes.inspected(first, found, 300.0)

    assert second.locked_since == since


@pytest.mark.parametrize("history", [True, False])
@pytest.mark.parametrize("restarted", [True, False])
@pytest.mark.parametrize("early", [True, False], ids=["before it was read", "after it was read"])
def test_a_deleted_pod_goes(history: bool, restarted: bool, early: bool) -> None:
    def lock(directory: Directory) -> None:
        directory.locked = True

    assert_gone(lock, history=history, restarted=restarted, early=early)
