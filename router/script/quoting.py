"""Turns text into a word of bash. No other code in the project writes a manifest's value into a script.

Pure. A quoted word is always on one line. So the content of a value never begins a line, where it would be a command or
a directive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+=:./-]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\x80-\x9f\u2028\u2029]")
_ESCAPES: Final = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\\": r"\\", "'": r"\'"}
_ESCAPED: Final = re.compile(r"[\x01-\x1f\x7f\x80-\x9f\u2028\u2029\\']")


def quote(text: str) -> str:
    """The text as one word of bash (4.2 or later), byte for byte, on one line. Raises ValueError for NUL."""
    if _PLAIN.fullmatch(text):
        return text
    if not _CONTROL.search(text):
        return "'" + text.replace("'", r"'\''") + "'"
    if "\0" in text:
        raise ValueError("a NUL character cannot be passed to a process")
    return f"$'{_ESCAPED.sub(_escape, text)}'"


def words(texts: Iterable[str]) -> str:
    """Several words, with blanks between."""
    return " ".join([quote(text) for text in texts])


def shown(text: str) -> str:
    """The text for a comment: characters that could end its line become ``?``."""
    return _CONTROL.sub("?", text) if _CONTROL.search(text) else text


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return _ESCAPES.get(character) or "".join(f"\\{byte:03o}" for byte in character.encode())
