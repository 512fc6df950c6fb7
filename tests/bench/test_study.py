"""What a study tells of jobs that have run."""

from __future__ import annotations

import json
import threading
import time
import xml.etree.ElementTree as ET
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench import slurmlatency, study, studypage, ways
from bench.drawn import Task
from bench.studypage import Point
from router.simulate.play import CLOUD, Run

HAND, THROUGH = "by hand", "through <us>"


def tasks(number: int) -> list[Task]:
    return [Task(one, 0.0, 1.0, 1, 1) for one in range(number)]


def noted(directory: Path, name: str, *moments: str) -> None:
    (directory / name).write_text("".join(f"{one} 99.00\n" for one in moments))


@pytest.mark.parametrize(
    ("begun", "ended", "wrong"),
    [
        ([["1.0"], ["2.0"]], [["3.0"], ["4.0"]], (0, 0, 0)),
        ([["1.0", "5.0"], ["2.0"]], [["6.0"], ["4.0"]], (1, 0, 0)),
        ([["1.0", "5.0"], ["2.0", "7.0"]], [["3.0", "6.0"], ["9.0"]], (1, 1, 0)),
        ([["1.0", "5.0"], ["2.0"]], [["3.0"], ["4.0"]], (0, 1, 0)),
        ([["1.0", "2.0"], ["2.0"]], [["3.0", "4.0"], ["4.0"]], (0, 1, 0)),
    ],
    ids=[
        "each once",
        "one was cut off and began again",
        "one ran twice, one was cut off",
        "one began again after its end",
        "one ran twice at once",
    ],
)
def test_jobs_that_ran_twice_are_seen(
    tmp_path: Path, begun: list[list[str]], ended: list[list[str]], wrong: tuple[int, int, int]
) -> None:
    for number, (begins, ends) in enumerate(zip(begun, ended, strict=True)):
        noted(tmp_path, f"{number}.begun", *begins)
        noted(tmp_path, f"{number}.ended", *ends)

    assert ways.wrong(tasks(2), tmp_path) == wrong


def test_a_pod_that_failed_although_its_container_came_to_its_end_is_told(tmp_path: Path) -> None:
    noted(tmp_path, "0.ended", "112.0")
    noted(tmp_path, "2.ended", "113.0")

    def pod(number: int, phase: str, **status: str) -> dict[str, Any]:
        labels = {"batch.kubernetes.io/job-name": f"task-{number}"}
        return {"metadata": {"labels": labels}, "status": {"phase": phase, **status}}

    pods = [
        pod(0, "Failed", reason="DeadlineExceeded"),
        pod(1, "Failed", reason="DeadlineExceeded"),
        pod(1, "Failed"),
        pod(2, "Failed"),
        pod(2, "Succeeded"),
    ]

    assert list(ways.failures(pods, tasks(3), tmp_path)) == [
        "failed Pods: 2 DeadlineExceeded; Jobs that failed: 2 for good, 1 though the container came to its end",
        "failed Pods: 2 without a reason; Jobs that failed: 1 for good, 0 though the container came to its end",
    ]


def test_only_a_job_s_first_batch_job_tells_how_long_it_took_to_be_queued() -> None:
    since = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)

    def line(pod: str, after: float, message: str = "submitted") -> dict[str, Any]:
        at = datetime.fromtimestamp(since + 100 + after, UTC).isoformat()
        return {"message": message, "pod": f"default/{pod}", "time": at}

    lines = [line("task-0-abcde", 2), line("task-0-abcde", 3, "started"), line("task-0-fghij", 200)]
    given = {0: ways.Given(100.0, 100.2, "task-0")}

    assert list(ways._queued(lines, given)) == [pytest.approx(2, abs=0.1)]


def test_a_job_that_failed_is_not_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "_SELDOM", 0.0)
    noted(tmp_path, "0.ended", "112.0")

    ways.await_end(tasks(2), tmp_path, lambda: {"task-1"})


@pytest.mark.parametrize("later", [(), ("113.0",)], ids=["it ended last", "it began once more"])
def test_a_job_runs_from_its_last_beginning_before_its_end(tmp_path: Path, later: tuple[str, ...]) -> None:
    noted(tmp_path, "0.begun", "101.5", "110.0", *later)
    noted(tmp_path, "0.ended", "112.0")
    given = {0: ways.Given(100.0, 100.2, "7.pbs")}

    found = ways.runs_of(tasks(1), tmp_path, given, {0: "site/batch"})

    assert found == (Run(0, "site/batch", 100.0, 110.0, 112.0, 1, cut=False),)


def test_victims_are_killed_by_turns_and_each_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "_AWAY", 0.0)
    seen: list[str] = []
    enough = threading.Event()

    def note(what: str) -> None:
        seen.append(what)
        if len(seen) >= 6:
            enough.set()

    victims = [study.Victim(partial(note, f"kill {one}"), partial(note, f"start {one}")) for one in ("agent", "server")]

    with study._kills(victims, lambda: seen.append("repair"), 0.001):
        assert enough.wait(60)

    *turns, last = seen
    assert last == "repair"
    assert turns[:6] == ["kill agent", "start agent", "kill server", "start server", "kill agent", "start agent"]
    assert len(turns) % 2 == 0, "what was killed last has been started again"


