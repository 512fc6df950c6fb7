"""A user puts another program in the place of the site helper: each answer is one of that operation, or none at all."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.host import Ended, HostUnavailable, Status, answers
from router.host.answers import Failure
from router.host.eventloop import EventLoop
from router.host.framing import FramingError, Message
from router.host.remote import Patience, RemoteHost
from router.host.sentences import HelperPlace
from router.host.sitehelper import VERSION
from router.host.sudo import LocalOpener

OPERATIONS: dict[str, Callable[[RemoteHost, str], object]] = {
    "names": lambda host, path: host.names(path),
    "status": lambda host, path: host.status(path),
    "read": lambda host, path: host.read(path),
    "put": lambda host, path: host.put(path, b"x"),
    "link_claim": lambda host, path: host.link_claim(path, "cancelled"),
    "clock": lambda host, _: host.clock(),
}
DEEP = '{"n":' + "[" * 200_000 + "]" * 200_000 + "}"
WRONG: tuple[tuple[str, str, Any, bytes], ...] = (
    ("status", "a number", {"value": 7}, b""),
    ("status", "another kind", {"value": [[], 1, 1]}, b""),
    ("status", "a size below 0", {"value": ["file", -1, 1]}, b""),
    ("status", "no time", {"value": ["file", 1, math.nan]}, b""),
    ("status", "neither value nor error", {}, b""),
    ("status", "an error without errno", {"error": "x", "errno": None}, b""),
    ("status", "an error that is no text", {"error": ["x"], "errno": 2}, b""),
    ("names", "a way up", {"value": None}, b"a\0.."),
    ("names", "a path", {"value": None}, b"a/b"),
    ("names", "an empty name", {"value": None}, b"a\0\0b"),
    ("read", "more than was asked for", {"value": None}, b"x" * ((4 << 20) + 1)),
    ("link_claim", "null", {"value": None}, b""),
    ("clock", "infinite", {"value": math.inf}, b""),
    ("clock", "text", {"value": "now"}, b""),
    ("clock", "a number that is none", {"n": [1], "value": 1}, b""),
    ("clock", "deep", DEEP, b""),
    ("put", "an error without errno", {"error": "x"}, b""),
)
HELPER = """\
import json, struct, sys
sizes, answer, body = struct.Struct(">II"), sys.argv[1], bytes.fromhex(sys.argv[2])
def say(head, body=b""):
    raw = head.encode()
    sys.stdout.buffer.write(sizes.pack(len(raw), len(body)) + raw + body)
    sys.stdout.buffer.flush()
sys.stdout.buffer.write(b"\\0batchgate-sitehelper\\0")
while len(lengths := sys.stdin.buffer.read(8)) == 8:
    head, more = sizes.unpack(lengths)
    asked = json.loads(sys.stdin.buffer.read(head))
    sys.stdin.buffer.read(more)
    if asked["do"] in ("hello", "ping"):
        say(json.dumps({"n": asked["n"], "value": None, "version": VERSION}))
    elif body == b"large":
        say(json.dumps({"n": asked["n"], **json.loads(answer)}), b"x" * ((4 << 20) + 1))
    elif answer != "deep":
        say(json.dumps({"n": asked["n"], **json.loads(answer)}), body)
    else:
        say('{"n":' + "[" * 200000 + "]" * 200000 + "}")
