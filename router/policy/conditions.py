"""Compiles and type-checks the CEL conditions of rules once, and evaluates them for each Job.

Pure. Knows the CEL library (``cel-expr-python``, Google's own runtime), but not rules. The library has two traps, found
by measuring:

- An evaluation error is a value of type ERROR that is truthy in Python. So a condition holds only if ``value() is
  True``.
- Building an activation costs 1.4 microseconds for each queue. So it gets only the queues that conditions name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from cel_expr_python import cel

from router.notation import durations, quantity
from router.policy import faults, variables

Verdict = bool | str
"""Whether a condition holds; a text with the reason if it could not be evaluated."""


@dataclass(frozen=True, slots=True)
class Read:
    """One variable that a condition reads. ``queue`` is the key under ``queues``; offsets are into the condition."""

    root: str
    field: str
    queue: str
    start: int


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that compiled. ``whole`` names the roots (``job``, ``queues``) of which it may read any field."""

    source: str
    expression: Any
    reads: tuple[Read, ...]
    whole: frozenset[str] = frozenset()

    @property
    def queues(self) -> frozenset[str]:
        """The keys under ``queues`` that the condition names."""
        return frozenset(read.queue for read in self.reads if read.root == "queues")

    def fields(self, root: str) -> frozenset[str]:
        """The fields of ``job`` or ``request`` that the condition names."""
        return frozenset(read.field for read in self.reads if read.root == root)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a condition does not compile. ``offset`` is the place in its text, in characters."""

    offset: int
    message: str


@lru_cache(maxsize=1)
def environment() -> Any:
    """The CEL environment with the router's variables and functions. Making it takes about a millisecond, once."""
    queues = cel.Type.Map(cel.Type.STRING, cel.Type(f"{variables.PACKAGE}.Queue"))
    return cel.NewEnv(
        variables.pool(),
        variables={
            "job": cel.Type(f"{variables.PACKAGE}.Job"),
            "request": cel.Type(f"{variables.PACKAGE}.Request"),
            "queues": queues,
        },
        functions=[_function(name, implementation) for name, implementation in _FUNCTIONS.items()],
    )


def _function(name: str, implementation: Any) -> Any:
    overload = cel.Overload(
        f"{name}_string", return_type=cel.Type.INT, parameters=[cel.Type.STRING], impl=implementation
    )
    return cel.FunctionDecl(name, [overload])


def compile_condition(source: str) -> Condition | tuple[Fault, ...]:
    """A condition, or everything that is wrong with it: syntax, names, types, and invalid constants."""
    try:
        expression = environment().compile(source)
    except RuntimeError as error:
        return (*_faults(source, str(error)), *(_bad_values(source) if _is_cel(str(error)) else ()))
    wrong = _bad_values(source)
    if expression.return_type() != cel.Type.BOOL:
        kind = expression.return_type().name()
        return (Fault(0, f"is {kind.lower()}, not true or false; compare it with something"), *wrong)
    if wrong:
        return wrong
    reads, whole = find_reads(source)
    return Condition(source, environment().compile(_folded(source)), reads, whole)


def named_reads(source: str) -> tuple[Read, ...]:
    """The variables that a condition names, even if it does not compile; empty if its syntax is wrong."""
    try:
        environment().compile(source)
    except RuntimeError as error:
        if not _is_cel(str(error)):
            return ()
    return find_reads(source)[0]


def activation(job: Any, request: Any, queues: Mapping[str, Any]) -> Any:
    """The values against which conditions are evaluated: messages of ``router.policy.variables``."""
    return environment().Activation({"job": job, "request": request, "queues": queues})


def evaluate(condition: Condition, values: Any) -> Verdict:
    """Whether a condition holds; the error's text if it cannot be evaluated (e.g. a missing label, an overflow)."""
    try:
        value = condition.expression.eval(values).value()
    except (
        RuntimeError
    ) as error:  # macros that take more than 10,000 turns: a user chooses how many containers there are
        return _plain_error(str(error))
    # The compiler has ensured that the result is a bool or an error; the value of an error is its text.
    return value if value is True or value is False else _plain_error(str(value))


def constant(source: str) -> int | None:
    """The value of an expression that is a whole number and reads no variable; else None."""
    try:
        expression = environment().compile(source)
    except RuntimeError:
        return None
    if expression.return_type() != cel.Type.INT or find_reads(source) != ((), frozenset()):
        return None
    result = expression.eval(activation(None, None, {}))
    return int(result.value()) if result.type() == cel.Type.INT else None


