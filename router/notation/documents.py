"""Reads YAML (and JSON, its subset) as kubectl does, with the place of every value in the file.

Pure: takes text, and knows no Jobs or policies. Uses libyaml's events for two reasons: a value must remember its place,
and PyYAML's own constructor reads dates, base 60 and other things that kubectl does not. (kubectl turns YAML into JSON
with Go's YAML 1.1 library.) ``router.notation.scalars`` has the rules for scalars.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import yaml

from router.errors import InputError
from router.notation import scalars

DEEPEST: Final = 200
"""Most levels of nesting. Kubernetes' deepest objects (CRD schemas) have far fewer; recursion limits are far higher."""
MOST_ALIASED: Final = 100_000
"""Most values that aliases stand for in one file: real files have fewer than a hundred, alias bombs billions."""

_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BREAK: Final = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")  # the ends of lines, as libyaml counts them
_CALCULATES: Final = re.compile(r"[(.=&|]")
_Event = Any  # PyYAML's stubs know no attributes of events


@dataclass(slots=True)
class Place:
    """The place of a value; line and column count from 1.

    :param children: the places of the values below, by key or index
    :param keys: the places of the keys
    :param style: the scalar's quote or block indicator (``'``, ``"``, ``|``, ``>``); empty for a plain one
    :param end: where a scalar ends
    :param size: the number of values, with aliases expanded
    :param height: the number of levels below
    """

    line: int
    column: int
    children: dict[str | int, Place] = field(default_factory=dict)
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)
    style: str = ""
    end: tuple[int, int] = (0, 0)
    size: int = 1
    height: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file. ``value`` is made of dict, list, str, int, float, bool and None."""

    value: Any
    source: str
    root: Place

    def position(self, path: Sequence[str | int] = ()) -> tuple[int, int]:
        """Line and column of the value at that path, or of the nearest value above it that exists."""
        place = self.place(path)
        return place.line, place.column

    def key_position(self, path: Sequence[str | int]) -> tuple[int, int]:
        """Line and column of the key at the end of the path; of the value if the path does not end with a key."""
        key = path[-1] if path else None
        above = self.place(path[:-1])
        return above.keys[key] if isinstance(key, str) and key in above.keys else self.position(path)

    def place(self, path: Sequence[str | int]) -> Place:
        """The place of the value at that path, or of the nearest value above it that exists."""
        place = self.root
        for key in path:
            below = place.children.get(key)
            if below is None:
                break
            place = below
        return place


def parse(text: str, source: str) -> tuple[Document, ...]:
    """All non-empty documents of a file. Raises InputError, with file, line and column.

    Besides kubectl's errors, duplicate keys (kubectl silently keeps the last) and values that JSON cannot carry are
    errors. Aliases share their value, so the documents must not be changed in place.
    """
    try:
        return tuple(_documents(text, source))
    except yaml.MarkedYAMLError as error:
        problem = _as_json(text, source, _not_yaml(error, text, source))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = InputError(
            f"{source}:{line}: holds a character that YAML does not allow (U+{int(error.character):04X})"
        )
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        problem = InputError(f"{source}: is not YAML: {str(error).splitlines()[0]}")
    if isinstance(problem, InputError):
        raise problem
    return problem


class Stream(Protocol):
    """A text that is read bit by bit."""

    def read(self, size: int = ..., /) -> str:
        """Some characters, about so many; an empty text at the end."""


def each(stream: Stream, source: str) -> Iterator[tuple[Any, int]]:
    """The objects of a YAML text of any length, each with its line; a List stands for its items. Raises InputError.

    Only one object is in memory. The items of any mapping with a list ``items`` stand for it.
    """
    composer = _Composer(source, yaml.parse(stream, Loader=_Loader))
    try:
        for event in composer.events:
            if isinstance(event, yaml.DocumentStartEvent):
                composer.anchors.clear()
                yield from composer.each(next(composer.events))
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        raise InputError(f"{source}{where}: is not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{source}: is not YAML: {str(error).splitlines()[0]}") from None


_KEY: Final = re.compile(r"(?:^|(?<=[\s{,]))([\w.-]+):\s+(?=(\S?))")
_ONLY_BEHIND_QUOTES: Final = ("did not find expected key", "did not find expected ',' or '}'")
_HALF_QUOTED: Final = (
    *_ONLY_BEHIND_QUOTES,
    "mapping values are",
    "found character that cannot",
    "did not find expected whi",
)


def _not_yaml(error: yaml.MarkedYAMLError, text: str, source: str) -> str:
    """The message of libyaml with its place, and with advice if a value needs quotes or has an unclosed one."""
    mark: Any = error.problem_mark or error.context_mark
    problem = str(error.problem or error.context)
    if mark is None:
        return f"{source}: is not YAML: {problem}"
    opened: Any = error.context_mark if error.context == "while scanning a quoted scalar" else None
    if opened is not None and "end of stream" in problem:
        mark, problem = opened, "the quote that opens here is never closed"
    elif (began := _closed_by_another(text, mark.line)) is not None:
        mark, problem = began, f"the quote that opens here is closed only in line {mark.line + 1}"
    else:
        problem += _advice(text, mark, problem)
    return f"{source}:{mark.line + 1}:{mark.column + 1}: is not YAML: {problem}"


def _closed_by_another(text: str, line: int) -> Any:
    """The start of the quoted scalar that began in an earlier line and ends in the line of an error; else None."""
    opened = None
    try:
        for event in yaml.parse(text, Loader=_Loader):
            start: Any = event.start_mark
            end: Any = event.end_mark
            if isinstance(event, yaml.ScalarEvent) and event.style in {"'", '"'} and end.line == line:
                opened = start if start.line < line else None
    except yaml.YAMLError:
        return opened
    return None


def _advice(text: str, mark: Any, problem: str) -> str:
    lines = _BREAK.split(text)
    line = lines[mark.line] if mark.line < len(lines) else ""
    before = [match for match in _KEY.finditer(line) if match.end(1) < mark.column]
    if not before or not problem.startswith(_HALF_QUOTED):
        return ""
    key, first = before[-1].groups()
    if problem.startswith(_ONLY_BEHIND_QUOTES) and first not in {"'", '"', "{", "["}:
        return ""
    return "; put the whole condition in quotes" if key == "when" else "; if this is one value, put all of it in quotes"


def _as_json(text: str, source: str, message: str) -> tuple[Document, ...] | InputError:
    """The document read as JSON: kubectl accepts what JSON allows (surrogate escapes, long keys), libyaml does not."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return InputError(message)
    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # half a surrogate pair, 1e400
    except (ValueError, RecursionError):  # UnicodeEncodeError is a ValueError
        return InputError(message)
    return (Document(value, source, Place(1, 1)),)


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The mapping of these pairs, for ``json``. Raises ValueError if a key is there twice."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _documents(text: str, source: str) -> Iterator[Document]:
    composer = _Composer(source, yaml.parse(text, Loader=_Loader))
    for event in composer.events:
        if isinstance(event, yaml.DocumentStartEvent):
            composer.anchors.clear()
            value, root = composer.value(next(composer.events), 0)
            if value is not None:
                yield Document(value, source, root)


