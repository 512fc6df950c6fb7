"""Knows what the shell's own commands do to variables and parameters.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from router.workload.shellscope import Scope
from router.workload.shellsets import DECLARATIONS, SETTERS, identifiers
from router.workload.shellvalues import MANY, Expanded, arguments_of

_LASTING: Final = frozenset(["EXIT", "0", "HUP", "INT", "QUIT", "TERM"])
"""Signals that end a text: what is run then changes no variable of what is followed."""


def run_builtin(words: Sequence[Expanded], scope: Scope) -> None:
    """Note what a command of the shell sets. ``eval`` and functions are followed elsewhere.

    :param words: with its name
    """
    name = words[0]
    if isinstance(name, str) and "=" in name:  # time A=b
        scope.forget(*identifiers(name))
    elif name == "set":
        _set(words, scope)
    elif name == "shift":
        _shift(words, scope)
    elif name == "printf":
        _printf(words, scope)
    elif name in SETTERS or name in DECLARATIONS:
        _sets(words[1:], scope)
        if name == "unset":
            _unset(words[1:], scope)
    elif name in ("alias", "enable"):
        scope.blind = scope.captured = True
    elif name == "trap":
        _trap(words, scope)


def _sets(words: Sequence[Expanded], scope: Scope) -> None:
    """Words that name variables, some with their values."""
    if not all(isinstance(word, str) for word in words):
        scope.lose()
    for word in words:
        if isinstance(word, str):
            scope.forget(*identifiers(word))


def _printf(words: Sequence[Expanded], scope: Scope) -> None:
    if "-v" in words[1:2] or words[1:2] == [MANY]:
        _sets(words[2:3], scope)
    elif isinstance(words[1] if len(words) > 1 else None, str) and str(words[1]).startswith("-v"):
        scope.forget(*identifiers(str(words[1])[2:]))


def _unset(words: Sequence[Expanded], scope: Scope) -> None:
    for word in words:
        if isinstance(word, str):
            scope.functions.pop(word, None)


def _set(words: Sequence[Expanded], scope: Scope) -> None:
    """``set -eu -o pipefail -- a b``."""
    position = 1
    while position < len(words):
        word = words[position]
        if not isinstance(word, str):
            scope.arguments = None
            return
        if word in ("-", "--"):
            position += 1
            if word == "-" and position == len(words):
                return
            break
        if len(word) < 2 or word[0] not in "-+":
            break
        if "k" in word:
            scope.blind = True
        position += 1 + word.count("o")
        if position >= len(words):
            return
    else:
        return
    first = scope.arguments[0] if scope.arguments else None
    scope.arguments = arguments_of(words[position:], first)


def _shift(words: Sequence[Expanded], scope: Scope) -> None:
    number = words[1] if len(words) > 1 else "1"
    if scope.arguments is None or not isinstance(number, str) or not number.isascii() or not number.isdigit():
        scope.arguments = None
    elif len(number) < 6 and int(number) < len(scope.arguments):
        scope.arguments = (scope.arguments[0], *scope.arguments[1 + int(number) :])


def _trap(words: Sequence[Expanded], scope: Scope) -> None:
    if len(words) > 2 and not all(isinstance(word, str) and word.removeprefix("SIG") in _LASTING for word in words[2:]):
        scope.blind = True
