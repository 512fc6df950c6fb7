"""What is read of one Job and how often: bounded, however many Pods and Events there are, and only as it changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from router import names
from router.cli.cluster import Cluster
from router.errors import ApiError
from router.page import following, jobobjects
from router.page.following import Following
from router.page.jobobjects import Looks, read_job
from router.page.models.looking import JobObjects
from router.page.models.parts import MOST_EVENTS, MOST_PODS, Events, Pods, mark
from router.page.models.rows import row_of
from router.page.streams import Room
from router.pod.view import view
from tests.operating.objects import event, over
from tests.page.apiserver import Answers, answering
from tests.page.objects import JOBS, PODS, Shown, client_of, judged, pending, ran, sight

SCRIPT = "echo a line of a script\n" * 850
MANY = 260


@pytest.fixture
def server() -> Iterator[Answers]:
    with answering() as found:
        yield found


def many() -> Iterator[dict[str, Any]]:
    """Pods of the Job ``wide``: nearly all have succeeded, the last three wait, run and have failed."""
    for number in range(MANY):
        name = f"wide-{number:04}"
        one = ran(name, "wide", created="09:00:00", started="09:05:00", ended="09:06:00")
        if number == MANY - 3:
            one = pending(name, "wide", "Queued", "x" * 100_000)
        if number == MANY - 2:
            one = ran(name, "wide", created="09:00:00", started="09:05:00")
        if number == MANY - 1:
            one = ran(name, "wide", created="09:00:00", started="09:05:00", ended="09:06:00", code=3)
        one["metadata"]["annotations"] = {names.KEY_SCRIPT: SCRIPT, names.KEY_JOB_ID: f"{number}.hpc"}
        one["metadata"]["managedFields"] = [{"manager": "x" * 1000}]
        one["spec"]["containers"][0]["env"] = [{"name": "A", "value": "x" * 1000}]
        yield one


def told(about: dict[str, Any], reason: str, number: int, kind: str = "Pod") -> dict[str, Any]:
    made = event(about, reason, "x" * 100_000, "09:06:00", kind)
    return {**made, "metadata": {"uid": f"event-{number}", "managedFields": [{"manager": "x" * 1000}]}}


def found_in(server: Answers, directory: Path, name: str) -> JobObjects:
    found, why = read_job(server.cluster(directory), "default", name)
    assert found is not None, why
    return found


def test_of_many_pods_the_first_are_kept_without_what_is_not_shown(server: Answers, tmp_path: Path) -> None:
    server.jobs, server.pods = [judged("wide")], list(many())

    found = found_in(server, tmp_path, "wide")

    assert (len(found.pods), found.phases) == (
        MOST_PODS,
        {"Failed": 1, "Running": 1, "Pending": 1, "Succeeded": MANY - 3},
    )
    assert [one["status"]["phase"] for one in found.pods[:4]] == ["Failed", "Running", "Pending", "Succeeded"]
    assert found.pods[0]["metadata"]["annotations"] == {names.KEY_JOB_ID: f"{MANY - 1}.hpc"}
    assert max(len(json.dumps(one)) for one in found.pods) < 4_000
    assert {query["limit"] for query in server.lists("pods")} == {"50"}


def test_failed_pods_leave_room_for_those_that_run() -> None:
    found = Pods(10)
    for number in range(60):
        code = 0 if number % 20 == 19 else 3
        ended = "09:06:00" if code else ""
        found.take(ran(f"p-{number:02}", "wide", created="09:00:00", started="09:05:00", ended=ended, code=code))

    names_of = [one["metadata"]["name"] for one in found.chosen]
    assert names_of == ["p-00", "p-01", "p-02", "p-03", "p-04", "p-19", "p-39", "p-59", "p-05", "p-06"]


def test_events_of_other_jobs_are_thrown_away_page_by_page(server: Answers, tmp_path: Path) -> None:
    ours, others = judged("wide"), ran("other-1", "other", created="09:00:00", started="09:05:00")
    former = ran("wide-abcde", "wide", created="09:00:00", started="09:05:00")  # a Pod that is gone
    server.jobs, server.pods = [ours], list(many())
    server.events = [
        *(told(others, "Pulled", number) for number in range(600)),
        told(ours, "SuccessfulDelete", 600, "Job"),
        told(server.pods[-1], "Killing", 601),
        told(former, "NodeLost", 602),
        told(judged("other"), "SuccessfulDelete", 603, "Job"),
    ]

    found = found_in(server, tmp_path, "wide")

    assert sorted(one["reason"] for one in found.events) == ["Killing", "NodeLost", "SuccessfulDelete"]
    assert max(len(json.dumps(one)) for one in found.events) < 3_000
    asked = server.lists("events")
    assert {query["fieldSelector"] for query in asked} == {"involvedObject.uid=job-wide", "involvedObject.kind=Pod"}
    # Each of these has 100 KB, so a page that takes more than 4 MiB is asked for again with fewer.
    assert {asked[0]["limit"], f"{max(int(query['limit']) for query in asked)}"} == {"250"}


def test_of_many_events_of_one_job_the_latest_are_kept() -> None:
    ours = judged("wide")
    found = Events(ours, ())
    for number in range(3 * MOST_EVENTS):
        one = told(ours, "Noise", number, "Job")
        found.take({**one, "lastTimestamp": f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"})
        assert len(found._kept) < 2 * MOST_EVENTS

    assert [one["metadata"]["uid"] for one in (found.chosen[0], found.chosen[-1])] == [
        f"event-{2 * MOST_EVENTS}",
        f"event-{3 * MOST_EVENTS - 1}",
    ]
    assert len(found.chosen) == MOST_EVENTS


def test_the_page_says_how_many_pods_it_shows(server: Answers, tmp_path: Path) -> None:
    server.jobs, server.pods = [judged("wide")], list(many())
    cluster = server.cluster(tmp_path)

    text = client_of(tmp_path, sight(), cluster).get("/jobs/default/wide").text

    assert f"100 of {MANY} are shown, failed and running ones first." in text
    assert f"1 failed, 1 running, 1 pending, {MANY - 3} succeeded." in text
    assert text.index(f"<h3>wide-{MANY - 1:04}") < text.index(f"<h3>wide-{MANY - 2:04}") < text.index("<h3>wide-0000")
    assert text.count('<article class="card"') == MOST_PODS


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read again for a change is read at once; without one, never."""
    monkeypatch.setattr(jobobjects, "_SOONEST", 0.0)
    monkeypatch.setattr(jobobjects, "_REST", 0)
    monkeypatch.setattr(jobobjects, "_FIRST_PAUSE", 1e6)
    monkeypatch.setattr(following, "_LEAST", 0.01)


