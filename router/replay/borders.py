"""The sizes at which rules begin to hold, for a plot of sizes.

Pure. A border is a comparison of ``job.cpus``, ``job.totalCpus`` or ``job.walltime`` with a number, anywhere in a rule's
condition. What else the condition asks is left out, so a border is where to look, and no proof.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from router.notation import durations
from router.policy.model import Policy
from router.policy.syntaxtree import Call, Constant, Field, Name, Tree, children, tree_of
from router.values import unchanging

_FIELDS: Final = ("cpus", "totalCpus", "walltime")
_COMPARISONS: Final = frozenset({"_<_", "_<=_", "_>_", "_>=_", "_==_"})


@unchanging
class Border:
    """``field``: cpus or totalCpus (cores), or walltime (seconds). ``words``: the comparison."""

    rule: str
    field: str
    value: int
    words: str

    @property
    def timed(self) -> bool:
        """Whether it is one of walltimes, else of cores."""
        return self.field == "walltime"


def borders(policy: Policy) -> tuple[Border, ...]:
    """The borders of all rules, in their order."""
    return tuple(
        dict.fromkeys(border for rule in policy.rules for border in _borders(rule.name, tree_of(rule.condition.source)))
    )


def _borders(rule: str, tree: Tree) -> Iterator[Border]:
    match tree:
        case Call(function, (left, right)) if function in _COMPARISONS:
            sign = function.strip("_")
            if (field := _field(left)) and (value := _value(right)):
                yield Border(rule, field, value, f"{field} {sign} {_shown(field, value)}")
            elif (field := _field(right)) and (value := _value(left)):
                yield Border(rule, field, value, f"{_shown(field, value)} {sign} {field}")
        case _:
            for below in children(tree):
                yield from _borders(rule, below)


def _field(tree: Tree) -> str:
    match tree:
        case Field(Name("job"), name, False) if name in _FIELDS:
            return name
        case _:
            return ""


def _value(tree: Tree) -> int:
    """The number, or 0 if it is none above 0."""
    match tree:
        case Constant(bool()):
            return 0
        case Constant(int(value)):
            return max(value, 0)
        case Call("seconds", (Constant(str(text)),)):
            return durations.seconds(text)
        case _:
            return 0


def _shown(field: str, value: int) -> str:
    return durations.show(value) if field == "walltime" else str(value)
