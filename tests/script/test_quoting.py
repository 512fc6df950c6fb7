"""One word in, the same bytes out of a real bash."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.script.quoting import quote, shown, words
from tests.script.nasty import NASTY
from tests.script.running import SHELL


def spoken(texts: list[str]) -> list[bytes]:
    """What bash makes of the quoted words."""
    text = f"values=({words(texts)})\nprintf '%s\\0' \"${{values[@]}}\"\n"
    run = subprocess.run([SHELL], input=text.encode(), capture_output=True, check=True, env={"LC_ALL": "C"})
    assert run.stderr == b""
    return run.stdout.split(b"\0")[:-1] if texts else []


def test_the_table_arrives_byte_for_byte() -> None:
    assert spoken(NASTY) == [text.encode() for text in NASTY]


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=30))
def test_any_text_arrives_byte_for_byte(texts: list[str]) -> None:
    assert spoken(texts) == [text.encode() for text in texts]


@given(TEXT)
def test_a_word_is_on_one_line(text: str) -> None:
    assert len(quote(text).splitlines()) == 1


@given(TEXT)
def test_a_comment_is_on_one_line(text: str) -> None:
    assert len(f"# {shown(text)}".splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "''"),
        ("plain-1.0/x:y", "plain-1.0/x:y"),
        ("a b", "'a b'"),
        ("it's", r"'it'\''s'"),
        ("$(reboot)", "'$(reboot)'"),
        ("a,b", "'a,b'"),
        ("~root", "'~root'"),
        ("a\nb\t'\\", r"$'a\nb\t\'\\'"),
        ("\x01\x7f", r"$'\001\177'"),
    ],
)
def test_spelling(text: str, expected: str) -> None:
    assert quote(text) == expected


def test_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        quote("a\0b")
