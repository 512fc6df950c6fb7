"""Knows the names of MPI launchers and of shells.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from router.workload.wrappers import base

LAUNCHERS: Final = frozenset(["mpirun", "mpiexec", "orterun", "prterun", "srun"])
SHELLS: Final = frozenset(["sh", "bash", "dash", "ash", "ksh", "zsh"])
LONG_OPTIONS: Final = frozenset(["--login", "--norc", "--noprofile", "--posix"])
"""Long options of shells that change nothing about where the commands come from."""
_VARIANTS: Final = frozenset(["openmpi", "hydra", "mpich", "mpich2", "lam", "slurm"])
_PATTERN: Final = (
    r"(?<![\w.-])(?:mpirun|mpiexec|orterun|prterun|srun)(?:\.(?:openmpi|hydra|mpich2?|lam|slurm))?(?![\w/-]|\.\w)"
)
_MENTION: Final = re.compile(_PATTERN, re.ASCII)
_MENTION_IN_BYTES: Final = re.compile(_PATTERN.encode())
_LONGEST_SCRIPT: Final = 256 * 1024  # characters: an annotation, which holds the script, cannot be longer


def mention(words: Sequence[str]) -> str:
    """The first launcher named in the words, or an empty string. Only the first 256 Ki characters of a word count."""
    for word in words:
        # Looking for plain names first is much faster than the expression, on short words and on long ones.
        if "run" in word or "mpiexec" in word:
            found = [place for stem in LAUNCHERS if (place := _place_of(stem, word)) is not None]
            if found:
                match = _MENTION.match(word, min(found))
                return match.group() if match else ""
    return ""


def _place_of(stem: str, word: str) -> int | None:
    """The place in a word where a launcher's name stands alone; None without one."""
    place = word.find(stem, 0, _LONGEST_SCRIPT)
    while place >= 0 and not _MENTION.match(word, place):
        place = word.find(stem, place + 1, _LONGEST_SCRIPT)
    return None if place < 0 else place


def is_launcher(word: str) -> bool:
    """Whether a program is an MPI launcher, by its name."""
    name, _, variant = base(word).partition(".")
    return name in LAUNCHERS and (not variant or variant in _VARIANTS)


def mentions(text: bytes) -> list[tuple[int, str]]:
    """All launchers named in a text, each with its place in bytes."""
    if b"run" not in text and b"mpiexec" not in text:
        return []
    return [(match.start(), match.group().decode()) for match in _MENTION_IN_BYTES.finditer(text)]


def shell_string(words: Sequence[str | None]) -> int | None:
    """The position of a shell's commands in its own words (``sh -ec STRING``); None if it reads them from a file.

    Options may stand between ``-c`` and the commands: ``bash -c -e STRING``, ``sh -c -- STRING``.

    :param words: with the shell's name; None for one that is known only when it runs
    """
    position = 1
    commands = False
    while position < len(words):
        option = words[position]
        if option is None and not commands:
            return None
        if option is None or not option.startswith(("-", "+")) or option == "+":
            break
        position += 1
        if option in ("-", "--"):
            break
        if option.startswith("--"):
            position += option in ("--rcfile", "--init-file")
        else:
            position += option.count("o") + option.count("O")  # -o pipefail
            commands |= option[0] == "-" and "c" in option
    return position if commands and position < len(words) else None
