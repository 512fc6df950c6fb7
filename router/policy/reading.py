"""Reads policy files into entries: parses the YAML, then checks each entry with the models of ``router.policy.schema``.

Pure. Finds problems within one entry; ``router.policy.checks`` finds those between entries. An entry with a problem is
left out, and the others are read, so that all problems are found at once.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Final, Generic, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from router.errors import InputError, Problem
from router.notation import documents
from router.notation.documents import Document
from router.policy.misspelt import keys, nearest
from router.policy.places import PolicyText, Spot
from router.policy.schema import Account, Controller, PolicyTest, Rule, RuleDefaults
from router.site.schema import Entry, Site

KINDS: Final[Mapping[str, tuple[str, type[Entry]]]] = {
    "sites": ("site", Site),
    "accounts": ("account", Account),
    "controllers": ("controller", Controller),
    "rules": ("rule", Rule),
    "tests": ("test", PolicyTest),
}
SINGLE: Final[Mapping[str, tuple[str, type[Entry]]]] = {"ruleDefaults": ("rule_defaults", RuleDefaults)}
"""Keys that hold one mapping, which stands in one file only: its list in a ``Reading``, and its model."""
_TOP_KEYS: Final = (*KINDS, *SINGLE)
MANIFEST_KINDS: Final = frozenset({"Job", "CronJob"})
T = TypeVar("T", bound=Entry)


@dataclass(frozen=True, slots=True)
class Placed(Generic[T]):
    """An entry and its place in the files."""

    value: T
    spot: Spot


@dataclass(slots=True)
class Reading:
    """The content of a directory's files.

    :param manifests: Kubernetes objects that tests may name, by file
    :param others: kind and place of objects other than Jobs and CronJobs
    :param broken: the kinds of which some entry could not be read
    :param conditions: conditions of rules that could not be read, with their places
    :param named: names and places of all entries by kind, including those that could not be read
    :param ends_read: whether the last rule that was read is surely the last one in the files
    """

    sites: list[Placed[Site]] = field(default_factory=list)
    accounts: list[Placed[Account]] = field(default_factory=list)
    controllers: list[Placed[Controller]] = field(default_factory=list)
    rules: list[Placed[Rule]] = field(default_factory=list)
    rule_defaults: list[Placed[RuleDefaults]] = field(default_factory=list)
    tests: list[Placed[PolicyTest]] = field(default_factory=list)
    manifests: dict[str, Mapping[str, object]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    others: list[tuple[str, Spot]] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    conditions: list[tuple[str, Spot]] = field(default_factory=list)
    named: dict[str, list[tuple[str, Spot]]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    ends_read: bool = False

    def lacks(self, kinds: Collection[str]) -> None:
        """Note that an entry of these kinds could not be read."""
        self.broken.update(kinds)
        if "rules" in kinds:
            self.ends_read = False


def read(files: Mapping[str, str]) -> Reading:
    """Read all files, in the order of their names. Problems are in the result instead of being raised."""
    reading = Reading()
    for name in sorted(files):
        try:
            found = documents.parse(files[name], name)
        except InputError as error:
            reading.problems.append(_unreadable(PolicyText(name, files[name]), str(error)))
            reading.lacks(KINDS)
            continue
        text = PolicyText(name, files[name])
        for document in found:
            _read_document(reading, text, document)
    return reading


_PLACE: Final = re.compile(r":(\d+)(?::(\d+))?: ", re.DOTALL)


def _unreadable(text: PolicyText, message: str) -> Problem:
    rest = message.removeprefix(text.name)
    match = _PLACE.match(rest)
    if match is None:
        return Problem(text.name, 0, 0, "", rest.removeprefix(": "))
    return text.problem((int(match[1]), int(match[2] or 1)), "", rest[match.end() :])


def _read_document(reading: Reading, text: PolicyText, document: Document) -> None:
    value = document.value
    top = Spot(text, document, (), "")
    if not isinstance(value, dict):
        reading.problems.append(top.problem(f"a policy file must be a mapping with {', '.join(_TOP_KEYS)}"))
        reading.lacks(KINDS)
        return
    if "apiVersion" in value and "kind" in value:
        _read_manifest(reading, text, top, value)
        return
    for key, entries in value.items():
        if key in SINGLE:
            _read_single(reading, key, entries, top, Spot(text, document, (key,), key))
        elif key not in KINDS:
            reading.problems.append(top.key_problem(f"unknown key {key!r}{nearest(key, list(_TOP_KEYS))}", key))
            reading.lacks(difflib.get_close_matches(key, KINDS, n=1))
        elif isinstance(entries, list):
            for index, entry in enumerate(entries):
                _read_entry(reading, key, entry, Spot(text, document, (key, index), _label(key, index, entry)))
        elif entries is not None:
            reading.problems.append(top.problem(f"{key} must be a list; start each entry with '-'", key))
            reading.lacks([key])


def _read_single(reading: Reading, key: str, value: object, top: Spot, spot: Spot) -> None:
    listed, model = SINGLE[key]
    found: list[Placed[Entry]] = getattr(reading, listed)
    if found:
        message = f"{key} already stands in {found[0].spot.line}; the files are joined, so write it once"
        reading.problems.append(top.key_problem(message, key))
        return
    try:
        found.append(Placed(model.model_validate(value, by_alias=True, by_name=False), spot))
    except ValidationError as error:
        reading.problems.extend(_problem(detail, model, spot) for detail in error.errors(include_url=False))


def _read_manifest(reading: Reading, text: PolicyText, top: Spot, value: Mapping[str, object]) -> None:
    """Read a Job for tests. A policy in the form of a Kubernetes object is a problem, as it would be ignored."""
    kind = str(value["kind"])
    for within, below in (("", value), ("spec.", value.get("spec"))):
        if found := [key for key in _TOP_KEYS if isinstance(below, dict) and key in below]:
            message = (
                f"is a Kubernetes object of kind {kind} with {within}{found[0]}, but a policy file is not a Kubernetes "
                f"object: remove apiVersion, kind, metadata and spec, and write {found[0]}: at the first column"
            )
            reading.problems.append(top.key_problem(message, "kind"))
            reading.lacks(KINDS)
            return
    if kind not in MANIFEST_KINDS:
        reading.others.append((kind, top))
    reading.manifests.setdefault(text.name, value)


def _label(kind: str, index: int, entry: object) -> str:
    name = entry.get("name") if isinstance(entry, dict) else None
    if kind == "accounts" and isinstance(entry, dict):
        name = entry.get("as")
    return f"{KINDS[kind][0]} {name}" if isinstance(name, str) and name else f"{kind}[{index}]"


def _read_entry(reading: Reading, kind: str, entry: object, spot: Spot) -> None:
    model = KINDS[kind][1]
    if isinstance(entry, dict) and isinstance(name := entry.get("name"), str) and name:
        reading.named[kind].append((name, spot))
    try:
        value = model.model_validate(entry, by_alias=True, by_name=False)
    except ValidationError as error:
        details = error.errors(include_url=False)
        reading.problems.extend(_problem(detail, model, spot) for detail in details if not _follows(detail, details))
        reading.lacks([kind])
        if kind == "rules" and isinstance(entry, dict) and isinstance(entry.get("when"), str) and entry["when"].strip():
            reading.conditions.append((entry["when"], spot))
    else:
        getattr(reading, kind).append(Placed(value, spot))
        reading.ends_read |= kind == "rules"


def _follows(detail: ErrorDetails, details: list[ErrorDetails]) -> bool:
    """Whether a list counts as too short only because its entries are wrong."""
    here = detail["loc"]
    return detail["type"] == "too_short" and any(
        other["loc"][: len(here)] == here and len(other["loc"]) > len(here) for other in details
    )


# --- pydantic's messages, reworded -------------------------------------------------------------------------------

_WORDS: Final = {
    "missing": "is missing",
    "string_type": "must be text; put it in quotes if it looks like a number or like yes and no",
    "int_type": "must be a whole number, without quotes and without a fraction",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false, without quotes",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list; start each entry with '-'",
    "list_type": "must be a list; start each entry with '-'",
    "dict_type": "must be a mapping of keys and values",
    "model_type": "must be a mapping of keys and values",
    "model_attributes_type": "must be a mapping of keys and values",
    "string_too_short": "is empty",
    "too_short": "is empty: it needs at least one entry",
}


def _problem(detail: ErrorDetails, model: type[Entry], spot: Spot) -> Problem:
    location = tuple(part for part in detail["loc"] if part != "[key]")
    if detail["type"] == "extra_forbidden":
        key = str(location[-1])
        known = keys(_model_at(model, location[:-1]))
        return spot.key_problem(f"unknown key {_path(location)!r}{nearest(key, known)}", *location)
    message = said(detail)
    if not location:
        return spot.problem(f"an entry {message}")
    return spot.problem(f"{_path(location)} {message}", *location)


_SHAPES: Final = {
    "enum": "is {input}; it must be {expected}",
    "string_pattern_mismatch": "is {input}, which does not have the form {pattern}",
    "greater_than_equal": "is {input}; it must be at least {ge}",
    "string_too_long": "is longer than {max_length} characters",
    "value_error": "{error}",
}


def said(detail: ErrorDetails) -> str:
    """What is wrong with a value, as a clause that continues its name."""
    kind = detail["type"]
    if detail["input"] in (None, "") and kind in {"string_type", "string_too_short"}:
        return "is empty; write true or a condition" if detail["loc"] == ("when",) else "is empty"
    if kind in _WORDS:
        return _WORDS[kind]
    if kind == "literal_error" and detail["ctx"]["expected"] == "True":
        return f"is {_as_yaml(detail['input'])}; it must be true, without quotes"
    if kind == "literal_error":
        expected = detail["ctx"]["expected"].replace("False", "false").replace("True", "true")
        return f"is {_as_yaml(detail['input'])}; it must be {expected}"
    if kind in _SHAPES:
        return _SHAPES[kind].format(input=_as_yaml(detail["input"]), **detail.get("ctx", {}))
    return detail["msg"][:1].lower() + detail["msg"][1:]


def _as_yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)[:80]


def _path(location: tuple[str | int, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _model_at(model: type[BaseModel], location: tuple[str | int, ...]) -> type[BaseModel] | None:
    """The model of the mapping at a path below an entry."""
    current: type[BaseModel] | None = model
    for part in location:
        if isinstance(part, int) or current is None:
            continue
        fields = current.model_fields
        info = next((info for name, info in fields.items() if part in {info.alias, name}), None)
        current = next(_models(info.annotation), None) if info is not None else None
    return current


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in {Union, UnionType, tuple, list}:
        for argument in get_args(annotation):
            yield from _models(argument)