def test_a_job_is_read_again_as_it_changes(server: Answers, tmp_path: Path, eager: None) -> None:
    server.jobs = [judged("wide")]
    looks = Looks(server.cluster(tmp_path), Room().readings)

    def read(now: int, asked_for: bool = False) -> int:
        looks.find("default", "wide", now, asked_for=asked_for)
        return len(server.lists("pods"))

    assert [read(1), read(1), read(1)] == [1, 1, 1], "it has not changed"
    assert [read(2), read(2)] == [2, 2], "it has changed once"
    assert [read(2, True), read(2, True)] == [3, 4], "somebody loads the page again"


def test_a_job_without_a_change_is_read_ever_more_rarely(server: Answers, tmp_path: Path) -> None:
    server.jobs = [judged("wide")]
    now, read = 1000.0, list[float]()
    looks = Looks(server.cluster(tmp_path), Room().readings, lambda: now)

    for _ in range(100):
        looks.find("default", "wide", 1, asked_for=False)
        if not read or len(server.lists("pods")) > len(read):
            read.append(now)
        now += 1.0

    assert [later - one for one, later in pairwise(read)] == [3, 5, 9, 17, 31, 31]


class Slowly:
    """Looks at two Jobs, each reading of which takes this many seconds of a clock that stands otherwise."""

    def __init__(self, looks_at: Cluster, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.now = 1000.0
        self.looks = Looks(looks_at, Room().readings, lambda: self.now)

        def slow(*given: Any) -> Any:
            self.now += seconds
            return read_job(*given)

        monkeypatch.setattr(jobobjects, "read_job", slow)

    def find(self, name: str, number: int, rest: float) -> None:
        self.looks.find("default", name, number, asked_for=False)
        self.now += rest


def test_what_takes_long_to_read_leaves_time_for_others(
    server: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most a fifth of the time is spent on a viewer's pages, whatever changes meanwhile and however many they are."""
    server.jobs = [judged("wide"), judged("other")]
    slowly = Slowly(server.cluster(tmp_path), monkeypatch, 2.0)
    for name in ("wide", "other"):
        slowly.find(name, 0, 0.0)
    begun = slowly.now
    for number in range(1, 1000):
        slowly.find(("wide", "other")[number % 2], number, 0.1)

    assert 0.15 < 2.0 * (len(server.lists("pods")) - 2) / (slowly.now - begun) < 0.21


def test_a_job_that_takes_long_to_read_is_not_forgotten_while_its_page_rests(
    server: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page's stream rests five times as long as it took to make. A Job that is forgotten is read anew, unchanged too."""
    server.jobs = [judged("wide"), judged("other")]
    slowly = Slowly(server.cluster(tmp_path), monkeypatch, 20.0)
    for name in ("wide", "other", "wide", "other"):
        slowly.find(name, 1, 5 * 20.0)

    assert len(server.lists("pods")) == 2


def test_a_cluster_that_does_not_answer_is_told_until_it_is_asked_again(
    server: Answers, tmp_path: Path, eager: None
) -> None:
    server.refuses = True
    looks = Looks(server.cluster(tmp_path), Room().readings)

    for now in (1, 1, 2):
        with pytest.raises(ApiError, match="Unauthorized"):
            looks.find("default", "wide", now, asked_for=False)

    server.refuses, server.jobs = False, [judged("wide")]
    assert looks.find("default", "wide", 3, asked_for=False)[0] is not None


def test_a_time_out_is_no_reason_to_read_more_rarely(
    server: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a page would say for ten minutes that the cluster does not answer, though it does by now."""
    now, read = 1000.0, read_job
    looks = Looks(server.cluster(tmp_path), Room().readings, lambda: now)

    def late(*given: Any) -> Any:
        nonlocal now
        now += 30.0 if server.refuses else 0.1
        return read(*given)

    def ask(name: str, asked_for: bool) -> bool:
        try:
            return looks.find("default", name, 1, asked_for=asked_for)[0] is not None
        except ApiError:
            return False

    monkeypatch.setattr(jobobjects, "read_job", late)
    server.jobs, server.refuses = [judged("wide"), judged("other")], True
    assert not ask("other", asked_for=False)
    now += 5.0
    assert not ask("wide", asked_for=False)

    server.refuses, now = False, now + 5.0
    assert ask("wide", asked_for=True), "somebody loads the page again"
    now += 20.0
    assert ask("other", asked_for=False), "a page that follows its Job"


def test_a_page_waits_for_its_own_job(server: Answers, tmp_path: Path, eager: None) -> None:
    shown = Shown(server.cluster(tmp_path))
    server.jobs = [judged("runs")]
    page = Following(shown, "default", "runs")  # type: ignore[arg-type]
    page.objects(asked_for=True)

    others = tuple(row_of(one) for one in JOBS if one["metadata"]["name"] != "stuck")
    shown.show(sight(jobs=others))
    page.await_news(0, 0.3)
    page.objects(asked_for=False)
    assert len(server.lists("pods")) == 1

    ended = judged("runs", created="09:10:00", status=over("Complete"))
    shown.show(sight(jobs=(*others[:2], row_of(ended))))
    page.await_news(1, 1e6)
    page.objects(asked_for=False)
    assert len(server.lists("pods")) == 2


def test_the_mark_is_of_the_job_and_its_pods_alone() -> None:
    pods = tuple(map(view, PODS))
    before = mark(sight(), "default", "runs")
    newer = replace(pods[2], resource_version="7")

    assert pods[2].job == "runs"
    assert mark(sight(pods=(pods[3], pods[2], pods[0])), "default", "runs") == before
    assert mark(sight(pods=(newer,)), "default", "runs") != before
    assert mark(sight(pods=pods[:2]), "default", "runs") != before
    assert mark(sight(), "elsewhere", "runs") != before
