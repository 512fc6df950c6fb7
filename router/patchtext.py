"""A JSON Patch as an AdmissionReview carries it: JSON in base64.

Pure. Nearly all of a patch is the script, and nearly all of a script is the same in thousands of them: writing that
part as JSON and as base64 takes as long as sizing a Job, so it is done once and kept.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

Operation = Mapping[str, Any]

_JSON: Final = json.JSONEncoder(separators=(",", ":"))
_PLACE: Final = "\0common\0"
_WRITTEN_PLACE: Final = _JSON.encode(_PLACE)[1:-1]
_TRIPLE: Final = 3
"""Bytes that base64 writes without looking at what is beside them."""


def encoded(operations: Sequence[Operation], text: str = "", common: str = "") -> str:
    """The operations as base64 of JSON.

    :param text: an operation's value, or an entry of one, whose end is to be written in the kept form
    :param common: that end, the same in many patches; empty where there is none
    """
    if common and (short := _shortened(operations, text, text.removesuffix(common) + _PLACE)) is not None:
        before, _, after = _JSON.encode(short).partition(_WRITTEN_PLACE)
        # A text of a user can look like our mark, too: then which is which cannot be told.
        if _WRITTEN_PLACE not in after:
            return _joined(before.encode(), common, after.encode())
    return _base64(_JSON.encode(operations).encode())


def _shortened(operations: Sequence[Operation], text: str, short: str) -> list[Operation] | None:
    """The operations with ``short`` where ``text`` stands first; None where it stands nowhere."""
    for index, operation in enumerate(operations):
        if (changed := _exchanged(operation, text, short)) is not operation:
            return [*operations[:index], changed, *operations[index + 1 :]]
    return None


def _exchanged(value: Any, text: str, short: str) -> Any:
    if value.__class__ is not dict:
        return short if value == text else value
    for key, below in value.items():
        if below.__class__ is dict or below == text:
            changed = _exchanged(below, text, short)
            if changed is not below:
                return {**value, key: changed}
    return value


def _joined(before: bytes, common: str, after: bytes) -> str:
    # Blanks before JSON mean nothing; they make the kept part begin where a triple does.
    whole, rest = _kept(common)
    return _base64(b" " * (-len(before) % _TRIPLE) + before) + whole + _base64(rest + after)


@lru_cache(maxsize=32)
def _kept(common: str) -> tuple[str, bytes]:
    """The text's characters as JSON in base64, as far as they are whole triples, and the bytes that are left."""
    written = _JSON.encode(common)[1:-1].encode()
    whole = len(written) - len(written) % _TRIPLE
    return _base64(written[:whole]), written[whole:]


def _base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()
