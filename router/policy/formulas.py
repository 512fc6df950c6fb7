"""Formulas of and, or and literals over CEL expressions, kept short as they are built.

Pure. There is no ``not``: each literal knows its opposite. Every step keeps the value that CEL computes, also where a
literal fails for an object: in CEL, ``false && error`` is false and ``true || error`` is true, in either order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Literal:
    """An expression of type bool, and the one that is true where it is false."""

    text: str
    opposite: str

    def __invert__(self) -> Literal:
        return Literal(self.opposite, self.text)


@dataclass(frozen=True, slots=True)
class Every:
    """All of its parts, at least two."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of its parts, of which there are at least two."""

    parts: tuple[Formula, ...]


Formula = bool | Literal | Every | AnyOf


def every(*parts: Formula) -> Formula:
    """The formula that is true if all parts are."""
    return _joined(parts, Every, neutral=True)


def any_of(*parts: Formula) -> Formula:
    """The formula that is true if one part is."""
    return _joined(parts, AnyOf, neutral=False)


def text_of(formula: Formula) -> str:
    """The formula in CEL, on one line."""
    match formula:
        case bool():
            return "true" if formula else "false"
        case Literal():
            return formula.text
        case Every():
            inner = (f"({text_of(one)})" if isinstance(one, AnyOf) else text_of(one) for one in formula.parts)
            return " && ".join(inner)
        case AnyOf():
            return " || ".join(map(text_of, formula.parts))


def _joined(parts: Iterable[Formula], kind: type[Every | AnyOf], *, neutral: bool) -> Formula:
    """The parts joined, without what changes nothing.

    A literal decides the whole unless it has the neutral value. So the other parts only count where it has that value,
    and it is replaced by it there.
    """
    flat = list(_flat(parts, kind))
    for literal in [one for one in flat if isinstance(one, Literal)]:
        others = [one if one == literal else _assigned(one, literal, value=neutral) for one in flat]
        flat = list(_flat(others, kind))
    kept = list(dict.fromkeys(one for one in flat if one is not neutral))
    if any(isinstance(one, bool) for one in kept):
        return not neutral
    kept = [one for one in kept if not _is_implied(one, kept)]
    return neutral if not kept else kept[0] if len(kept) == 1 else kind(tuple(kept))


def _flat(parts: Iterable[Formula], kind: type[Every | AnyOf]) -> Iterable[Formula]:
    for part in parts:
        yield from part.parts if isinstance(part, kind) else (part,)


def _is_implied(one: Formula, kept: Iterable[Formula]) -> bool:
    """Whether a part changes nothing beside another: ``a || a && b`` is ``a``, and ``a && (a || b)`` is ``a``."""
    if not isinstance(one, Every | AnyOf):
        return False
    inside = frozenset(one.parts)
    return any(other in inside or (type(other) is type(one) and set(other.parts) < inside) for other in kept)


def _assigned(formula: Formula, literal: Literal, *, value: bool) -> Formula:
    """The formula where a literal has that value, and its opposite the other one."""
    match formula:
        case Every():
            return every(*(_assigned(one, literal, value=value) for one in formula.parts))
        case AnyOf():
            return any_of(*(_assigned(one, literal, value=value) for one in formula.parts))
        case _:
            return value if formula == literal else not value if formula == ~literal else formula