"""


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    started = EventLoop()
    yield started
    started.stop()


@pytest.fixture
def posing(tmp_path: Path, loop: EventLoop) -> Iterator[Callable[..., RemoteHost]]:
    """A host whose site helper answers all questions with the same."""
    program, hosts = tmp_path / "posing.py", []
    program.write_text(HELPER.replace("VERSION", repr(VERSION)))

    def make(answer: Any, body: bytes) -> RemoteHost:
        words = "deep" if answer == DEEP else json.dumps(answer)
        raw = b"large" if len(body) > 100 else body
        opener = LocalOpener((sys.executable, str(program), words, raw.hex()), HelperPlace("ben", "here", "/helper"))
        hosts.append(RemoteHost(tmp_path / "site", opener, loop, Patience(connect=60, file=60, pause=0.1)))
        return hosts[-1]

    yield make
    for host in hosts:
        host.close()


@pytest.mark.parametrize(
    ("operation", "answer", "body"), [(a, c, d) for a, _, c, d in WRONG], ids=[f"{a}: {b}" for a, b, _, _ in WRONG]
)
def test_whoever_answers_otherwise_is_no_site_helper(
    posing: Callable[..., RemoteHost], tmp_path: Path, operation: str, answer: Any, body: bytes
) -> None:
    host = posing(answer, body)

    with pytest.raises(HostUnavailable, match=r"ben.*/helper does not answer as a site helper"):
        OPERATIONS[operation](host, str(tmp_path / "site" / "a"))


@pytest.mark.parametrize("value", [7, None, [0], [0, 1], ["0", 0], [0, -1], {"value": 0}])
def test_a_command_whose_end_is_none_gave_no_answer(posing: Callable[..., RemoteHost], value: Any) -> None:
    done = posing({"value": value}, b"").run(["squeue"], 60)

    assert done.returncode is None
    assert b"/helper does not answer as a site helper" in done.stderr


def test_a_request_that_it_calls_wrong_is_an_error_of_the_file(
    posing: Callable[..., RemoteHost], tmp_path: Path
) -> None:
    host = posing({"error": "is not \udfff understood", "errno": -1}, b"")

    with pytest.raises(OSError, match=r"/a: is not \? understood"):
        host.status(tmp_path / "site" / "a")


READERS: dict[str, tuple[Callable[[Message], object], type | tuple[type, ...]]] = {
    "number": (answers.number, int),
    "failure": (answers.failure, (Failure, type(None))),
    "nothing": (answers.nothing, type(None)),
    "flag": (answers.flag, bool),
    "clock": (answers.clock, float),
    "status": (answers.status, (Status, type(None))),
    "ended": (answers.ended, Ended),
    "names": (answers.names, list),
    "block": (partial(answers.block, wanted=3), bytes),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just("file"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
HEADS = st.fixed_dictionaries({}, optional={"n": JSON, "value": JSON, "error": JSON, "errno": JSON})


@pytest.mark.parametrize("reader", READERS)
@given(head=HEADS, body=st.binary(max_size=6))
def test_anything_is_an_answer_or_an_error(reader: str, head: dict[str, Any], body: bytes) -> None:
    read, kind = READERS[reader]
    try:
        found = read(Message(head, body))
    except FramingError:
        return
    assert isinstance(found, kind)


@pytest.mark.parametrize(
    ("reader", "head", "body", "found"),
    [
        ("number", {"n": 3}, b"", 3),
        ("failure", {"value": 1}, b"", None),
        ("failure", {"error": "no space", "errno": 28}, b"", Failure(28, "no space")),
        ("failure", {"error": "x" * 3000, "errno": -1}, b"", Failure(-1, "x" * 2000)),
        ("flag", {"value": False}, b"", False),
        ("clock", {"value": 1767225600}, b"", 1767225600.0),
        ("status", {"value": None}, b"", None),
        ("status", {"value": ["file", 3, 1.5]}, b"", Status("file", 3, 1.5)),
        ("ended", {"value": [0, 2]}, b"outerr", Ended(0, b"ou", b"terr")),
        ("ended", {"value": [None, 0]}, b"err", Ended(None, b"", b"err")),
        ("ended", {"value": [-9, 0]}, b"", Ended(-9, b"", b"")),
        ("names", {"value": None}, b"", []),
        ("names", {"value": None}, b"a\0...\0\xff", [b"a", b"...", b"\xff"]),
        ("block", {"value": None}, b"abc", b"abc"),
    ],
)
def test_what_is_right(reader: str, head: dict[str, Any], body: bytes, found: object) -> None:
    assert READERS[reader][0](Message(head, body)) == found
