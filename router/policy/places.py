"""Finds the place of an entry or value in a policy file, and makes the excerpt with a caret that shows it.

Pure. Knows texts, lines and columns; a column counts characters from 1, as editors do.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from router.errors import Problem
from router.notation.documents import Document, Place

_BREAK: Final = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")  # the ends of lines, as libyaml counts them
_WIDEST: Final = 160
_HEX_ESCAPES: Final = {"x": 2, "u": 4, "U": 8}
_WHITE_ESCAPES: Final = frozenset("abtnvfreNLP_0 \t")


@dataclass(frozen=True)
class PolicyText:
    """The text of one file, by lines."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def lines(self) -> list[str]:
        """The lines, without their ends."""
        return _BREAK.split(self.text)

    def problem(self, position: tuple[int, int], where: str, message: str) -> Problem:
        """A problem at a line and column."""
        line, column = position
        return Problem(self.name, line, column, where, message, excerpt(self.lines, line, column))


def excerpt(lines: list[str], line: int, column: int) -> str:
    """A line with a caret under a column; of a long line, only the part around the caret."""
    if not 1 <= line <= len(lines):
        return ""
    text = lines[line - 1].rstrip()
    start = max(0, column - _WIDEST // 2) if len(text) > _WIDEST else 0
    shown = text[start : start + _WIDEST]
    indent = "".join(_blank(character) for character in shown[: max(0, column - 1 - start)])
    return f"  | {shown}\n  | {indent}^"


def _blank(character: str) -> str:
    if character == "\t":
        return character
    if unicodedata.combining(character):
        return ""
    return "  " if unicodedata.east_asian_width(character) in "WF" else " "


@dataclass(frozen=True)
class Spot:
    """One entry or value of a file: its document, the path to it, and its name in messages."""

    file: PolicyText
    document: Document
    path: tuple[str | int, ...]
    where: str

    @property
    def line(self) -> str:
        """``file:line`` of the entry."""
        return f"{self.file.name}:{self.document.position(self.path)[0]}"

    def raw(self, *below: str | int) -> Any:
        """The value at a path below, as it is written. The path must exist."""
        value = self.document.value
        for part in (*self.path, *below):
            value = value[part]
        return value

    def problem(self, message: str, *below: str | int) -> Problem:
        """A problem with the value at a path below."""
        return self.file.problem(self.document.position((*self.path, *below)), self.where, message)

    def key_problem(self, message: str, *below: str | int) -> Problem:
        """A problem with the key at a path below."""
        return self.file.problem(self.document.key_position((*self.path, *below)), self.where, message)

    def text_problem(self, message: str, offset: int, value: str, *below: str | int) -> Problem:
        """A problem at a character of the text at a path below, in any YAML style."""
        place = self.document.place((*self.path, *below))
        return self.file.problem(locate(self.file.lines, place, value, offset), self.where, message)


def locate(lines: list[str], place: Place, value: str, offset: int) -> tuple[int, int]:
    """Line and column of one character of a scalar's value.

    Every YAML style keeps the order of the characters other than white space. So the n-th of these in the value is the
    n-th in the file, for plain and quoted scalars over several lines and for literal and folded blocks.
    """
    wanted = sum(not character.isspace() for character in value[:offset])
    after = offset >= len(value) or value[offset].isspace()
    last = (place.line, place.column)
    for index, position in enumerate(_visible(lines, place)):
        if index == wanted and not after:
            return position
        last = (position[0], position[1] + 1)
        if index + 1 == wanted and after:
            break
    return last


def _visible(lines: list[str], place: Place) -> Iterator[tuple[int, int]]:
    """The positions of a scalar's characters other than white space."""
    for line, column, text in _content(lines, place):
        index = 0
        while index < len(text):
            width, visible = _unit(text, index, place.style)
            if visible:
                yield line, column + index
            index += width


def _content(lines: list[str], place: Place) -> Iterator[tuple[int, int, str]]:
    """The lines of a scalar without quotes and block header: line, column of the first character, text."""
    first, start = place.line, place.column - 1
    last, end = place.end[0], place.end[1] - 1
    if place.style in {"|", ">"}:
        first, start = first + 1, 0
    else:
        start += _properties(lines[first - 1][start:])
        if place.style:
            start, end = start + 1, end - 1
    for line in range(first, min(last, len(lines)) + 1):
        text = lines[line - 1]
        stop = end if line == last else len(text)
        begin = start if line == first else 0
        yield line, begin + 1, text[begin:stop]


_PROPERTIES: Final = re.compile(r"(?:[&!]\S*\s+)*")


def _properties(text: str) -> int:
    """The length of an anchor and a tag before a scalar; 0 without them."""
    found = _PROPERTIES.match(text)
    return found.end() if found else 0


def _unit(text: str, index: int, style: str) -> tuple[int, bool]:
    """How many characters of the file make one character of the value, and whether that one is visible."""
    character = text[index]
    if style == "'" and text.startswith("''", index):
        return 2, True
    if style == '"' and character == "\\":
        following = text[index + 1 : index + 2]
        if following in _HEX_ESCAPES:
            return 2 + _HEX_ESCAPES[following], True
        return 2, following != "" and following not in _WHITE_ESCAPES
    return 1, not character.isspace()
