"""A log's page as text, without scripts: its end is there, and what is left out is named."""

from __future__ import annotations

import html
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import TestResponse

from router.page import logs
from router.page.logs import Follower, Log
from router.page.models.loglines import LONGEST, latest, shortened
from tests.agent.whole.waiting import until
from tests.page.apiserver import Answers, answering
from tests.page.objects import client_of, sight, told_job
from tests.page.test_reader import silence
from tests.steps import steps_of

MIB = 1 << 20
LOG = "/logs/default/train-0/main"


@pytest.fixture
def server() -> Iterator[Answers]:
    with answering() as found:
        found.jobs, found.pods, found.events = told_job()
        yield found


def page(server: Answers, directory: Path, path: str = LOG) -> TestResponse:
    return client_of(directory, sight(), server.cluster(directory)).get(path)


def log_of(text: str) -> list[str]:
    """The lines that the page shows."""
    (found,) = re.findall(r'<pre class="log".*?>(.*?)</pre>', text, re.DOTALL)
    return [html.unescape(one) for one in re.findall(r"<span>(.*?)\n</span>", found, re.DOTALL)]


def notes_of(text: str) -> tuple[str, str]:
    """What the page says of the lines, and what it says is left out."""
    (lines,) = re.findall(r"The last [0-9,]+ lines?\.", text)
    (cut,) = re.findall(r'<p class="note" id="log-cut"(?: hidden)?>(.*?)</p>', text)
    return lines, html.unescape(cut)


def test_a_short_log(server: Answers, tmp_path: Path) -> None:
    server.log = ("first\n\n", "third")

    text = page(server, tmp_path).text

    assert log_of(text) == ["first", "", "third"]
    assert notes_of(text) == ("The last 500 lines.", "")


def test_the_end_of_a_long_log_is_shown(server: Answers, tmp_path: Path) -> None:
    lines = [f"{number:04} {'x' * 884}" for number in range(1, 1501)]
    server.log = ("\n".join(lines), "\nTHE-ERROR-AT-THE-END\n")

    text = page(server, tmp_path).text

    assert log_of(text) == [*lines[-294:], "THE-ERROR-AT-THE-END"]
    assert notes_of(text) == ("The last 500 lines.", "Of these, the earlier ones are left out: 256 KiB are shown.")


def test_the_lines_after_a_huge_one_are_shown(server: Answers, tmp_path: Path) -> None:
    server.log = ("before\n", "x" * (10 * MIB), "\nafter\n")

    text = page(server, tmp_path).text

    left_out = f"[{10 * MIB - LONGEST:,} more characters of this line are left out]"
    assert log_of(text) == ["before", "x" * LONGEST, left_out, "after"]
    assert notes_of(text) == ("The last 500 lines.", "")


def test_of_more_than_is_read_fewer_lines_are_asked_for(
    server: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MOST_READ", 2 * MIB)
    server.log = ("x" * (3 * MIB), *("\nx" * 30), "\nlast\n")

    text = page(server, tmp_path).text

    assert log_of(text) == [*["x"] * 19, "last"]
    assert notes_of(text) == ("The last 20 lines.", "More of them are over 2 MiB, or come too slowly.")
    assert [query for path, query in server.asked if path.endswith("/log")] == [
        {"container": "main", "tailLines": "500"},
        {"container": "main", "tailLines": "20"},
    ]


def test_a_last_line_of_more_than_is_read(server: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_READ", 2 * MIB)
    server.log = ("before\n", "x" * (3 * MIB), "\n")

    text = page(server, tmp_path).text

    assert log_of(text)[0] == "x" * LONGEST
    assert notes_of(text) == ("The last 1 line.", "Its end is missing: it is over 2 MiB, or comes too slowly.")


def test_a_line_that_is_written_over_is_shown_as_it_is_last(server: Answers, tmp_path: Path) -> None:
    server.log = ("begin\r\n", *(f"\r{number} of 40000" for number in range(1, 40_001)), "\nend\n")

    assert log_of(page(server, tmp_path).text) == ["begin", "40000 of 40000", "end"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        (LOG, 200, ""),
        ("/logs/default/absent/main", 404, "there is no Pod absent"),
        ("/logs/default/train-0/absent", 404, "container absent is not valid for pod train-0"),
    ],
)
def test_what_is_missing_is_answered_so(server: Answers, tmp_path: Path, path: str, status: int, words: str) -> None:
    answer = page(server, tmp_path, path)

    (problem,) = re.findall(r'id="log-problem"(?: hidden)?>(.*?)</p>', answer.text)
    assert (answer.status_code, problem) == (status, words)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], ""),
        (["one\ntw", "o\n", "", "\nthree"], "one\ntwo\n\nthree"),
        (["one\r\ntwo\r", "\nthree\r\r\n"], "one\ntwo\nthree\n"),
        (["10 %\r", "20", " %\r30 %", "\r", "40 %\nend"], "40 %\nend"),
        (["50 %\r"], "50 %"),
        (["50 %\r", "", "\n\rx\n"], "50 %\nx\n"),
        (["a" * 8000, "a" * 192, "\nb"], "a" * 8192 + "\nb"),
        (["a" * 8000, "a" * 193, "\nb"], "a" * 8192 + "\n[1 more characters of this line are left out]\nb"),
        (["a" * 9000, "b" * 500], "a" * 8192 + "\n[1,308 more characters of this line are left out]"),
        (["a" * 9000, "\r", "b"], "b"),
        (["x\n" + "a" * 9000 + "\r"], "x\n" + "a" * 8192 + "\n[808 more characters of this line are left out]"),
    ],
)
def test_the_lines_that_are_shown(parts: list[str], expected: str) -> None:
    assert latest("".join(shortened(parts))) == expected


@given(st.lists(st.text("ab\r\n", max_size=8)))
def test_a_text_has_the_same_last_state_in_whatever_pieces_it_comes(pieces: list[str]) -> None:
    kept = ""
    for piece in pieces:
        kept = latest(kept + piece)

    assert kept == "\n".join([line.split("\r")[-1] for line in "".join(pieces).split("\n")])


def test_lines_before_the_one_that_is_written_over_are_no_work() -> None:
    few, many = ("x\n" * lines + "\r2 of 3" for lines in (2, 20_000))

    assert steps_of(lambda: latest(many)) == steps_of(lambda: latest(few))


def test_a_part_that_shows_nothing_is_not_passed_on() -> None:
    assert list(shortened(["a" * 9000, "b" * 500, "\n"])) == [
        "a" * 8192,
        "\n[1,308 more characters of this line are left out]\n",
    ]


def test_a_log_that_is_followed_has_no_long_line(server: Answers, tmp_path: Path) -> None:
    server.log = ("x" * (10 * MIB), "\nafter\n")
    wanted = f"{'x' * LONGEST}\n[{10 * MIB - LONGEST:,} more characters of this line are left out]\nafter\n"
    text = ""

    with Follower(server.cluster(tmp_path).api, Log("default", "train-0", "main")) as follower:
        for kind, part in follower.parts():
            text += part if kind == "log" else ""
            if text.endswith("after\n"):
                break

    assert text == wanted


def test_a_log_whose_answer_does_not_begin_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whoever looks at such a log would leave a thread and a connection behind each time."""
    monkeypatch.setattr(logs, "_READ_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        follower = Follower(silence(tmp_path, listener).api, Log("default", "train-0", "main"))
        with follower:
            (kind, words), *_ = follower.parts()

        until(lambda: not follower._thread.is_alive(), bool, what="for the end of its thread")
        assert (kind, "timed out" in words) == ("trouble", True)