def test_a_seed_that_is_studied_again_replaces_its_figures_and_leaves_the_others(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    first, second, again = points((HAND, 1, 21.0)), points((HAND, 2, 22.0)), points((HAND, 1, 25.0))

    for seed, found in ((2, second), (1, first), (1, again)):
        study._keep(file, seed, found)

    assert studypage.read(file.read_text()) == [*again, *second]


def points(*spans: tuple[str, int, float]) -> list[Point]:
    """For each way and seed a job of this many seconds on one of two cores, and one in the cloud."""
    found = []
    for way, seed, span in spans:
        runs = [Run(0, "site/batch", 0.0, 1.0, span, 1, cut=False), Run(1, CLOUD, 0.0, 0.0, 10.0, 1, cut=False)]
        found.append(studypage.point(way, seed, runs, 2, [0.1, 0.3], (1, 0, 2)))
    return found


def test_the_figures_of_a_way() -> None:
    [found] = points((HAND, 1, 21.0))

    assert {name: value for name, value in asdict(found).items() if name != "way"} == pytest.approx(
        {
            "seed": 1,
            "wait": 0.5,
            "wait_p95": 1.0,
            "slowdown": 1.025,
            "slowdown_p95": 1.05,
            "utilisation": 20 / 42,
            "share": 1 / 3,
            "makespan": 21.0,
            "queued": 0.1,
            "queued_p95": 0.3,
            "again": 1,
            "doubled": 0,
            "failed": 2,
        }
    )


@pytest.mark.parametrize(
    ("through", "holds"),
    [((102.9, 109.0, 90.0), True), ((103.1, 109.0, 90.0), False), ((100.0, 103.0, 110.0), True)],
    ids=["the median is under it", "the median is over it", "the median is it"],
)
def test_the_bound_is_one_on_the_median_of_the_seeds(through: tuple[float, ...], holds: bool) -> None:
    spans = [(HAND, seed, 100.0) for seed in (1, 2, 3)]
    spans += [(THROUGH, seed, span) for seed, span in zip((3, 1, 2), through, strict=True)]

    assert studypage.kept(points(*spans), HAND, THROUGH) is holds


def test_the_table_has_medians_and_spreads() -> None:
    found = studypage.table(points((HAND, 1, 21.0), (HAND, 2, 41.0), (HAND, 3, 31.0), (THROUGH, 1, 21.0)))

    assert [line.split(" | ")[:2] + line.split(" | ")[7:8] for line in found.splitlines()[2:]] == [
        [f"| {HAND}", "0.5 s", "31.0 s (21.0 s to 41.0 s)"],
        [f"| {THROUGH}", "0.5 s", "21.0 s"],
    ]


def test_the_picture_has_a_dot_for_each_seed_in_each_panel() -> None:
    seen = points((HAND, 1, 21.0), (HAND, 2, 41.0), (THROUGH, 1, 21.0))
    drawn = studypage.picture(seen)

    parts = list(ET.fromstring(drawn).iter())
    texts = [one.text for one in parts if one.tag.endswith("}text")]
    dots = [
        (float(one.attrib["x"]), float(one.attrib["y"]))
        for one in parts
        if one.tag.endswith("}use") and "fill-opacity: 0.45" in one.attrib.get("style", "")
    ]
    assert [text for text in texts if text in {title for _, title, _ in studypage.PANELS}] == [
        title for _, title, _ in studypage.PANELS
    ]
    rows = -(-len(studypage.PANELS) // 2)
    assert texts.count(HAND) == texts.count(THROUGH) == rows
    assert {"20 s", "40 s", "0%"} <= set(texts)
    assert len(dots) == 3 * len(studypage.PANELS)
    first, second, other = dots[:3]
    assert first[1] == second[1] < other[1]
    assert first[0] == other[0] < second[0]
    assert drawn == studypage.picture(seen)  # so that a picture changes with its figures alone


def test_the_figures_beside_the_page_are_json_as_every_reader_takes_it() -> None:
    def refuse(word: str) -> float:
        raise AssertionError(word)

    files = sorted(Path("docs").glob("efficiency-*.json"))
    assert files
    for file in files:
        rows = json.loads(file.read_text(), parse_constant=refuse)
        assert json.loads(studypage.written(studypage.read(file.read_text()))) == rows


@pytest.mark.parametrize(("first", "growth"), [(2.0, 0.5), (0.1, 1.3)])
def test_the_model_of_latency_finds_what_it_was_made_of(first: float, growth: float) -> None:
    found = slurmlatency.fitted({size: first * size**growth for size in (1, 5, 25, 125)})

    assert [found.first, found.growth] == pytest.approx([first, growth])
