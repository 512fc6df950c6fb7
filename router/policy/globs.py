"""Globs over names: ``*`` any text (also ``/``), ``?`` one character, ``[ab]`` one of these. Case counts. Pure."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_WILD: Final = re.compile(r"[*?\[]")


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))


def matches(patterns: Iterable[str], text: str) -> bool:
    """Whether any of the patterns matches the whole text."""
    return any(pattern == text or _compiled(pattern).match(text) is not None for pattern in patterns)


def is_literal(pattern: str) -> bool:
    """Whether the pattern has no wildcard."""
    return _WILD.search(pattern) is None


def literal_prefix(pattern: str) -> str:
    """What every match of the pattern starts with."""
    return _WILD.split(pattern, maxsplit=1)[0]
