"""The Standard Workload Format: headers, jobs, and errors that name line and field."""

from __future__ import annotations

import pytest

from router.errors import InputError
from router.simulate.swf import Header, Record, header, records

LINE = "7 120 5 30.5 8 -1 -1 16 3600 2048 1 3 4 -1 1 -1 -1 -1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Header()),
        (LINE, Header()),
        ("; Version: 2.2\n;  MaxNodes: 128\n;MaxProcs:   512 (4 a node)\n; UnixStartTime: 1700000000\n", Header(128, 512, 1700000000)),
        ("; MaxNodes: 128\n; MaxNodes: 64\n", Header(nodes=128)),
        (";\n; Note: MaxNodes: 5\n; MaxNodes: many\n; MaxProcs: -1\n; UnixStartTime: 0\n", Header()),
        (f"; MaxNodes: 1\n\n{LINE}\n; MaxProcs: 2\n", Header(nodes=1)),
    ],
)  # fmt: skip
def test_headers(text: str, expected: Header) -> None:
    assert header(text.splitlines()) == expected


UNKNOWN = "-1 0" + " -1" * 16


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (LINE, Record(7, 120, 30.5, 16, 3600, 2048, 1, 3, 4, "t.swf:2")),
        (LINE.replace(" 16 ", " -1 "), Record(7, 120, 30.5, 8, 3600, 2048, 1, 3, 4, "t.swf:2")),
        (LINE.replace(" 16 ", " 0 "), Record(7, 120, 30.5, 8, 3600, 2048, 1, 3, 4, "t.swf:2")),
        (UNKNOWN, Record(0, 0, None, None, None, None, None, None, None, "t.swf:2")),
        (LINE.replace(" 30.5 ", " 0 "), Record(7, 120, 0, 16, 3600, 2048, 1, 3, 4, "t.swf:2")),
        (f"\t {LINE}  ", Record(7, 120, 30.5, 16, 3600, 2048, 1, 3, 4, "t.swf:2")),
    ],
)
def test_jobs(line: str, expected: Record) -> None:
    assert list(records(["; a comment", line, "", "  ; another"], "t.swf")) == [expected]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1 2 3", "t.swf:2: has 3 fields, and a job of the Standard Workload Format has 18; "),
        (f"{LINE} 5", "t.swf:2: has 19 fields, "),
        (LINE.replace("30.5", "abc"), "t.swf:2: field 4 (run time) is 'abc', which is no number"),
        (LINE.replace("30.5", "nan"), "t.swf:2: field 4 (run time) is 'nan', which is no number"),
        (
            LINE.replace(" 16 ", " inf "),
            "t.swf:2: field 8 (requested processors) is 'inf', which is larger than a trace's numbers are",
        ),
        (
            LINE.replace(" 16 ", " 1e300 "),
            "t.swf:2: field 8 (requested processors) is '1e300', which is larger than a trace's numbers are",
        ),
        (LINE.replace("120", "-1"), "t.swf:2: field 2 (submit time) is -1, and each job needs one of 0 or more"),
        (LINE.replace("120", "1e15"), "t.swf:2: field 2 (submit time) is 1e15, which is after 9999-12-30"),
    ],
)
def test_errors_name_line_and_field(line: str, expected: str) -> None:
    with pytest.raises(InputError) as error:
        list(records([";", line], "t.swf"))

    assert str(error.value).startswith(expected)
