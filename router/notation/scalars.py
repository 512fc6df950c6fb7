"""Reads one scalar of a YAML file as kubectl does.

Pure. The rules are those of ``sigs.k8s.io/yaml`` (YAML to JSON with Go's YAML 1.1 library), as ``kubectl annotate
--local -o json`` shows them: ``yes``, ``y`` and ``on`` are true; ``017`` and ``0o17`` are 15; ``1_000`` is 1000;
``1e3`` is 1000; dates and base 60 are text; numbers beyond Go's range (``1e400``) are text.
"""

from __future__ import annotations

import base64
import math
import re
from typing import Final

_TAG: Final = "tag:yaml.org,2002:"
_TRUE: Final = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE: Final = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_NULL: Final = ("", "~", "null", "Null", "NULL")
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(_NULL, None),
}
_NOT_FINITE: Final = frozenset(sign + word for word in (".inf", ".Inf", ".INF") for sign in ("", "+", "-")) | {
    ".nan",
    ".NaN",
    ".NAN",
}
_INT: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NUMBER_START: Final = frozenset("0123456789+-.")
_LONGEST_NUMBER: Final = 400
_INT64: Final = 2**63

Scalar = str | int | float | bool | None


def read(text: str, tag: str | None, *, plain: bool) -> Scalar:
    """The value of one scalar. Raises ValueError if JSON cannot carry it, or its tag is wrong."""
    if tag is None:
        return _plain(text) if plain else text
    kind = tag.removeprefix(_TAG)
    if tag == "!" or kind in {"str", "timestamp"}:
        return text
    if kind == "binary":
        return _binary(text)
    if not tag.startswith(_TAG) or kind not in _FITS:
        raise ValueError(f"has the tag {tag}, which JSON cannot carry; remove it")
    value = _plain(text)
    if not isinstance(value, _FITS[kind]) or (isinstance(value, bool) and kind != "bool"):
        raise ValueError(f"{text[:40]!r} is not of type {kind}, although its tag says so")
    return value


_FITS: Final[dict[str, tuple[type, ...]]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "null": (type(None),),
}


def _binary(text: str) -> str:
    try:
        return base64.b64decode(text).decode()
    except ValueError:
        raise ValueError("is not base64 text, although its tag says so") from None


def _plain(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_START or len(text) > _LONGEST_NUMBER:
        return text
    if text in _NOT_FINITE:
        raise ValueError(f"{text} is not a number that JSON can carry; put it in quotes if it is text")
    return _number(text)


def _number(text: str) -> Scalar:
    bare = text.replace("_", "")
    match = _INT.fullmatch(bare)
    if match is not None:
        sign, *digits = match.groups()
        value = next(int(group, base) for group, base in zip(digits, (16, 2, 8, 10), strict=True) if group is not None)
        if value < (_INT64 if sign != "-" else _INT64 + 1):
            return -value if sign == "-" else value
        if digits[3] is None:
            return text
    if _FLOAT.fullmatch(bare) is None:
        return text
    number = float(bare)
    if math.isinf(number):
        return text
    return int(number) if number.is_integer() and abs(number) < _INT64 else number
