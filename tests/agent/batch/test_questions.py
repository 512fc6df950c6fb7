"""What a cycle asks after the list, and whose job a report is of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.agent.batch.questions import (
    MOST_WORDS,
    Questions,
    is_same,
    number_of,
    place_of,
    questions,
    uid_of,
    with_figures,
)
from router.hpc import JobReport, JobState
from router.reconcile.model import Job

Q, R, H, E, F = JobState.QUEUED, JobState.RUNNING, JobState.HELD, JobState.EXITING, JobState.FINISHED
S = JobState.SUSPENDED
ROOT = "/scratch/ada/hpc1.0a1b2c3d"
NOW = 10_000.0


def job(job_id: str, state: JobState | None = None, **more: Any) -> Job:
    """A job as it was last reported; ``state`` None: never."""
    report = None if state is None else JobReport(job_id, state, "?")
    return Job(job_id, report, **more)


@pytest.mark.parametrize(
    ("listed", "jobs", "expected"),
    [
        ({}, [], Questions()),
        ({"1.s": R}, [job("1.s", R)], Questions()),
        ({"1.s": R}, [job("1.s", Q)], Questions(changed=("1.s",))),
        ({"1.s": R}, [job("1.s")], Questions(changed=("1.s",))),
        ({"1.s": R}, [job("1.s", R, unknown_since=1, unknown_last=9_999)], Questions(changed=("1.s",))),
        ({}, [job("1.s", R)], Questions(gone=("1.s",))),
        ({}, [job("1.s")], Questions(gone=("1.s",))),
        ({}, [job("1.s", F)], Questions()),
        ({}, [job("1.s", R, unknown_since=1, unknown_last=NOW - 1)], Questions()),
        ({}, [job("1.s", R, unknown_since=1, unknown_last=NOW - 61)], Questions(gone=("1.s",))),
        ({"1.s": R, "2.s": Q, "3.s": R}, [job("2.s", H)], Questions(new=("1.s",), changed=("2.s",))),
        ({"1.s": Q, "2.s": H}, [job("1.s", Q), job("2.s", H)], Questions(words=("2.s", "1.s"))),
    ],
)
def test_details_only_of_what_changed_left_or_is_new(
    listed: dict[str, JobState], jobs: list[Job], expected: Questions
) -> None:
    assert questions(listed, jobs, others={"3.s"}, asked={"1.s": 9_000, "2.s": 8_000}, now=NOW, told={}) == expected


def test_what_running_jobs_use_is_asked_where_somebody_wants_it_and_the_list_lacks_it() -> None:
    numbers = range(300)
    listed = {f"{number}.s": R for number in numbers}
    jobs = [job(job_id, R) for job_id in listed]
    asked = {f"{number}.s": NOW - number for number in numbers}
    shown = {"299.s": JobReport("299.s", R, "R")}

    found = questions(listed, jobs, others=(), asked=asked, now=NOW, told=shown)
    assert found == Questions()

    assert with_figures(found, jobs, shown, asked, NOW) == Questions(
        figures=tuple(f"{number}.s" for number in range(298, 98, -1))
    )


@pytest.mark.parametrize(
    ("found", "one", "ago", "expected"),
    [
        (Questions(), job("1.s", R), 30, Questions(figures=("1.s",))),
        (Questions(), job("1.s", R), 29, Questions()),
        (Questions(), job("1.s", S), 30, Questions()),
        (Questions(), job("1.s"), 30, Questions()),
        (Questions(gone=("1.s",)), job("1.s", R), 30, Questions(gone=("1.s",))),
    ],
)
def test_who_is_asked_about_for_figures(found: Questions, one: Job, ago: float, expected: Questions) -> None:
    assert with_figures(found, [one], {}, {"1.s": NOW - ago}, NOW) == expected


def test_no_more_than_so_many_are_asked_for_words() -> None:
    listed = {f"{number}.s": Q for number in range(1000)}
    jobs = [job(job_id, Q) for job_id in listed]
    asked = {f"{number}.s": float(number) for number in range(500, 1000)}

    found = questions(listed, jobs, others=(), asked=asked, now=NOW, told={})

    assert len(found.all) == MOST_WORDS
    assert set(found.words) <= {f"{number}.s" for number in range(500)}


def test_of_what_has_no_words_yet_it_is_asked_sooner_and_nobody_is_forgotten() -> None:
    """A new job is told why it waits within a cycle or two, however many have been told already."""
    listed = {f"{number}.s": Q for number in range(3 * MOST_WORDS)}
    jobs = [
        Job(job_id, JobReport(job_id, Q, "Q", reason="" if number % 3 else "Not Running: Not enough nodes"))
        for number, job_id in enumerate(listed)
    ]
    asked: dict[str, float] = dict.fromkeys(listed, NOW)
    rounds = []

    for cycle in range(1, 20):
        rounds.append(set(questions(listed, jobs, others=(), asked=asked, now=NOW, told={}).words))
        asked |= dict.fromkeys(rounds[-1], NOW + 30 * cycle)

    silent = {job.job_id for job in jobs if job.report is not None and not job.report.reason}
    assert rounds[0] | rounds[1] == silent
    assert set().union(*rounds) == set(listed)


SOON = datetime(2026, 11, 24, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (JobReport("1", Q, "PENDING", reason="Priority"), ()),
        (JobReport("1", Q, "PENDING", reason="Resources"), ("1",)),
        (JobReport("1", Q, "PENDING", reason="Priority", expected=SOON), ("1",)),
    ],
)
def test_where_the_list_has_the_words_only_those_that_are_others_now(
    shown: JobReport, expected: tuple[str, ...]
) -> None:
    known = Job("1", JobReport("1", Q, "PENDING", reason="Priority"))

    assert questions({"1": Q}, [known], (), {}, NOW, {"1": shown}) == Questions(words=expected)


def test_ids_that_the_table_has_cut() -> None:
    """Known ones are found by their number; of others only the number can be asked for."""
    listed = {"12345.a-server-with-a-long-na*": R, "7.a-server-with-a-long-name-i*": Q, "8.other*": R}
    jobs = [job("12345.a-server-with-a-long-name.example.org", R)]

    found = questions(listed, jobs, others={"8.other*"}, asked={}, now=NOW, told={})

    assert found == Questions(new=("7",))


@given(st.dictionaries(st.from_regex(r"[0-9]{1,3}\.s", fullmatch=True), st.sampled_from(JobState)))
def test_a_cycle_after_all_was_answered_asks_at_most_for_words(listed: dict[str, JobState]) -> None:
    jobs = [job(job_id, state) for job_id, state in listed.items()]

    found = questions(listed, jobs, others=(), asked={}, now=NOW, told={})

    assert (found.changed, found.gone, set(found.new)) == ((), (), {one.job_id for one in jobs if one.finished})


def test_ids_that_are_the_same() -> None:
    assert is_same("12.ser*", "12.server")
    assert not is_same("12.ser*", "12.sir")
    assert is_same("12.server", "12.server")
    assert not is_same("12.server", "12.server2")
    assert (number_of("12.ser*"), number_of("12[].ser*"), number_of("12.server")) == ("12", "12[]", "12.server")


@pytest.mark.parametrize(
    ("name", "directory", "expected"),
    [
        ("solve-x.0a1b2c3d.pod-uid", f"{ROOT}/pods/job-uid/3/pod-uid", "pod-uid"),
        ("renamed-by-a-hook", f"{ROOT}/pods/job-uid/3/pod-uid/", "pod-uid"),
        ("solve-x.0a1b2c3d.pod-uid", "", "pod-uid"),
        ("d.pod-uid", "", ""),
        ("solve-x.99999999.pod-uid", "", ""),
        ("solve-x.99999999.pod-uid", "/scratch/ada/hpc1.99999999/pods/job-uid/3/pod-uid", ""),
        ("solve-x.0a1b2c3d.pod-uid", "/scratch/ada/hpc2.0a1b2c3d/pods/job-uid/3/pod-uid", ""),
        ("solve-x.0a1b2c3d.pod-uid", "/scratch/ada/hpc1.0a1b2c3d/pods/job-uid/3/pod-uid", "pod-uid"),
        ("solve-x.0a1b2c3d.pod-uid", "/scratch/ada", "pod-uid"),
        ("x", f"{ROOT}/pods/../3/pod-uid", ""),
        ("x", f"{ROOT}/pods/pod-uid", ""),
        ("STDIN", "", ""),
    ],
)
def test_whose_job_it_is(name: str, directory: str, expected: str) -> None:
    report = JobReport("1.s", R, "R", name=name, directory=directory)

    assert uid_of(report, ROOT, "0a1b2c3d") == expected
    if place_of(report, ROOT):
        assert place_of(report, ROOT) == ("job-uid", "3", expected)
