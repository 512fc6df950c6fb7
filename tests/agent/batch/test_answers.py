"""By which words jobs are asked for, and what an answer that does not mention all of them says."""

from __future__ import annotations

import pytest

from router.agent.batch.answers import JobAnswers, followed, halves, unknown_of, word_for
from router.hpc import JobReport, JobState


def report(job_id: str, queue: str = "workq", owner: str = "ada") -> JobReport:
    return JobReport(job_id, JobState.RUNNING, "R", queue=queue, owner=owner)


@pytest.mark.parametrize(
    ("job_id", "word"),
    [("7.vm", "7.vm"), ("7.evil", "7"), ("7.vm.evil", "7"), ("7", "7"), ("7.", "7")],
)
def test_only_servers_that_answers_have_named_are_asked(job_id: str, word: str) -> None:
    assert word_for(job_id, {"vm", "other"}) == word


def test_what_an_answer_says_to_be_unknown() -> None:
    words = {"1.vm": "1.vm", "2.vm": "2.vm", "3.vm": "3.vm", "4.evil": "4", "5.evil": "5", "6.vm": "6", "7": "7"}
    named = {"1.VM.example.org", "2.other", "5.vm", "7.vm"}

    found = unknown_of(words, {"4.vm": report("4.vm"), "6.vm": report("6.vm")}, named)

    assert found == {"1.vm", "4.evil", "5.evil"}


def test_parts() -> None:
    assert halves(["1"]) == [["1"]]
    assert halves(["1", "2", "3"]) == [["1"], ["2", "3"]]


def test_what_another_server_tells_of_jobs_that_were_moved_there() -> None:
    moved = {number: report(number, "workq@two") for number in ("1.vm", "2.vm", "3.vm", "4.vm", "5.vm")}
    here = JobAnswers({**moved, "9.vm": report("9.vm")}, frozenset({"8.vm"}))
    there = JobAnswers(
        {
            "1.vm": report("1.vm", "long"),
            "2.vm": report("2.vm", "long", owner="ben"),
            "3.vm": report("3.vm", "far@three"),
            "9.vm": report("9.vm", "forged"),
        },
        frozenset({"4.vm"}),
    )

    assert followed(here, "two", moved, there) == JobAnswers(
        {"9.vm": report("9.vm"), "1.vm": report("1.vm", "long@two"), "3.vm": report("3.vm", "far@three")},
        frozenset({"4.vm", "8.vm"}),
        frozenset({"2.vm", "5.vm"}),
    )
    assert followed(here, "two", moved, None) == JobAnswers(
        {"9.vm": report("9.vm")}, frozenset({"8.vm"}), frozenset(moved)
    )
