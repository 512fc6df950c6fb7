"""Reads objects one after the other from a text of any length, as ``kubectl get`` prints them: JSON, else YAML.

Pure: it is given a function that reads on. A List stands for its items, which are never in memory together: with 50,000
Jobs they would take some gigabytes. A text that begins like JSON is read as that, which is far quicker.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from router.errors import InputError
from router.notation import documents, scalars

Read = Callable[[int], str]
"""Reads on: some characters, about as many as it is asked for; an empty text at the end."""

LARGEST: Final = 64 * 1024 * 1024
"""Most characters of one object. The API server takes objects of 3 MiB."""
_LIST: Final = "List"
_PIECE: Final = 1024 * 1024
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_OPENED: Final = re.compile(r"[ \t\r\n]*(\{[ \t\r\n]*)?")
_IS_JSON: Final = re.compile(r'[ \t\r\n]*\{[ \t\r\n]*["}]')
_LONG: Final = 19
"""Digits with which a number may be too large for a whole one."""
_SHORT_CUT: Final = 16
"""So near to the end of what was read, an error may be for want of the rest, and a number may go on."""


def objects(read: Read, source: str) -> Iterator[tuple[Any, int]]:
    """Each object with its line. Raises InputError, with source and line, for any other text.

    The items of any mapping with a list ``items`` stand for it: its ``kind``, which comes after them, is not awaited.
    """
    head = ""
    while _OPENED.fullmatch(head) and (piece := read(_PIECE)):
        head += piece
    if _IS_JSON.match(head):
        return _of_json(_Text(head, read, source))
    return documents.each(_Rest(head, read), source)


def item_of(listed: Mapping[str, Any], item: Any) -> Any:
    """An item of a list. Those of the API server's own lists, such as JobList, have no kind: it is that of the list.

    As kubectl does it (decodeToList, apimachinery/pkg/apis/meta/v1/unstructured).
    """
    kind = str(listed.get("kind"))
    lacks = isinstance(item, dict) and not {"apiVersion", "kind"} & item.keys()
    known = kind.endswith(_LIST) and kind != _LIST and "apiVersion" in listed
    return {"apiVersion": listed["apiVersion"], "kind": kind.removesuffix(_LIST), **item} if lacks and known else item


class _Rest:
    """A stream whose beginning was read already."""

    def __init__(self, head: str, read: Read) -> None:
        self._head = head
        self._read = read

    def read(self, size: int = _PIECE) -> str:
        head, self._head = self._head[:size], self._head[size:]
        return head or self._read(size)


class _Text:
    """The part of a text that was read and not yet taken; ``at`` is where it goes on."""

    def __init__(self, head: str, read: Read, source: str) -> None:
        self.text = head
        self.at = 0
        self._read = read
        self._source = source
        self._line = 1
        self._counted = 0

    def line(self) -> int:
        """The line of what comes next."""
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def more(self) -> bool:
        """Read on; False at the end. What was taken is forgotten."""
        self.line()
        self.text, self.at, self._counted = self.text[self.at :], 0, 0
        piece = self._read(max(_PIECE, len(self.text)))
        self.text += piece
        return bool(piece)

    def peek(self) -> str:
        """The next character that is no blank; empty at the end."""
        while True:
            match = _BLANK.match(self.text, self.at)
            self.at = self.at if match is None else match.end()
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def take(self, allowed: str) -> str:
        """Take the next character, which must be one of these."""
        found = self.peek()
        if not found or found not in allowed:
            raise self.error(f"expected {' or '.join(allowed)}")
        self.at += 1
        return found

    def value(self) -> Any:
        """Take a whole value."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                problem = self.error(f"{error.msg[:1].lower()}{error.msg[1:]}", error.pos)
                if not self._may_go_on(error):
                    raise problem from None
                if len(self.text) - self.at > LARGEST:
                    raise self.error(f"a value is larger than {LARGEST // 1024**2} MiB") from None
                if not self.more():
                    raise problem from None
            except (ValueError, RecursionError) as error:
                raise self.error("nested too deep" if isinstance(error, RecursionError) else str(error)) from None
            else:
                length = end - self.at
                if len(self.text) - end < _SHORT_CUT and self.more():
                    continue
                self.at += length
                return value

    def _may_go_on(self, error: json.JSONDecodeError) -> bool:
        return error.msg.startswith("Unterminated") or error.pos >= len(self.text) - _SHORT_CUT

    def error(self, why: str, place: int | None = None) -> InputError:
        line = self.line() + (0 if place is None else self.text.count("\n", self.at, place))
        return InputError(f"{self._source}:{line}: is not JSON: {why}")


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not allowed")


def _number(text: str) -> Any:
    """A number as kubectl reads it: ``2.0`` is the whole number 2."""
    return int(text) if len(text) < _LONG and text.isdigit() else scalars.read(text, None, plain=True)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=documents.unique,
    parse_constant=_refused,
    parse_int=_number,
    parse_float=_number,
)


def _of_json(text: _Text) -> Iterator[tuple[Any, int]]:
    """The objects of JSON values that follow each other, with or without YAML's ``---`` between them."""
    while first := text.peek():
        if first != "-":
            yield from _object(text)
            continue
        for _ in range(3):
            text.take("-")


def _object(text: _Text) -> Iterator[tuple[Any, int]]:
    text.take("{")
    line, whole, listed = text.line(), dict[str, Any](), False
    closed = text.peek() == "}" and text.take("}") == "}"
    while not closed:
        key = text.value() if text.peek() == '"' else text.take('"')
        text.take(":")
        if key in whole or (listed and key == "items"):
            raise text.error(f"key {key[:80]!r} occurs twice")
        if key == "items" and text.peek() == "[":
            listed = True
            yield from _items(text, whole)
        else:
            whole[key] = _shallow(text.value(), text)
        closed = text.take(",}") == "}"
    if not listed:
        yield whole, line


def _items(text: _Text, head: Mapping[str, Any]) -> Iterator[tuple[Any, int]]:
    text.take("[")
    closed = text.peek() == "]" and text.take("]") == "]"
    while not closed:
        text.peek()
        line = text.line()
        yield item_of(head, _shallow(text.value(), text)), line
        closed = text.take(",]") == "]"


def _shallow(value: Any, text: _Text) -> Any:
    """The value; raises InputError if it is nested too deep for code that walks it recursively."""
    level = [value]
    for _ in range(documents.DEEPEST):
        level = [
            one
            for above in level
            if isinstance(above, dict | list)
            for one in (above.values() if isinstance(above, dict) else above)
        ]
        if not level:
            return value
    raise text.error(f"nested more than {documents.DEEPEST} levels deep")
