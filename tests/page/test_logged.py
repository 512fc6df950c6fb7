"""The decision log on the page: read from its end, within bounds, for those who may see it."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import replace
from html import unescape
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import ConfigError
from router.page.app import create_app
from router.page.decisionlog import DecisionLogTail
from router.page.models.decisions import Decided, Group
from router.page.models.logged import AuditLine, Entry, Logged, Tail, entry_of, logged
from router.page.policysource import Policies
from router.pod.status import rfc3339
from router.webhook.decisionlog import append
from tests.cli.test_policydiff import lines
from tests.page.objects import HOSTILE, Fixed, sight, silent_cluster

LINE: dict[str, Any] = json.loads(lines((8, "ada", 0)))
NOW = int(time.time())
HOUR = 3600


def line(age: int, **changed: Any) -> str:
    """A line of the log, decided so many seconds ago."""
    return json.dumps(LINE | {"time": rfc3339(NOW - age)} | changed, separators=(",", ":"))


def decided(age: int, **changed: Any) -> Decided:
    return Decided(**({"created": NOW - age, "rule": "large", "place": "demo/batch", "requester": "ada",
                       "reason": LINE["reason"], "namespace": LINE["namespace"], "name": "j0"} | changed))  # fmt: skip


def test_a_line_of_the_webhook() -> None:
    audited = [{"rule": "later", "place": "all.yaml:3", "outcome": "deny"}]

    assert entry_of(line(60, audited=audited)) == Entry(decided(60), counts=True, audited=(("later", "deny"),))
    assert entry_of(line(60, operation="UPDATE")) == Entry(decided(60), counts=False, audited=())
    assert entry_of(line(60, dry_run=True)) == Entry(decided(60), counts=False, audited=())


def test_a_denial_without_a_rule_counts_as_denied() -> None:
    found = entry_of(line(60, target="invalid", site="", queue="", rule="", reason="the Job is invalid"))

    assert found == Entry(decided(60, rule="", place="deny", reason="the Job is invalid"), counts=True, audited=())


@given(st.text())
def test_any_text_is_an_entry_or_none(text: str) -> None:
    assert entry_of(text) is None
    assert entry_of(text + line(60)) is None or not text.strip()
    labels = {"a": text, "workload": {"a": ',"workload":{'}}
    assert entry_of(line(60, namespace_labels=labels)) == Entry(decided(60), counts=True, audited=())


@pytest.mark.parametrize("changed", [{"format": 2}, {"time": "noon"}, {"time": None}])
def test_what_is_no_decision_of_this_release(changed: dict[str, Any]) -> None:
    assert entry_of(line(60, **changed)) is None


ENTRIES = tuple(
    entry
    for text in (
        line(30 * HOUR),
        line(3 * HOUR, audited=[{"rule": "later", "outcome": "deny"}]),
        line(
            2 * HOUR, user="ben", target="deny", site="", rule="none", reason="too large", namespace="other", name="d"
        ),
        line(HOUR, operation="UPDATE"),
        line(60, audited=[{"rule": "later", "outcome": "deny"}]),
    )
    if (entry := entry_of(text)) is not None
)
HPC = Group(
    "large", "demo/batch", 2, 67, "1", NOW - 3 * HOUR, NOW - 60, LINE["reason"], (LINE["namespace"], "j0"), "solid"
)
DENIED = Group("none", "deny", 1, 33, "1", NOW - 2 * HOUR, NOW - 2 * HOUR, "too large", ("other", "d"), "striped")
AUDIT = AuditLine("later", "deny", 2, NOW - 60)


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [
        ("", Logged("f", 3, (HPC, DENIED), (AUDIT,), 1, 2, "", "", "")),
        ("other", Logged("f", 1, (replace(DENIED, share=100, mark="solid"),), (), 0, 2, "", "", "other")),
        ("nobody", Logged("f", 0, (), (), 0, 2, "", "", "nobody")),
        (None, Logged("f", 0, (), (), 0, 2, "", "you may not list Jobs", "")),
    ],
)
def test_who_sees_which_decisions(namespace: str | None, expected: Logged) -> None:
    assert logged(Tail("f", ENTRIES, unreadable=2), namespace, NOW) == expected


def names(tail: Tail) -> list[str]:
    return [one.decided.name for one in tail.entries]


def test_the_log_is_read_from_its_end_over_its_files_and_followed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    (tmp_path / "log.2").write_text(line(30 * HOUR, name="old") + "\n")
    (tmp_path / "log.1").write_text(line(3 * HOUR, name="a") + "\nrubbish\n" + line(3 * HOUR, name="b") + "\n")
    path.write_text(line(2 * HOUR, name="c") + "\n" + line(60, name="d")[:40])
    tail = DecisionLogTail(path)

    first = tail.read()
    path.write_text(line(2 * HOUR, name="c") + "\n" + line(60, name="d") + "\n")
    second = tail.read()
    path.rename(tmp_path / "log.3")
    path.write_text(line(30, name="e") + "\n")
    third = tail.read()

    assert (names(first), first.unreadable, first.left_out) == (["a", "b", "c"], 1, "")
    assert names(second) == ["a", "b", "c", "d"]
    assert names(third) == ["a", "b", "e"], "its older files are read by their names"


def test_a_log_that_is_rotated_as_it_is_read_is_read_once(tmp_path: Path) -> None:
    """Whatever moment is met, its decisions follow one another without a gap, each once."""
    path, ended = tmp_path / "log", threading.Event()
    append(path, line(60, name="0"), 1)

    def write() -> None:
        for number in count(1):
            if ended.is_set():
                return
            append(path, line(60, name=str(number)), 1500)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        tails = [DecisionLogTail(path).read() for _ in range(100)]
    finally:
        ended.set()
        writer.join()

    assert {(tail.problem, tail.unreadable) for tail in tails} == {("", 0)}
    found = [list(map(int, names(tail))) for tail in tails]
    assert found == [list(range(one[0], one[0] + len(one))) for one in found]


def test_of_a_large_log_the_last_part_is_read_and_the_rest_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(line(1000 - number, name=f"j{number}") + "\n" for number in range(1000)))
    size = path.stat().st_size

    few = DecisionLogTail(path, most_bytes=size // 10).read()
    counted = DecisionLogTail(path, most_entries=7).read()

    assert 90 <= len(few.entries) <= 101
    assert (names(few)[-1], few.left_out) == ("j999", f"only the last {len(few.entries)} decisions were read")
    assert (names(counted), counted.left_out) == (
        [f"j{number}" for number in range(993, 1000)], "only the last 7 decisions were read"
    )  # fmt: skip


def test_lines_that_are_too_long_for_a_log_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("\n".join((line(90, name="a"), "x" * 5_000_000, line(60, name="b"), "x" * 5_000_000)))

    found = DecisionLogTail(path).read()

    assert (names(found), found.unreadable, found.left_out) == (["a", "b"], 1, "")


@pytest.mark.parametrize("rewritten", [False, True], ids=["as it grows", "at once"])
def test_nothing_is_left_out_once_a_kept_decision_is_older_than_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, rewritten: bool
) -> None:
    path = tmp_path / "log"
    texts = [line(age, name=name) + "\n" for age, name in ((3 * HOUR, "a"), (2 * HOUR, "b"), (HOUR, "c"))]
    path.write_text("".join(texts) if rewritten else texts[0])
    tail = DecisionLogTail(path, most_entries=2)
    first = tail.read()
    path.write_text("".join(texts))
    second = tail.read()

    monkeypatch.setattr(time, "time", lambda: NOW + 22.5 * HOUR)
    later = tail.read()

    assert (names(first), names(second)) == ((["b", "c"] if rewritten else ["a"]), ["b", "c"])
    assert second.left_out in ("only the last 2 decisions were read", "only the last 2 decisions are kept here")
    assert (names(later), later.left_out) == (["c"], "")


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    tail = DecisionLogTail(tmp_path / "none")

    assert tail.read() == Tail(
        str(tmp_path / "none"), problem=f"{tmp_path}/none is not there; the webhook's first decision makes it"
    )
    tail.check(may_come=True)
    with pytest.raises(ConfigError, match="below/none: the decision log cannot be read: No such file"):
        DecisionLogTail(tmp_path / "below" / "none").check(may_come=True)
    with pytest.raises(ConfigError, match="none: the decision log cannot be read: No such file"):
        tail.check()


@pytest.mark.parametrize("filled", [False, True])
def test_a_pipe_is_refused_with_what_to_give(tmp_path: Path, *, filled: bool) -> None:
    path = tmp_path / "log"
    os.mkfifo(path)
    end = os.open(path, os.O_RDWR) if filled else None
    if end is not None:
        os.write(end, (line(60) + "\n").encode())

    for may_come in (False, True):
        with pytest.raises(ConfigError) as told:
            DecisionLogTail(path).check(may_come=may_come)
        assert str(told.value) == (
            f"{path}: is a pipe, and the page reads a decision log from its end again and again; "
            "give the file that the webhook's --decision-log writes"
        )
    assert DecisionLogTail(path).read() == Tail(str(path), problem=f"{path} cannot be read: it is a pipe")
    if end is not None:
        os.close(end)


@pytest.mark.parametrize(("path", "what"), [("/", "a directory"), ("/dev/null", "a device")])
def test_what_else_is_no_regular_file_is_refused(path: str, what: str) -> None:
    with pytest.raises(ConfigError, match=f"^{path}: is {what}, and the page reads"):
        DecisionLogTail(Path(path)).check()


def test_the_screen_shows_texts_as_data(tmp_path: Path) -> None:
    hostile = f"{HOSTILE} \ud83d"  # JSON can spell half a character, and no page can send it
    entry = entry_of(
        line(60, rule=hostile, reason=hostile, name=hostile, audited=[{"rule": hostile, "outcome": hostile}])
    )
    assert entry is not None
    found = Fixed(sight(), silent_cluster(tmp_path))
    told = logged(Tail(HOSTILE, (entry,), unreadable=3, left_out=HOSTILE), "", NOW)
    app = create_app(lambda: found, Policies(), lambda _app: None, log=lambda _now: told)  # type: ignore[arg-type, return-value]

    text = app.test_client().get("/decisions").text

    assert "<script>alert" not in text
    assert "Of the lines that were read, 3 are no decisions of this release's format." in unescape(text)
    assert tuple(one for one in ("By the decision log", "Audit rules") if one in text) == (
        "By the decision log",
        "Audit rules",
    )
