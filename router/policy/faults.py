"""Rewords the messages of CEL's compiler so that they say what to write instead.

Pure. Knows the compiler's messages, the variables' names and the text of the condition; compiles nothing.
"""

from __future__ import annotations

import difflib
import re
from typing import Final

from router.policy import variables

_NO_FIELD: Final = re.compile(r"undefined field '(\w+)' not found in struct 'batchgate\.(\w+)'")
_NO_NAME: Final = re.compile(r"undeclared reference to '([\w.]+)'.*")
_NO_OVERLOAD: Final = re.compile(r"found no matching overload for '([^']*)' applied to '([^']*)'.*")
_NO_TOKEN: Final = re.compile(r"token recognition error at: '(=>|[=&|])")
_ROOT_OF: Final = {"Job": "job", "Request": "request", "Queue": "queues['…']"}
_TOKENS: Final = {"=": "compare with ==", "=>": "write >=", "&": "write && for and", "|": "write || for or"}
_MACROS: Final = ("exists", "exists_one", "all", "filter", "map", "has")
_METHODS: Final = ("contains", "endsWith", "startsWith", "matches", "exists", "exists_one", "all", "filter", "map")
_OF_TIME: Final = ("getFullYear", "getMonth", "getDate", "getDayOfWeek", "getDayOfYear", "getHours", "getMinutes")
_FUNCTIONS: Final = (
    *_METHODS,
    *_OF_TIME,
    "timestamp",
    "has",
    "size",
    "quantity",
    "seconds",
    "int",
    "string",
    "double",
    "bool",
    "duration",
)
_LITERAL: Final = r"""(?P<text>'[^'\n]*'|"[^"\n]*")"""


def explain(found: list[tuple[int, str]], source: str) -> list[tuple[int, str]]:
    """The compiler's offsets and messages, reworded for people and without errors that only follow from others."""
    tokens = [(offset, message) for offset, message in found if _NO_TOKEN.search(message)]
    if tokens:
        found = tokens
    else:
        macros = [(offset, message) for offset, message in found if _meant(message, offset, source) in _MACROS]
        found = macros or found
    return [_explain(offset, message, source) for offset, message in found]


def _meant(message: str, offset: int, source: str) -> str:
    """The known function that is nearest to the unknown one in a message; empty if there is none."""
    match = _NO_NAME.search(message)
    if match is None or source[offset : offset + 1] != "(":
        return ""
    folded = [name for name in _FUNCTIONS if name.lower() == match[1].lower()]
    near = folded or difflib.get_close_matches(match[1], _FUNCTIONS, n=1)
    return near[0] if near else ""


def _explain(offset: int, message: str, source: str) -> tuple[int, str]:
    message = message.removesuffix("[INVALID_ARGUMENT]").strip()
    if match := _NO_TOKEN.search(message):
        return offset, f"{match[1]} is not an operator; {_TOKENS[match[1]]}"
    if match := _NO_FIELD.search(message):
        name, kind = match.groups()
        known = [variable.name for variable in variables.MESSAGES.get(kind, ())]
        return _behind_dot(offset, name, source), f"{_ROOT_OF.get(kind, kind)} has no {name!r}" + _nearest(name, known)
    if match := _NO_NAME.search(message):
        if source[offset : offset + 1] == "(":
            return _at(offset - len(match[1]), match[1], source, offset), _no_function(
                match[1], offset, message, source
            )
        return _no_name(match[1], offset, source)
    if match := _NO_OVERLOAD.search(message):
        return offset, _no_overload(match[1], match[2], offset, source)
    return offset, _before_expecting(message)


def _at(offset: int, name: str, source: str, otherwise: int) -> int:
    return offset if offset >= 0 and source.startswith(name, offset) else otherwise


def _behind_dot(offset: int, name: str, source: str) -> int:
    match = re.compile(r"\.\s*").match(source, offset)
    return _at(match.end(), name, source, offset) if match else offset


def _no_function(name: str, offset: int, message: str, source: str) -> str:
    meant = _meant(message, offset, source)
    if name in _METHODS:
        return f"{name} is called on a value, as in request.namespace.{name}(…)"
    if name in _OF_TIME:
        return f"{name} is called on a value, as in request.time.{name}('Europe/Berlin')"
    return f"there is no function {name!r}" + (f"; did you mean {meant}?" if meant else _nearest(name, [*_FUNCTIONS]))


def _no_name(name: str, offset: int, source: str) -> tuple[int, str]:
    names = [f"{root}.{v.name}" for root in ("job", "request") for v in variables.ROOTS[root]]
    short = {known.partition(".")[2]: known for known in names}
    start = _at(offset - name.rfind("."), name, source, offset) if "." in name else offset
    if name in short:
        return start, f"there is no {name!r}; did you mean {short[name]}?"
    if re.search(r"[=!]=\s*$", source[:start]) and not difflib.get_close_matches(name, names, n=1):
        return start, f"there is no {name!r}; if it is text, put it in quotes: '{name}'"
    return start, f"there is no {name!r}{_nearest(name, names)}"


def _no_overload(operator: str, types: str, offset: int, source: str) -> str:
    operator, types = operator.strip("_@"), types.strip("()").replace("batchgate.", "")
    said = f"{operator} does not work on {types.replace(', ', ' and ').replace('google.protobuf.', '').replace('Duration', 'duration')}"
    return said + _instead(operator, types, source[:offset], source[offset:])


def _instead(operator: str, types: str, before: str, after: str) -> str:
    """What to write instead of an operator that does not fit its operands."""
    if "int" in types and "double" in types:
        return "; figures are whole numbers: write 3, not 3.0"
    if "Duration" in types:
        match = re.search(rf"duration\s*\(\s*{_LITERAL}", after) or re.search(rf"duration\s*\(\s*{_LITERAL}", before)
        return f"; times are whole seconds: write seconds({match['text'] if match else '…'})"
    if types == "int, string":
        return _figure(before, after)
    if types == "list(string), string":
        match = re.search(rf"^\W*(?:contains|in)?\W*{_LITERAL}", after)
        return f"; for a list write {match['text'] if match else 'x'} in {_last_name(before)}"
    return "; compare on both sides, as in a == 'x' || a == 'y'" if operator in {"||", "&&"} else ""


def _figure(before: str, after: str) -> str:
    """What to write instead of ``job.memory > '64Gi'``: the function for the variable's kind."""
    name = _last_name(before).rpartition(".")[2]
    kinds = {variable.kind for known in variables.ROOTS.values() for variable in known if variable.name == name}
    match = re.match(rf"\W{{1,2}}\s*{_LITERAL}", after)
    if match is None:
        return ""
    function = "quantity" if "bytes" in kinds else "seconds" if "seconds" in kinds else ""
    return (
        f"; write {function}({match['text']})"
        if function
        else f"; write a number, without quotes: {match['text'][1:-1]}"
    )


def _last_name(before: str) -> str:
    match = re.search(r"([\w.]+)\s*\.?\s*(?:contains)?\s*$", before)
    return match[1].removesuffix("contains").strip(".") if match else "the list"


def _before_expecting(message: str) -> str:
    if "mismatched input '<EOF>'" in message:
        return "the condition ends too early"
    hint = (
        "; write quantity('64Gi') for sizes, seconds('2h') for times"
        if re.search(r"input '[KMGTPEkmhd]i?'", message)
        else ""
    )
    if re.search(r"input '(and|or|not|AND|OR|NOT)'", message):
        hint = "; write && for and, || for or, ! for not"
    return message.partition(" expecting ")[0].replace("Syntax error: ", "syntax: ") + hint


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
