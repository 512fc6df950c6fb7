"""Finds conditions that hold only because a figure is unknown: it reads as 0, and the condition does not use ``has()``.

Pure. Each part of a condition is tried with the figure unset and all others first 0, then large. The condition is
doubtful if such a part holds (or, below ``!(…)``, does not hold).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from router.policy import conditions, variables
from router.policy.conditions import Condition, Read
from router.policy.variables import QueueNow, Variable
from router.site.schema import Queue, Site

_MANY: Final = 10**9
_NUMBERS: Final = frozenset({"int", "bytes", "seconds"})
_ASKING: Final = re.compile(r"\bhas\s*\(\s*$")
_PIECE: Final = re.compile(rf"{conditions.STRING}|//[^\n]*|&&|\|\||[()\[\]{{}}?:,]", re.DOTALL)
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


@dataclass(frozen=True, slots=True)
class Doubt:
    """A part of a condition that holds if a figure is unknown. ``offset`` is the figure's place in the condition."""

    offset: int
    message: str


def doubts(source: str, queues: Mapping[str, tuple[Site, Queue]]) -> Iterator[Doubt]:
    """One doubt for each figure of a condition that compiled."""
    places = list(conditions.places(source))
    settled = {_figure(read) for read, _ in places if _ASKING.search(source, 0, read.start)}
    for read, end in places:
        variable = _optional(read, queues)
        if variable is None or _figure(read) in settled:
            continue
        part = _part(source, read.start, end)
        if part is not None and part.holds_without(read, queues):
            settled.add(_figure(read))
            yield Doubt(read.start, _message(source[read.start : end], part, variable))


def _figure(read: Read) -> tuple[str, str, str]:
    return read.root, read.field, read.queue


def _optional(read: Read, queues: Mapping[str, tuple[Site, Queue]]) -> Variable | None:
    """The variable, if its value may be unknown and this means something else than 0; else None."""
    variable = next((one for one in variables.ROOTS[read.root] if one.name == read.field), None)
    if variable is None or not variable.unset:
        return None
    if read.root == "queues" and read.queue in queues:
        site, queue = queues[read.queue]
        declared = variable.read(QueueNow(queue, None, site.time_zone))
        return variable if declared is None else None
    return variable


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a condition that is true or false by itself. ``turned``: the text around it negates it."""

    text: str
    turned: bool
    expression: Any

    def holds_without(self, read: Read, queues: Mapping[str, tuple[Site, Queue]]) -> bool:
        """Whether it can hold while the figure is unknown."""
        tried = (self.expression.eval(_values(read, queues, others)).value() for others in (0, _MANY))
        return any(value is (not self.turned) for value in tried)


def _message(figure: str, part: _Part, variable: Variable) -> str:
    figure, text = " ".join(figure.split()), " ".join(part.text.split())
    verb = "is false, too," if part.turned else "also holds"
    zero = "false" if variable.kind == "maybe" else "0"
    return (
        f"'{text}' {verb} if {variable.unset}, as the figure then reads {zero}; "
        f"write has({figure}) && … before it, or !has({figure}) || … if that is intended"
    )


def _part(source: str, start: int, end: int) -> _Part | None:
    """The smallest part around a place that is true or false by itself: between && and ||, in or around brackets."""
    for left, right, turned in _around(source, start, end):
        text = source[left:right].strip()
        made = conditions.compile_condition(text) if text else ()
        if isinstance(made, Condition):
            return _Part(text, turned, made.expression)
    return None


def _around(source: str, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Parts around a place, from the smallest: first and last offset, and whether ``!`` before brackets negates it."""
    opened = _before(source, start)
    turns = [bool(re.search(r"!\s*$", source[:bracket])) for bracket, _ in opened]
    for around, (_, left), right in zip(range(len(opened), 0, -1), reversed(opened), _after(source, end), strict=True):
        yield left, right, sum(turns[:around]) % 2 == 1


def _before(source: str, start: int) -> list[tuple[int, int]]:
    """The brackets that are open at a place, from the outermost (the condition itself, at 0).

    For each: its offset, and the offset at which its last part begins.
    """
    opened = [(0, 0)]
    for match in _PIECE.finditer(source, 0, start):
        piece = match[0]
        if piece in _OPENING:
            opened.append((match.start(), match.end()))
        elif piece in _CLOSING:
            opened.pop()
        elif piece in {"&&", "||", "?", ":", ","}:
            opened[-1] = (opened[-1][0], match.end())
    return opened


def _after(source: str, end: int) -> list[int]:
    """The offsets at which the parts around a place end, from the innermost bracket on."""
    ends: list[int] = []
    depth, ended = 0, False
    for match in _PIECE.finditer(source, end):
        piece = match[0]
        if piece in _OPENING:
            depth += 1
        elif piece in _CLOSING and depth:
            depth -= 1
        elif depth:
            continue
        elif piece in _CLOSING:
            ends += [] if ended else [match.start()]
            ended = False
        elif piece in {"&&", "||", "?", ":", ","} and not ended:
            ends.append(match.start())
            ended = True
    return ends if ended else [*ends, len(source)]


def _values(read: Read, queues: Mapping[str, tuple[Site, Queue]], others: int) -> Any:
    """Values for a condition in which one figure is unset and all others have the value ``others``."""
    job = variables.filled("Job", _figures(variables.JOB, others, read.field if read.root == "job" else ""))
    request = variables.filled("Request", {})
    messages = {}
    for key in queues:
        unset = read.field if read.root == "queues" and read.queue == key else ""
        messages[key] = variables.filled("Queue", _figures(variables.QUEUE, others, unset))
    return conditions.activation(job, request, messages)


def _figures(known: tuple[Variable, ...], others: int, unset: str) -> dict[str, Any]:
    found: dict[str, Any] = {one.name: others for one in known if one.kind in _NUMBERS and one.name != unset}
    return found | {one.name: bool(others) for one in known if one.kind == "maybe" and one.name != unset}
