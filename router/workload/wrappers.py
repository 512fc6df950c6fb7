"""Lists commands that start another command: ``timeout 600 mpirun …``, ``env A=b nice mpirun …``.

Pure tables. Sources: the manual pages of GNU coreutils, util-linux and numactl, ``tini -h``, ``dumb-init --help``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from router.values import unchanging

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_NUMBER: Final = re.compile(r"-?-?\d+")


@unchanging
class Wrapper:
    """The words of such a command before the inner one.

    :param flags: options without a value: letters, and names of long options
    :param valued: options whose value may be the next word
    :param operands: words that are no options
    :param assignments: whether variables may follow
    :param numeric: whether ``-10`` is an option
    """

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    operands: int = 0
    assignments: bool = False
    numeric: bool = False


def _wrapper(flags: str = "", valued: str = "", operands: int = 0, *, also: str = "") -> Wrapper:
    words = (frozenset(flags.split()), frozenset(valued.split()), operands)
    return Wrapper(*words, assignments=also == "assignments", numeric=also == "numbers")


_TINI: Final = _wrapper("s v g w", "p e")

WRAPPERS: Final[dict[str, Wrapper]] = {
    "!": _wrapper(),
    "builtin": _wrapper(),
    "command": _wrapper("p"),
    "coproc": _wrapper(),
    "docker-init": _TINI,
    "dumb-init": _wrapper("c single-child v verbose", "r rewrite"),
    "env": _wrapper("i ignore-environment 0 null v debug", "u unset C chdir", also="assignments"),
    "exec": _wrapper("c l", "a"),
    "gosu": _wrapper(operands=1),
    "ionice": _wrapper("t ignore", "c class n classdata"),
    "nice": _wrapper("", "n adjustment", also="numbers"),
    "nohup": _wrapper(),
    "numactl": _wrapper("l localalloc", "N cpunodebind m membind i interleave C physcpubind p preferred"),
    "setsid": _wrapper("c ctty f fork w wait"),
    "stdbuf": _wrapper("", "i input o output e error"),
    "su-exec": _wrapper(operands=1),
    "sudo": _wrapper("E preserve-env n non-interactive H set-home", "u user g group", also="assignments"),
    "taskset": _wrapper("a all-tasks c cpu-list", "", 1),
    "time": _wrapper("p portability v verbose a append q quiet", "f format o output"),
    "timeout": _wrapper("foreground preserve-status v verbose", "k kill-after s signal", 1),
    "tini": _TINI,
    "tini-static": _TINI,
}


def base(word: str) -> str:
    """The name of a program without its directory."""
    return word.rpartition("/")[2]


def inner(words: Sequence[str | None]) -> int | None:
    """The position of the first word that is no wrapper or word of one; None if a wrapper's own words are uncertain.

    It is the number of words if there is no such word. ``eval`` is no wrapper, as all its words are one text.

    :param words: of a command; None for a word that is known only when it runs
    """
    position = 0
    while position < len(words):
        word = words[position]
        wrapper = WRAPPERS.get(base(word)) if word is not None else None
        if wrapper is None:
            return position
        after = _after(wrapper, words, position + 1)
        if after is None:
            return None
        position = after
    return len(words)


def _after(wrapper: Wrapper, words: Sequence[str | None], position: int) -> int | None:
    """The position after a wrapper's own words."""
    while position < len(words):
        word = words[position]
        if word is None:
            return None
        if word == "--":
            position += 1
            break
        if len(word) < 2 or word[0] != "-":
            break
        taken = _option(wrapper, word)
        if taken is None:
            return None
        position += taken
    position += wrapper.operands
    while wrapper.assignments and position < len(words):
        word = words[position]
        if word is None or not _ASSIGNMENT.fullmatch(word):
            break
        position += 1
    return position


def _option(wrapper: Wrapper, word: str) -> int | None:
    """The number of words that an option takes with its value; None for an unknown option."""
    if wrapper.numeric and _NUMBER.fullmatch(word):
        return 1
    if word.startswith("--"):
        name, equals, _ = word[2:].partition("=")
        if name in wrapper.valued:
            return 1 if equals else 2
        return 1 if name in wrapper.flags else None
    for place, letter in enumerate(word[1:], start=2):
        if letter in wrapper.valued:
            return 1 if place < len(word) else 2
        if letter not in wrapper.flags:
            return None
    return 1
