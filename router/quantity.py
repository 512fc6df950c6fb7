"""Kubernetes quantities (``500m``, ``1.5Gi``, ``1e3``) as exact whole numbers.

Pure. The grammar is that of ``k8s.io/apimachinery/pkg/api/resource`` (quantity.go); like the API server, a value is
rounded up to a whole unit. The official client's ``parse_quantity`` reads the same values (a test compares the two),
but also takes ``NaN`` and ``1_000``, and importing it costs more than judging a Job.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Final

_GRAMMAR: Final = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?")
_SCALE: Final = {
    "n": Decimal(1).scaleb(-9),
    "u": Decimal(1).scaleb(-6),
    "m": Decimal(1).scaleb(-3),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
_LONGEST: Final = 64
_LARGEST: Final = 2**63 - 1  # the API server caps quantities at 2^63-1
_LARGEST_EXPONENT: Final = 18


def millis(quantity: object) -> int:
    """CPU as the scheduler counts it: thousandths of a core, rounded up. ValueError says what is wrong."""
    return _whole(_decimal(str(quantity)) * 1000)


def units(quantity: object) -> int:
    """Bytes or devices: whole units, rounded up. ValueError says what is wrong."""
    return _whole(_decimal(str(quantity)))


def _whole(value: Decimal) -> int:
    whole = int(value.to_integral_value(rounding=ROUND_CEILING))
    if whole > _LARGEST:
        raise ValueError("is larger than 2^63-1, the largest quantity there is")
    return whole


@lru_cache(maxsize=4096)
def _decimal(text: str) -> Decimal:
    match = _GRAMMAR.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        shown = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
        raise ValueError(f"{shown!r} is not a quantity such as 500m, 2, 1.5Gi or 1e3")
    number, suffix, exponent = match.groups()
    value = Decimal(number)
    if value < 0:
        raise ValueError(f"{text!r} is negative; a request cannot be")
    if suffix:
        return value * _SCALE[suffix]
    if exponent:
        power = int(exponent)
        if abs(power) > _LARGEST_EXPONENT:
            raise ValueError(f"{text!r} has an exponent beyond {_LARGEST_EXPONENT}")
        return value.scaleb(power)
    return value


_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def show_bytes(value: int) -> str:
    """Bytes for people, exact: the largest binary unit that divides them (``1536Mi``)."""
    unit = ""
    for suffix in _BINARY:
        if not value or value % 1024:
            break
        value, unit = value // 1024, suffix
    return f"{value}{unit}"


def show_cpu(value: int) -> str:
    """Millicores for people: ``2``, ``500m``."""
    return f"{value}m" if value % 1000 else str(value // 1000)
