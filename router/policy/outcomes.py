"""What the API server can tell of a condition's value from a request alone.

Pure. Conditions are about a sized Job; match conditions of a webhook are about the object and the request as they are.
Each condition becomes three formulas over ``request`` and ``object``: when it may be true, when it may be false, and
when it may fail. Each formula is true more often than it must be, never less. So a condition surely holds where it
cannot be false or fail.

That ``&&`` and ``||`` absorb errors in CEL is what the formulas of the operators say: ``a && b`` fails only if one of
them fails and the other is not false. So the order of the operands has no part in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from router import names
from router.policy.formulas import Formula, Literal, any_of, every, simplified, size
from router.policy.syntaxtree import Call, Constant, Field, Items, Loop, Name, Other, Tree, children
from router.workload import bounds


@dataclass(frozen=True, slots=True)
class Outcomes:
    """For which requests a condition may be true, may be false, and may fail. A request may be among several."""

    true: Formula
    false: Formula
    fails: Formula

    @property
    def true_or_fails(self) -> Formula:
        """Unless this holds, the condition is surely false."""
        return any_of(self.fails, self.true)


def outcomes(tree: Tree) -> Outcomes:
    """The outcomes of a condition of type bool."""
    return Outcomes(true=True, false=True, fails=True) if _turns(tree) > _MOST_TURNS else _outcomes(tree)


def _outcomes(tree: Tree) -> Outcomes:
    match tree:
        case Constant(bool(value)):
            return Outcomes(value, not value, fails=False)
        case Call("!_", (one,)):
            found = _outcomes(one)
            return Outcomes(found.false, found.true, found.fails)
        case Call("_&&_", (left, right)):
            return _bounded(_and(_outcomes(left), _outcomes(right)))
        case Call("_||_", (left, right)):
            return _bounded(_negated(_and(_negated(_outcomes(left)), _negated(_outcomes(right)))))
        case Call("_?_:_", (asked, left, right)):
            return _bounded(_choice(_outcomes(asked), _outcomes(left), _outcomes(right)))
        case _:
            return _comparison(tree) or _unknown(tree)


def _negated(one: Outcomes) -> Outcomes:
    return Outcomes(one.false, one.true, one.fails)


MOST_LITERALS: Final = 100
"""Literals of one formula. Formulas of nested choices double with each level; a larger one counts as true."""


def _bounded(one: Outcomes) -> Outcomes:
    true, false, fails = map(simplified, (one.true, one.false, one.fails))
    return Outcomes(*(size(formula) > MOST_LITERALS or formula for formula in (true, false, fails)))


def _and(left: Outcomes, right: Outcomes) -> Outcomes:
    return Outcomes(
        true=every(left.true, right.true),
        false=any_of(left.false, right.false),
        fails=any_of(every(left.fails, right.true_or_fails), every(right.fails, left.true_or_fails)),
    )


def _choice(asked: Outcomes, left: Outcomes, right: Outcomes) -> Outcomes:
    return Outcomes(
        true=any_of(every(asked.true, left.true), every(asked.false, right.true)),
        false=any_of(every(asked.true, left.false), every(asked.false, right.false)),
        fails=any_of(asked.fails, every(asked.true, left.fails), every(asked.false, right.fails)),
    )


# --- comparisons that the API server can make ------------------------------------------------------------------

_USER: Final = "request.userInfo.username"
_TEXTS: Final = {
    ("request", "namespace"): "request.namespace",
    ("request", "user"): _USER,
    # The API server leaves out what is empty. These two are as the router reads them (``workload.sizing``).
    ("request", "groups"): "(has(request.userInfo.groups) ? request.userInfo.groups : [])",
    ("job", "name"): (
        "(has(object.metadata.name) ? object.metadata.name"
        " : has(object.metadata.generateName) ? object.metadata.generateName : '')"
    ),
}
_LABELS: Final = "object.metadata.labels"
_HAS_LABELS: Final = Literal(f"has({_LABELS})", f"!has({_LABELS})")
_METHODS: Final = frozenset({"startsWith", "endsWith", "contains"})


@dataclass(frozen=True, slots=True)
class _Term:
    """One side of a comparison, in the API server's CEL. ``labels``: the Job's labels without which it fails."""

    text: str
    labels: tuple[str, ...] = ()


def _comparison(tree: Tree) -> Outcomes | None:
    """The outcomes of a comparison of what the API server knows too; None for anything else."""
    match tree:
        case Call("@in", (Constant(str(key)), labels)) if _is_labels(labels):
            return _presence(key)
        case Field(operand, key, asked=True) if _is_labels(operand):
            return _presence(key)
        case Call("_==_" | "_!=_" | "@in" as function, (left, right)):
            return _compared(function, _term(left), _term(right))
        case Call(function, (left, right)) if function in _METHODS:
            return _compared(function, _term(left), _term(right))
    return None


def _compared(function: str, left: _Term | None, right: _Term | None) -> Outcomes | None:
    if left is None or right is None:
        return None
    literal = _literal(function, left.text, right.text)
    present = every(*(_has_label(key) for key in (*left.labels, *right.labels)))
    absent = any_of(*(_lacks_label(key) for key in (*left.labels, *right.labels)))
    # Where the label is missing, the comparison itself would fail in the API server.
    return Outcomes(every(present, literal), every(present, ~literal), absent)


def _literal(function: str, left: str, right: str) -> Literal:
    match function:
        case "_==_":
            return Literal(f"{left} == {right}", f"{left} != {right}")
        case "_!=_":
            return Literal(f"{left} != {right}", f"{left} == {right}")
        case "@in":
            return Literal(f"{left} in {right}", f"!({left} in {right})")
        case _:
            return Literal(f"{left}.{function}({right})", f"!{left}.{function}({right})")


def _presence(key: str) -> Outcomes | None:
    # The router strips such labels before it judges, so a rule never sees them.
    if names.is_ours(key):
        return None
    return Outcomes(_has_label(key), _lacks_label(key), fails=False)


def _has_label(key: str) -> Formula:
    return every(_HAS_LABELS, _literal("@in", _quoted(key), _LABELS))


def _lacks_label(key: str) -> Formula:
    return any_of(~_HAS_LABELS, ~_literal("@in", _quoted(key), _LABELS))


def _term(tree: Tree) -> _Term | None:
    match tree:
        case Constant(str(value)):
            return _Term(_quoted(value))
        case Field(Name(root), name, asked=False) if (root, name) in _TEXTS:
            return _Term(_TEXTS[root, name])
        case Items(elements):
            terms = [_term(one) for one in elements]
            found = [one for one in terms if one is not None]
            labels = tuple(key for one in found for key in one.labels)
            return _Term(f"[{', '.join(one.text for one in found)}]", labels) if len(found) == len(terms) else None
        case _:
            key = _label(tree)
            return None if key is None else _Term(f"{_LABELS}[{_quoted(key)}]", (key,))


def _label(tree: Tree) -> str | None:
    """The key of the label that is read, as ``job.labels['key']`` or ``job.labels.key``."""
    match tree:
        case Call("_[_]", (labels, Constant(str(key)))) | Field(labels, key, asked=False) if _is_labels(labels):
            return None if names.is_ours(key) else key
    return None


def _is_labels(tree: Tree) -> bool:
    return tree == Field(Name("job"), "labels", asked=False)


def _quoted(text: str) -> str:
    """A text as a literal of CEL, with all but printable characters escaped."""
    return f"'{''.join(map(_escaped, text))}'"


def _escaped(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"


# --- everything else -------------------------------------------------------------------------------------------


def _unknown(tree: Tree) -> Outcomes:
    """Of any other condition, only whether it may fail at all is known."""
    return Outcomes(true=True, false=True, fails=_may_fail(tree))


_SAFE: Final = frozenset(
    {"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in", "size", "!_", "_&&_", "_||_", "_?_:_"}
    | {"@not_strictly_false", "not_strictly_false", *_METHODS}
)
"""Functions that fail for no operands of the types that the compiler has let pass. Sums and products may overflow."""
_OF_TEXT: Final = frozenset({"matches", "quantity", "seconds"})
"""Functions whose last argument, if it is a literal, was tried when the policy was read."""
_OF_TIME: Final = frozenset({"getHours", "getMinutes", "getDayOfWeek", "getDate", "getMonth"})
"""Functions of times. A time zone, if it is a literal or that of a site, was tried when the policy was read."""
_MOST_TURNS: Final = 10_000
"""Turns of all macros in one evaluation, of which the CEL library allows no more (measured)."""


def _may_fail(tree: Tree) -> bool:
    match tree:
        case Constant() | Name() | Field(Name("job" | "request")):
            return False
        # A policy names only queues that it declares.
        case Call("_[_]", (Name("queues"), Constant())) | Field(Call("_[_]", (Name("queues"), Constant()))):
            return False
        case Call(function, (*_, last)) if not (function in _SAFE or _is_tried(function, last)):
            return True
        case Items(elements) if not _is_of_one_type(elements):
            return True
        case Field(asked=False) | Other():
            return True
        case _:
            return any(map(_may_fail, children(tree)))


def _is_of_one_type(elements: tuple[Tree, ...]) -> bool:
    """Whether these are literals of one type. Others may only be compared as the condition is evaluated, and fail then."""
    kinds = {type(one.value) if isinstance(one, Constant) else None for one in elements}
    return len(kinds) <= 1 and None not in kinds


def _is_tried(function: str, last: Tree) -> bool:
    """Whether a call was tried when the policy was read, with the text that it depends on."""
    if function in _OF_TIME:
        return isinstance(last, Constant) or (isinstance(last, Field) and last.name in {"time", "timeZone"})
    return function in _OF_TEXT and isinstance(last, Constant)


def _turns(tree: Tree) -> float:
    """The most turns that the macros of a tree take together for one Job."""
    match tree:
        case Loop((over, *rest)):
            return _turns(over) + _length(over) * (1 + sum(map(_turns, rest)))
        case _:
            return sum(map(_turns, children(tree)))


def _length(over: Tree) -> float:
    match over:
        case Field(Name("job")):
            return 2 * bounds.MOST_ENTRIES  # containers and init containers
        case Items(elements):
            return len(elements)
        case _:
            return math.inf
