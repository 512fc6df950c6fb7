"""Reads Kubernetes quantities (``500m``, ``1.5Gi``, ``1e3``) as exact whole numbers, and writes them.

Pure. The grammar is that of ``k8s.io/apimachinery/pkg/api/resource`` (quantity.go). Values are rounded up to a whole
unit, as by the API server. The official client's ``parse_quantity`` reads the same values (a test compares the two),
but it also accepts ``NaN`` and ``1_000``, and importing it takes longer than judging a Job.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

_GRAMMAR: Final = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?")
_SCALE: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
_LONGEST: Final = 64
_LARGEST: Final = 2**63 - 1  # the API server caps quantities at 2^63-1
_LARGEST_EXPONENT: Final = 18


def millis(quantity: object) -> int:
    """Thousandths of a unit, rounded up, as the API server keeps requests. ValueError says what is wrong.

    CPU is counted in thousandths. Sums of other resources are made in thousandths and then rounded up to whole units.
    """
    return _millis(str(quantity))


def units(quantity: object) -> int:
    """Bytes or devices: whole units, rounded up. ValueError says what is wrong."""
    return -(-_millis(str(quantity)) // 1000)


@lru_cache(maxsize=4096)
def _millis(text: str) -> int:
    value = math.ceil(_exact(text) * 1000)
    if value > _LARGEST * 1000:
        raise ValueError(f"{text!r} is larger than 2^63-1, the largest quantity there is")
    return value


def _exact(text: str) -> Fraction:
    match = _GRAMMAR.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        shown = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
        raise ValueError(f"{shown!r} is not a quantity such as 500m, 2, 1.5Gi or 1e3")
    number, suffix, exponent = match.groups()
    value = Fraction(number)
    if value < 0:
        raise ValueError(f"{text!r} is negative; write 0 or more")
    if suffix:
        return value * _SCALE[suffix]
    if exponent:
        power = int(exponent)
        if abs(power) > _LARGEST_EXPONENT:
            raise ValueError(f"{text!r} has an exponent beyond {_LARGEST_EXPONENT}")
        return value * Fraction(10) ** power
    return value


_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def show_bytes(value: int) -> str:
    """Bytes for people, exact, in the shorter spelling: ``1536Mi``, ``3G`` (not ``3000000000``), ``1 byte``."""
    if value % 1000 and value % 1024:
        return "1 byte" if value == 1 else f"{value} bytes"
    return min(_in_units(value, 1024, ("", *_BINARY)), _in_units(value, 1000, ("", *"kMGTPE")), key=len)


def _in_units(value: int, step: int, units: tuple[str, ...]) -> str:
    """The largest unit that divides the value.

    :param step: how much larger each unit is than the one before it
    """
    power = 0
    while value and value % step == 0 and power < len(units) - 1:
        value, power = value // step, power + 1
    return f"{value}{units[power]}"


def show_cpu(value: int) -> str:
    """Millicores for people: ``2``, ``500m``."""
    return f"{value}m" if value % 1000 else str(value // 1000)
