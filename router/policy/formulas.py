"""Formulas of and, or and literals over CEL expressions, kept short as they are built.

Pure. There is no ``not``: each literal knows its opposite. Every step keeps the value that CEL computes, also where a
literal fails for an object: in CEL, ``false && error`` is false and ``true || error`` is true, in either order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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


def size(formula: Formula) -> int:
    """How many literals a formula has, those that stand in it several times included."""
    if isinstance(formula, Every | AnyOf):
        return sum(map(size, formula.parts))
    return int(isinstance(formula, Literal))


def depth(formula: Formula) -> int:
    """How many groups are within each other."""
    return 1 + max(map(depth, formula.parts)) if isinstance(formula, Every | AnyOf) else 0


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


def simplified(formula: Formula, known: frozenset[Literal] = frozenset()) -> Formula:
    """The formula without what changes nothing, where the ``known`` literals are true.

    A literal decides the whole of its group unless it has the neutral value. So the other parts only count where it has
    that value: ``a && (!a || b)`` is ``a && b``.
    """
    match formula:
        case Literal():
            return formula in known or (~formula not in known and formula)
        case Every() | AnyOf():
            return _simplified_group(formula, known)
        case _:
            return formula


def _simplified_group(group: Every | AnyOf, known: frozenset[Literal]) -> Formula:
    kind, neutral = type(group), isinstance(group, Every)
    parts: tuple[Formula, ...] = group.parts
    while True:
        literals = {one for one in parts if isinstance(one, Literal) and one not in known and ~one not in known}
        inside = known | {one if neutral else ~one for one in literals}
        found = (simplified(one, known if isinstance(one, Literal) else inside) for one in parts)
        whole = _joined(found, kind, neutral=neutral)
        # Literals that have come out of a part decide the other parts too.
        if not isinstance(whole, kind) or {one for one in whole.parts if isinstance(one, Literal)} <= literals:
            return whole
        parts = whole.parts


def _joined(parts: Iterable[Formula], kind: type[Every | AnyOf], *, neutral: bool) -> Formula:
    """The parts joined in one group, each once; a group within a group of its own kind is opened."""
    kept = [one for one in dict.fromkeys(_flat(parts, kind)) if one is not neutral]
    literals = {one for one in kept if isinstance(one, Literal)}
    if any(isinstance(one, bool) for one in kept) or any(~one in literals for one in literals):
        return not neutral
    kept = [one for one in kept if not _is_implied(one, kept)]
    return neutral if not kept else kept[0] if len(kept) == 1 else kind(tuple(kept))


def _flat(parts: Iterable[Formula], kind: type[Every | AnyOf]) -> Iterator[Formula]:
    for part in parts:
        yield from part.parts if isinstance(part, kind) else (part,)


def _is_implied(one: Formula, kept: Iterable[Formula]) -> bool:
    """Whether a part changes nothing beside another: ``a || a && b`` is ``a``, and ``a && (a || b)`` is ``a``."""
    if not isinstance(one, Every | AnyOf):
        return False
    inside = frozenset(one.parts)
    return any(other in inside or (isinstance(other, Every | AnyOf) and set(other.parts) < inside) for other in kept)
