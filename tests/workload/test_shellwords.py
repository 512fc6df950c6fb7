"""Simple commands, held against a real shell."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.workload.shellwords import Word, split


def texts(command: str) -> list[str] | str:
    found = split(command)
    return found if isinstance(found, str) else [word.text for word in found]


def words(command: str) -> tuple[Word, ...]:
    found = split(command)
    assert not isinstance(found, str), found
    return found


def test_words_say_where_they_stand_and_what_expands():
    assert split("a  'b c' $X") == (Word("a", 0, 1), Word("b c", 3, 8), Word("$X", 9, 11, True))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("", []),
        ("  \n# only a comment\n", []),
        ("a#b # c", ["a#b"]),
        ("a\\\nb", ["ab"]),
        ("a \\\n b", ["a", "b"]),
        ('"a\\"b" "c\\d" "\\$X"', ['a"b', "c\\d", "$X"]),
        ("''", [""]),
        ("a''b", ["ab"]),
        ("a=b --c=d", ["a=b", "--c=d"]),
        ("50% a@b a,b a+b ^", ["50%", "a@b", "a,b", "a+b", "^"]),
        ("$", ["$"]),
        ('"$" x', ["$", "x"]),
    ],
)
def test_quotes_comments_and_lines(command: str, expected: list[str]):
    assert texts(command) == expected


@pytest.mark.parametrize(
    "word", ["$X", "${X}", '"$X"', "$(A)", "$((1+1))", "$$", "$?", "$1", "*", "a?", "[ab]", "~", "~/x", "A=~", "{a,b}"]
)
def test_words_that_a_shell_expands_are_marked(word: str):
    assert [found.expands for found in words(word)] == [True]


@pytest.mark.parametrize("word", ["'$X'", "\\$X", "'*'", '"*"', "\\*", "a~", "'~'", "50%", '"{a,b}"'])
def test_quoted_words_are_not(word: str):
    assert [found.expands for found in words(word)] == [False]


SHELL = shutil.which("sh")
PIECES = ["a", "B1", " ", "  ", "'", '"', "\\", "\n", "#", "=", "-", "/", ".", ";", "|", "x y", "''", "é", "%", ","]


@pytest.mark.skipif(SHELL is None, reason="no shell on this machine")
@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
@settings(max_examples=150, deadline=None)
def test_a_real_shell_reads_the_same_words(tail: str):
    found = split("program " + tail)
    if isinstance(found, str) or any(word.expands for word in found):
        return
    script = "program() { printf '%s\\0' \"$@\"; }; program " + tail
    done = subprocess.run([str(SHELL), "-c", script], capture_output=True, check=True, timeout=120)
    assert done.stdout.decode().split("\0")[:-1] == [word.text for word in found][1:] or len(found) == 1


@given(st.lists(st.text(max_size=10).filter(lambda text: "\0" not in text), min_size=1, max_size=5))
def test_what_is_quoted_well_is_read_back(given_words: list[str]):
    assert texts("run " + shlex.join(given_words)) == ["run", *given_words]


@given(st.text(max_size=60))
def test_any_text_gives_words_or_a_reason(text: str):
    assert isinstance(split(text), tuple | str)