@dataclass(slots=True)
class _Composer:
    """Makes values and their places from the events of one file; holds its anchors and counts its aliased values."""

    source: str
    events: Iterator[_Event]
    anchors: dict[str, tuple[Any, Place] | None] = field(default_factory=dict)
    aliased: int = 0

    def each(self, event: _Event) -> Iterator[tuple[Any, int]]:
        """The items of a List whose first event this is, or else the whole value. Empty documents have none."""
        start: Any = event.start_mark
        line = start.line + 1
        if not isinstance(event, yaml.MappingStartEvent) or event.anchor is not None:
            value, _ = self.value(event, 0)
            if value is not None:
                yield from ((one, line) for one in _items(value))
            return
        self._known_tag(event, "map")
        whole: dict[str, Any] = {}
        place, listed = Place(line, start.column + 1), False
        for item in self.events:
            if isinstance(item, yaml.MappingEndEvent):
                break
            if _merges(item):
                self._merge(whole, place, item, 0)
                continue
            key, below = self._key(item, place), next(self.events)
            if key == "items" and isinstance(below, yaml.SequenceStartEvent) and below.anchor is None:
                listed = True
                yield from self._each_of(below)
            else:
                whole[key] = self.value(below, 1)[0]
        if not listed:
            yield from ((one, line) for one in _items(whole))

    def _each_of(self, event: _Event) -> Iterator[tuple[Any, int]]:
        self._known_tag(event, "seq")
        for item in self.events:
            if isinstance(item, yaml.SequenceEndEvent):
                return
            yield self.value(item, 2)[0], item.start_mark.line + 1

    def value(self, event: _Event, depth: int) -> tuple[Any, Place]:
        if isinstance(event, yaml.ScalarEvent):
            made = self._scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        else:
            if depth >= DEEPEST:
                raise self._error(event, f"is nested more than {DEEPEST} levels deep")
            if event.anchor is not None:
                self.anchors[event.anchor] = None
            made = (
                self._mapping(event, depth) if isinstance(event, yaml.MappingStartEvent) else self._list(event, depth)
            )
        if event.anchor is not None:
            self.anchors[event.anchor] = made
        return made

    def _scalar(self, event: _Event) -> tuple[Any, Place]:
        style = event.style or ""
        start, end = event.start_mark, event.end_mark
        place = Place(start.line + 1, start.column + 1, style=style, end=(end.line + 1, end.column + 1))
        try:
            return scalars.read(event.value, event.tag, plain=not style), place
        except ValueError as error:
            if event.tag and event.tag.startswith("!") and _CALCULATES.search(event.tag):
                message = "begins with !, as YAML's tags do; if it is a condition, put the whole condition in quotes"
                raise self._error(event, message) from None
            raise self._error(event, str(error)) from None

    def _alias(self, event: _Event, depth: int) -> tuple[Any, Place]:
        target = self.anchors.get(event.anchor)
        if target is None:
            known = event.anchor in self.anchors
            raise self._error(
                event,
                f"*{event.anchor} contains itself" if known else f"*{event.anchor} is not an anchor of this document",
            )
        self.aliased += target[1].size
        if self.aliased > MOST_ALIASED:
            raise self._error(event, f"aliases stand for more than {MOST_ALIASED} values; write them out")
        if depth + target[1].height > DEEPEST:
            raise self._error(event, f"*{event.anchor} makes values nest more than {DEEPEST} levels deep")
        return target

    def _list(self, event: _Event, depth: int) -> tuple[list[Any], Place]:
        self._known_tag(event, "seq")
        values: list[Any] = []
        place = Place(event.start_mark.line + 1, event.start_mark.column + 1)
        for item in self.events:
            if isinstance(item, yaml.SequenceEndEvent):
                break
            value, below = self.value(item, depth + 1)
            place.children[len(values)] = below
            values.append(value)
            _grow(place, below)
        return values, place

    def _mapping(self, event: _Event, depth: int) -> tuple[dict[str, Any], Place]:
        self._known_tag(event, "map")
        values: dict[str, Any] = {}
        place = Place(event.start_mark.line + 1, event.start_mark.column + 1)
        for item in self.events:
            if isinstance(item, yaml.MappingEndEvent):
                break
            if _merges(item):
                self._merge(values, place, item, depth)
                continue
            key = self._key(item, place)
            value, below = self.value(next(self.events), depth + 1)
            values[key] = value
            place.children[key] = below
            _grow(place, below)
        return values, place

    def _key(self, event: _Event, place: Place) -> str:
        """The key as kubectl reads it: numbers and booleans become text; all other types are refused."""
        target = self.anchors.get(str(event.anchor)) if isinstance(event, yaml.AliasEvent) else None
        if isinstance(event, yaml.ScalarEvent):
            value = self.value(event, 0)[0]
        elif target is not None and not isinstance(target[0], dict | list):
            value = target[0]
        else:
            raise self._error(event, "is not a key: keys are text")
        if value is None:
            raise self._error(event, "is not a key: keys are text; put it in quotes")
        key = value if isinstance(value, str) else json.dumps(value)
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if key in place.keys:
            first = place.keys[key][0]
            raise self._error(event, f"key {key[:80]!r} occurs twice, first in line {first}; remove one of the two")
        place.keys[key] = (line, column)
        return key

    def _merge(self, values: dict[str, Any], place: Place, event: _Event, depth: int) -> None:
        """Merge the keys of another mapping (``<<: *x``); in a list of mappings, the first with a key wins."""
        value, below = self.value(next(self.events), depth + 1)
        parts = [(value, below)]
        if isinstance(value, list):
            parts = [(part, below.children[index]) for index, part in enumerate(value)]
        for part, where in reversed(parts):
            if not isinstance(part, dict):
                raise self._error(event, "<< takes a mapping or a list of mappings")
            values.update(part)
            place.children.update(where.children)
        _grow(place, below)

    def _known_tag(self, event: _Event, kind: str) -> None:
        tag = event.tag
        if tag is not None and tag not in {"!", f"tag:yaml.org,2002:{kind}"}:
            raise self._error(event, f"has the tag {tag}, which JSON cannot carry; remove it")

    def _error(self, event: _Event, message: str) -> InputError:
        mark = event.start_mark
        return InputError(f"{self.source}:{mark.line + 1}:{mark.column + 1}: {message}")


def _items(value: Any) -> list[Any]:
    """The objects that a value stands for. It is in memory whole where an anchor names it or its items."""
    items = value.get("items") if isinstance(value, dict) else None
    return items if isinstance(items, list) else [value]


def _merges(event: _Event) -> bool:
    """Whether a key is ``<<``, which merges another mapping."""
    return isinstance(event, yaml.ScalarEvent) and event.value == "<<" and not event.style and event.tag is None


def _grow(place: Place, below: Place) -> None:
    place.size += below.size
    place.height = max(place.height, below.height + 1)
