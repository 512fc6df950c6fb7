"""A Job's page as text: which of its steps are shown, and what its plot says without sight and without colours."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest

from router import names
from router.page.models.rows import row_of
from router.page.models.timeline import Step, shown_steps
from router.pod.view import view
from tests.page.apiserver import answering
from tests.page.objects import client_of, judged, pending, ran, sight, told_job


def page_of(directory: Path, job: dict[str, Any], pods: list[dict[str, Any]]) -> str:
    with answering() as server:
        server.jobs, server.pods = [job], pods
        name = job["metadata"]["name"]
        return client_of(directory, sight(), server.cluster(directory)).get(f"/jobs/default/{name}").text


def test_of_many_steps_the_first_and_the_last_are_shown() -> None:
    made = tuple(Step(number, "done", str(number), "") for number in range(250))

    first, between, last = shown_steps(made)

    assert ([one.at for one in first], between, [one.at for one in last]) == (
        list(range(20)),
        50,
        list(range(70, 250)),
    )
    assert shown_steps(made[:200]) == (made[:200], 0, ())


def test_a_job_of_many_pods_keeps_its_beginning(tmp_path: Path) -> None:
    pods = [
        ran(f"wide-{number:02}", "wide", created="09:00:00", started="09:05:00", ended="09:06:00")
        for number in range(90)
    ]

    text = page_of(tmp_path, judged("wide"), pods)

    steps = re.findall(r"<strong>(Created|Decided|Container main)", text)
    assert (steps[:2], steps[-1]) == (["Created", "Decided"], "Container main")
    assert "Of 272 steps, 72 are left out here." in text  # two of the Job, three of each Pod


def test_the_plot_says_what_it_shows_without_sight_and_without_colours(tmp_path: Path) -> None:
    (job,), pods, _ = told_job()

    text = page_of(tmp_path, job, pods)

    found = re.search(r"<figure>.*?</figure>", text, re.DOTALL)
    assert found is not None
    titles = re.findall("<title>(.*?)</title>", found[0])
    assert titles == [
        "train-0: waited 12 min, ran 49 min, succeeded",
        "train-1: waited 25 min, ran 15 min, failed",
        "train-2: waited 42 min, ran 48 min, running",
        "train-3: waited 1 h 30 min, pending",
    ]
    bars = re.findall(r'<rect class="run is-(\w+)"[^>]*height="(\d)"', found[0])
    assert bars == [("succeeded", "6"), ("failed", "2"), ("failed", "2"), ("running", "6")]
    assert "the table below has the figures" in found[0]
    rows = re.findall(r'<tr><th scope="row">(.*?)</th><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>', found[0])
    assert rows == [
        ("train-0", "12 min", "49 min", "succeeded"),
        ("train-1", "25 min", "15 min", "failed"),
        ("train-2", "42 min", "48 min", "running"),
        ("train-3", "1 h 30 min", "–", "pending"),
    ]


@pytest.mark.parametrize(
    "basis", ["the batch system's plans of the last hour", "the waits of 12 Pods in this queue within a day"]
)
def test_an_expected_start_says_what_it_rests_on(tmp_path: Path, basis: str) -> None:
    """In the list, of the first in line of a queue, and on the Job's own page."""
    said = f"Resources; expected to start between 2026-01-01T11:00:00Z and 2026-01-01T12:30:00Z, by {basis}"
    job, pod = judged("waits"), pending("waits-1", "waits", "Queued", said)
    shown = sight(jobs=(row_of(job),), pods=(view(pod),))
    expected = f"may start between 11:00 and 12:30 UTC, by {basis}".replace("'", "&#39;")

    texts = [client_of(tmp_path, shown).get("/").text, page_of(tmp_path, job, [pod])]

    assert [text.count(expected) for text in texts] == [2, 1]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("run 'a b'\n\tx=\u00e9 \u6f22 \U0001f600\n", "run 'a b'\n\tx=\u00e9 \u6f22 \U0001f600\n"),
        ("# \u202e/bin/true\u2066 #\nrm -r ~\n", "# \\u202e/bin/true\\u2066 #\nrm -r ~\n"),
        ("a\u200bb\u00adc\ufeffd\u2028e\u00a0f", "a\\u200bb\\u00adc\\ufeffd\\u2028e\\u00a0f"),
        ("a\x1b[2Kb\rc\x7f\x85", "a\\u001b[2Kb\\u000dc\\u007f\\u0085"),
        ("a\u3164b\ufe0fc\u034fd\u2800e", "a\\u3164b\\ufe0fc\\u034fd\\u2800e"),
        ("a\U000e0041b\U000e0100c", "a\\U000e0041b\\U000e0100c"),
    ],
)
def test_marks_that_are_not_seen_are_escaped_in_the_script(tmp_path: Path, script: str, expected: str) -> None:
    """Some turn the direction of what follows, so that another script is read than the one that runs."""
    job = judged("turned")
    job["metadata"]["annotations"][names.KEY_SCRIPT] = script

    text = page_of(tmp_path, job, [])

    (found,) = re.findall(r"<summary>The script's own part</summary><pre[^>]*>(.*?)</pre>", text, re.DOTALL)
    assert html.unescape(found) == expected


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("number 1 of the 4 jobs in line", "First in line:"),
        ("number 2 of the 4 jobs in line", "First of ours in line:"),
        ("Resources", "First in line:"),
    ],
)
def test_a_job_behind_others_is_not_called_the_first(tmp_path: Path, place: str, expected: str) -> None:
    text = client_of(tmp_path, sight(pods=(view(pending("waits-1", "waits", "Queued", place)),))).get("/").text

    assert re.findall(r"First [a-z ]*in line:", text) == [expected]
