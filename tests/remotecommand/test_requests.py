from __future__ import annotations

import json
from typing import Any

import pytest

from router.errors import RequestError
from router.remotecommand import requests
from router.remotecommand.requests import Stream, Wanted, wanted


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            [("command", "sh"), ("command", "-c"), ("command", ""), ("output", "1"), ("error", "1")],
            Wanted(("sh", "-c", ""), False, True, True, False),
        ),
        (
            [("input", "1"), ("output", "1"), ("error", "1"), ("tty", "1"), ("command", "sh")],
            Wanted(("sh",), True, True, False, True),
        ),
        (
            [("command", "a"), ("output", "1"), ("output", "0"), ("more", "x")],
            Wanted(("a",), False, True, False, False),
        ),
    ],
)
def test_what_is_wanted(query: list[tuple[str, str]], expected: Wanted) -> None:
    assert wanted(query, command=True) == expected


def test_a_container_s_own_output_has_no_words() -> None:
    assert wanted([("command", "a"), ("output", "1")], command=False) == Wanted((), False, True, False, False)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ([("output", "1")], "you must specify at least 1 command for the container"),
        ([("command", ""), ("output", "1")], "you must specify at least 1 command for the container"),
        ([("command", "sh"), ("output", "true")], "you must specify at least 1 of stdin, stdout, stderr"),
        ([("command", "a\0b"), ("output", "1")], "the command holds NUL, or more than 524288 bytes"),
        ([("command", "a" * (1 << 19 | 1)), ("output", "1")], "the command holds NUL, or more than 524288 bytes"),
    ],
)
def test_what_is_refused(query: list[tuple[str, str]], words: str) -> None:
    with pytest.raises(RequestError) as refused:
        wanted(query, command=True)

    assert (refused.value.status, refused.value.text) == (400, words)


def test_the_streams_of_a_client() -> None:
    terminal = Wanted(("sh",), True, True, False, True)

    assert terminal.streams == {Stream.ERROR, Stream.STDIN, Stream.STDOUT, Stream.RESIZE}
    assert Wanted(("sh",), False, True, True, False).streams == {Stream.ERROR, Stream.STDOUT, Stream.STDERR}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (requests.success(), {"status": "Success"}),
        (requests.ended(0), {"status": "Success"}),
        (
            requests.ended(7),
            {
                "status": "Failure",
                "message": "command terminated with non-zero exit code: exit status 7",
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": "7"}]},
            },
        ),
        (
            requests.failed("no"),
            {
                "status": "Failure",
                "message": "Internal error occurred: no",
                "reason": "InternalError",
                "details": {"causes": [{"message": "no"}]},
                "code": 500,
            },
        ),
    ],
)
def test_the_end_in_a_status(status: bytes, expected: dict[str, Any]) -> None:
    assert json.loads(status) == {"metadata": {}, **expected}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"Width":80,"Height":24}\n', ([(80, 24)], b"")),
        (b'{"Width":80,"Height":24}{"Width":1,"Height":2}{"Wid', ([(80, 24), (1, 2)], b'{"Wid')),
        (b'{"Width":-1,"Height":24}{"Width":true,"Height":2}{"Width":70000,"Height":2}[]{}', ([], b"")),
        (b"[" * 1000, ([], b"[" * 200)),
        (b"[" * 100_000 + b'}{"Width":80,"Height":24}', ([(80, 24)], b"")),
    ],
)
def test_sizes_of_a_terminal(text: bytes, expected: tuple[list[tuple[int, int]], bytes]) -> None:
    assert requests.sizes(text) == expected