def always(source: str) -> bool:
    """Whether a condition holds for every Job because it reads no variable: ``true``, ``1 == 1``."""
    if find_reads(source) != ((), frozenset()):
        return False
    made = compile_condition(source)
    return isinstance(made, Condition) and evaluate(made, activation(None, None, {})) is True


def may_be_always(source: str) -> bool:
    """Whether a condition may hold for every Job: ``always``, or it reads no variable but fails to compile."""
    if find_reads(source) != ((), frozenset()):
        return False
    return isinstance(compile_condition(source), tuple) or always(source)


def bare(source: str) -> str:
    """A condition without comments and unneeded white space, to compare two conditions."""
    text = _SPACED.sub(lambda match: match["text"] or " ", source)
    return _NEEDLESS.sub(lambda match: match["text"] or match["sign"] or " ", text).strip()


# --- what a condition reads ------------------------------------------------------------------------------------

STRING: Final = r"""[rR]?(?:'''(?:\\.|[^\\])*?'''|\"{3}(?:\\.|[^\\])*?\"{3}|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")"""
_SPACED: Final = re.compile(rf"(?P<text>{STRING})|//[^\n]*", re.DOTALL)
_NEEDLESS: Final = re.compile(rf"\s*(?P<text>(?<![\w]){STRING})\s*|\s*(?P<sign>[^\w\s])\s*|\s+", re.DOTALL)
_TOKEN: Final = re.compile(
    rf"""(?P<comment>//[^\n]*)
    |queues\s*\[\s*(?P<queue>{STRING})\s*\](?:\s*\.\s*(?P<figure>\w+))?
    |(?P<string>{STRING})
    |(?<![\w.])(?P<root>job|request)\s*\.\s*(?P<field>\w+)
    |(?<![\w.])(?P<all>job|request|queues)\b""",
    re.VERBOSE | re.DOTALL,
)


def find_reads(source: str) -> tuple[tuple[Read, ...], frozenset[str]]:
    """The variables that a condition's text names, each once, and the roots that it uses without naming a field."""
    found: dict[tuple[str, str, str], Read] = {}
    for read, _ in places(source):
        found.setdefault((read.root, read.field, read.queue), read)
    return tuple(found.values()), frozenset(match["all"] for match in _TOKEN.finditer(source) if match["all"])


def places(source: str) -> Iterator[tuple[Read, int]]:
    """Each place where a condition's text names a variable, and the offset of its end."""
    for match in _TOKEN.finditer(source):
        if match["queue"] is not None:
            yield Read("queues", match["figure"] or "", text_of(match["queue"]), match.start()), match.end()
        elif match["root"] is not None:
            yield Read(match["root"], match["field"], "", match.start()), match.end()


def text_of(literal: str) -> str:
    """The value of a CEL string literal, as far as names need it (the only escapes are those of one character)."""
    body = literal.lstrip("rR")
    quote = 3 if body.startswith(("'''", '"""')) else 1
    return re.sub(r"\\(.)", r"\1", body[quote:-quote])


# --- errors ----------------------------------------------------------------------------------------------------

_ERROR: Final = re.compile(r"ERROR: <input>:(\d+):(\d+): ([^\n]*)")


def _faults(source: str, text: str) -> tuple[Fault, ...]:
    lines = source.split("\n")
    found = []
    for line, column, message in _ERROR.findall(text):
        before = sum(len(one) + 1 for one in lines[: int(line) - 1])
        found.append((min(before + int(column) - 1, len(source)), message.strip()))
    if found:
        return tuple(dict.fromkeys(Fault(offset, said) for offset, said in faults.explain(found, source)))
    return (Fault(0, f"cannot be compiled: {_plain_error(text)}; make it simpler, or split it into two rules"),)


def _is_cel(text: str) -> bool:
    """Whether all of the compiler's errors are about names and types, so the text has valid syntax."""
    messages = [message for _, _, message in _ERROR.findall(text)]
    return bool(messages) and not any(message.startswith("Syntax error") for message in messages)


