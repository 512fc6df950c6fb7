"""Log lines: one a record, whatever stands in it."""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.startup.logs import JsonFormatter, TextFormatter


def _record(message: str, fields: dict[str, Any]) -> logging.LogRecord:
    record = logging.LogRecord("batchgate", logging.INFO, "", 0, message, (), None)
    record.created = 1_800_000_000.25
    record.fields = fields
    return record


FIELDS = {"user": "ada l", "rule": "gpus", "dry_run": False, "ms": 1.5, "site": None, "reason": 'a "b"\n=c', "e": ""}


def test_json() -> None:
    assert json.loads(JsonFormatter().format(_record("decision", FIELDS))) == {
        "time": "2027-01-15T08:00:00.250Z",
        "level": "info",
        "message": "decision",
        **FIELDS,
    }


def test_text() -> None:
    assert TextFormatter().format(_record("decision", FIELDS)) == (
        '2027-01-15T08:00:00.250Z info    decision user="ada l" rule=gpus dry_run=false ms=1.5 '
        'reason="a \\"b\\"\\n=c" e=""'
    )


@given(message=st.text(), value=st.text())
def test_no_value_makes_a_second_line(message: str, value: str) -> None:
    for formatter in (JsonFormatter(), TextFormatter()):
        line = formatter.format(_record(message.replace("%", ""), {"user": value}))
        assert len(line.splitlines()) == 1
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", line)


def test_a_value_cannot_pass_for_another_field() -> None:
    line = TextFormatter().format(_record("decision", {"user": "x target=cloud", "target": "hpc"}))

    assert line.endswith('user="x target=cloud" target=hpc')


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_a_traceback_stays_in_its_line(formatter: logging.Formatter) -> None:
    nothing: dict[str, int] = {}
    try:
        nothing["x"]
    except KeyError:
        record = logging.LogRecord("batchgate", logging.ERROR, "", 0, "bug", (), sys.exc_info())

    line = formatter.format(record)

    assert "KeyError: 'x'" in line
    assert len(line.splitlines()) == 1
