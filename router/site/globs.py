"""Matches globs over names: ``*`` any text (also ``/``), ``?`` one character, ``[ab]`` a or b. Case counts. Pure."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

_WILD: Final = re.compile(r"[*?\[]")


@lru_cache(maxsize=4096)
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join([fnmatch.translate(pattern) for pattern in patterns]))


def matches(patterns: tuple[str, ...], text: str) -> bool:
    """Whether any of the patterns matches the whole text, or is equal to it."""
    return text in patterns or (bool(patterns) and _compiled(patterns).match(text) is not None)


def matches_any(pattern: str, texts: Sequence[str]) -> bool:
    """Whether the pattern matches any of the texts, or is equal to it."""
    return pattern in texts or (not is_literal(pattern) and any(map(_compiled((pattern,)).match, texts)))


def is_literal(pattern: str) -> bool:
    """Whether the pattern has no wildcard."""
    return _WILD.search(pattern) is None


def literal_prefix(pattern: str) -> str:
    """The text with which every match of the pattern starts."""
    return _WILD.split(pattern, maxsplit=1)[0]