def _plain_error(text: str) -> str:
    return re.sub(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$", "", text.strip()).partition("\n")[0]


_CONSTANT: Final = re.compile(
    rf"//[^\n]*|{STRING}|(?<![\w.])(?P<function>quantity|seconds)\s*\(\s*(?P<text>{STRING})\s*\)", re.DOTALL
)
_FUNCTIONS: Final[Mapping[str, Callable[[str], int]]] = {"quantity": quantity.units, "seconds": durations.seconds}


def _bad_values(source: str) -> tuple[Fault, ...]:
    return (*_bad_constants(source), *_bad_times(source), *_bad_patterns(source))


def _bad_constants(source: str) -> list[Fault]:
    """Errors such as ``quantity('64Gib')``, which CEL would find only when a Job comes."""
    found = []
    for match in _CONSTANT.finditer(source):
        if match["function"] is not None:
            try:
                _FUNCTIONS[match["function"]](text_of(match["text"]))
            except ValueError as error:
                found.append(Fault(match.start("text"), str(error)))
    return found


_TIME: Final = re.compile(
    rf"//[^\n]*|(?P<call>\.\s*get[A-Z]\w+\s*\(|(?<![\w.])(?:timestamp|duration)\s*\()\s*(?P<text>{STRING})\s*\)|{STRING}",
    re.DOTALL,
)


def _bad_times(source: str) -> Iterator[Fault]:
    """Errors such as ``getHours('Europe/Berln')``, ``timestamp('noon')``, which CEL finds only when a Job comes."""
    for match in _TIME.finditer(source):
        if (call := match["call"]) is None:
            continue
        zone, literal = call.startswith("."), match["text"]
        if zone and (problem := zone_problem(text_of(literal))):
            yield Fault(match.start("text"), problem)
        elif not zone and isinstance(said := _value(f"{call}{literal})"), str):
            yield Fault(match.start("text"), said)


def zone_problem(name: str) -> str:
    """Why CEL does not know a time zone; empty if it does."""
    if not name or isinstance(_value(f"timestamp(0).getHours({json.dumps(name)})"), str):
        if isinstance(_value("timestamp(0).getHours('Europe/Berlin')"), str):
            return "this machine knows only UTC and offsets such as +02:00; install tzdata"
        return f"{name!r} is not a time zone; write a name such as Europe/Berlin, or UTC"
    return ""


def _value(source: str) -> object:
    """The value of an expression that reads no variable; if it fails, the reason as text."""
    try:
        result = environment().compile(source).eval(activation(None, None, {}))
    except RuntimeError as error:
        return str(error)
    return _plain_error(str(result.value())) if result.type() == cel.Type.ERROR else result.value()


_STEP: Final = re.compile(
    rf"//[^\n]*|{STRING}|(?P<call>(?<!\w)matches\s*\()|(?P<open>[(\[{{])|(?P<close>[)\]}}])|(?P<comma>,)", re.DOTALL
)


def _patterns(source: str) -> Iterator[tuple[int, str]]:
    """The last argument of each ``matches(…)``, with its offset: the pattern, in both ways to call ``matches``."""
    # For each open bracket of a call of ``matches``, where its last argument begins; for other brackets, None.
    starts: list[int | None] = []
    for match in _STEP.finditer(source):
        if match["call"] or match["open"]:
            starts.append(match.end() if match["call"] else None)
        elif match["comma"] and starts and starts[-1] is not None:
            starts[-1] = match.end()
        elif match["close"] and starts and (start := starts.pop()) is not None:
            text = source[start : match.start()]
            yield start + len(text) - len(text.lstrip()), text.strip()


def made_patterns(source: str) -> tuple[str, ...]:
    """The patterns of ``matches`` that contain values of a Job, so their syntax can be checked only for each Job."""
    return tuple(text for _, text in _patterns(source) if _tried(text) is None)


def _bad_patterns(source: str) -> list[Fault]:
    """Errors in patterns such as ``matches('(')``.

    CEL would read a pattern only when a Job comes. Evaluating it now gives the error in RE2's own words.
    """
    found = []
    for offset, text in _patterns(source):
        result = _tried(text)
        if result is not None and result.type() != cel.Type.BOOL:
            hint = (
                "; this is a regular expression, not a glob: write .* for any text"
                if text.lstrip("rR\"'").startswith(("*", "?"))
                else ""
            )
            found.append(Fault(offset, f"{_plain_error(str(result.value()))}{hint}"))
    return found


def _tried(pattern: str) -> Any:
    """The result of matching an empty text with a pattern; None if the pattern reads a variable, e.g. a macro's."""
    if find_reads(pattern) != ((), frozenset()):
        return None
    try:
        return environment().compile(f"''.matches({pattern})").eval(activation(None, None, {}))
    except RuntimeError:
        return None


def _folded(source: str) -> str:
    """The condition with numbers in place of ``quantity('64Gi')``: CEL would call the function again for each Job."""

    def number(match: re.Match[str]) -> str:
        function = match["function"]
        return match[0] if function is None else str(_FUNCTIONS[function](text_of(match["text"])))

    return _CONSTANT.sub(number, source)
