"""Splits a simple shell command into words, or says why a string is not one.

Pure. It understands quotes, backslashes, comments and line continuations, and marks words that a shell would expand. It
refuses everything else (pipelines, lists, loops, redirections, substitutions with quotes in them), also when in doubt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

LONGEST: Final = 32768

_OPERATORS: Final = {
    "&&": "a list of commands (&&)",
    "||": "a list of commands (||)",
    ";": "a list of commands (;)",
    "|": "a pipeline",
    "&": "a background command",
    "<": "a command with a redirection",
    ">": "a command with a redirection",
    "(": "a subshell or function",
    ")": "a subshell or function",
}
_SEVERAL_LINES: Final = "a script of several commands"
_BLANK: Final = " \t"
_PLAIN: Final = re.compile(r"[^\s|&;<>()'\"\\$`#*?\[\]{}~=:!]+")
_SUBSTITUTION: Final = re.compile(
    r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!_-]|\{[^{}'\"\\`$\n]*\}|\(\([^()'\"\\`\n]*\)\)|\([^()'\"\\`\n]*\))"
)
_GLOB: Final = "*?["
_RESERVED: Final = frozenset(
    ["if", "for", "while", "until", "case", "select", "function", "coproc", "do", "then", "{", "}", "!", "[[", "]]"]
)


@dataclass(frozen=True, slots=True)
class Word:
    """One word: its text without quotes, its place in the string, and whether a shell would expand it."""

    text: str
    start: int = 0
    end: int = 0
    expands: bool = False


class _NotSimpleError(Exception):
    """The string is not a simple command; carries the reason."""


def split(command: str) -> tuple[Word, ...] | str:
    """The words of one simple command; for anything else, a text that says what it is (``a pipeline``)."""
    if len(command) > LONGEST:
        return "a script that is too long to look into"
    words: list[Word] = []
    try:
        position, ended = _skip_blank(command, 0)
        while position < len(command):
            if ended and words:
                return _SEVERAL_LINES
            word = _read_word(command, position)
            if not words and word.text in _RESERVED:
                return "a loop, a condition or a group"
            words.append(word)
            position, ended = _skip_blank(command, word.end)
    except _NotSimpleError as reason:
        return str(reason)
    return tuple(words)


def _skip_blank(command: str, position: int) -> tuple[int, bool]:
    """The start of the next word, and whether a line ended before it."""
    ended = False
    while position < len(command):
        character = command[position]
        if character in _BLANK:
            position += 1
        elif character == "\n":
            ended, position = True, position + 1
        elif command.startswith("\\\n", position):
            position += 2
        elif character == "#":
            end = command.find("\n", position)
            position = len(command) if end < 0 else end
        else:
            break
    return position, ended


def _read_word(command: str, start: int) -> Word:
    pieces: list[str] = []
    expands = command[start] == "~"
    position = start
    while position < len(command):
        character = command[position]
        if character in _BLANK or character == "\n":
            break
        if plain := _PLAIN.match(command, position):
            piece, position, expanded = plain.group(), plain.end(), False
        elif character == "'":
            piece, position, expanded = _single_quoted(command, position)
        elif character == '"':
            piece, position, expanded = _double_quoted(command, position)
        else:
            piece, position, expanded = _special(command, position)
        pieces.append(piece)
        expands = expands or expanded
    return Word("".join(pieces), start, position, expands)


def _single_quoted(command: str, position: int) -> tuple[str, int, bool]:
    end = command.find("'", position + 1)
    if end < 0:
        raise _NotSimpleError("a command with an unclosed quote")
    return command[position + 1 : end], end + 1, False


def _double_quoted(command: str, position: int) -> tuple[str, int, bool]:
    pieces: list[str] = []
    expands = False
    position += 1
    while position < len(command):
        character = command[position]
        if character == '"':
            return "".join(pieces), position + 1, expands
        if character == "\\" and position + 1 < len(command):
            escaped = command[position + 1]
            if escaped != "\n":
                pieces.append(escaped if escaped in '$`"\\' else "\\" + escaped)
            position += 2
        elif character == "$":
            piece, position, expanded = _dollar(command, position)
            pieces.append(piece)
            expands = expands or expanded
        elif character == "`":
            raise _NotSimpleError("a command with a substitution in backticks")
        else:
            pieces.append(character)
            position += 1
    raise _NotSimpleError("a command with an unclosed quote")


def _special(command: str, position: int) -> tuple[str, int, bool]:
    """One special character or expansion outside quotes."""
    character = command[position]
    if character == "\\":
        if position + 1 == len(command):
            raise _NotSimpleError("a command that ends in a backslash")
        escaped = command[position + 1]
        return ("" if escaped == "\n" else escaped), position + 2, False
    if character == "$":
        if command.startswith(("$'", '$"'), position):
            raise _NotSimpleError("a command with $'…' quotes")
        return _dollar(command, position)
    if character == "`":
        raise _NotSimpleError("a command with a substitution in backticks")
    operator = command[position : position + 2]
    if operator in _OPERATORS or character in _OPERATORS:
        raise _NotSimpleError(_OPERATORS.get(operator) or _OPERATORS[character])
    expands = character in _GLOB or character == "{" or (character in "=:" and command.startswith("~", position + 1))
    return character, position + 1, expands


def _dollar(command: str, position: int) -> tuple[str, int, bool]:
    match = _SUBSTITUTION.match(command, position)
    if match is not None:
        return match.group(), match.end(), True
    if command.startswith(("$(", "${"), position):
        raise _NotSimpleError("a command with a substitution that is not plain")
    return "$", position + 1, False
