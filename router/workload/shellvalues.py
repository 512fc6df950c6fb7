"""Works out words of shell text whose values are known before it runs.

Pure. Known are literals, variables that the manifest or a plain assignment sets, ``${A:-b}``, whole-number arithmetic,
and ``$(nproc)``, which is the number of cores asked for. Everything else is None: known only when it runs. What a
sourced file sets is out of sight, so a variable counts as it was before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

from router.workload.expand import Environment

if TYPE_CHECKING:
    from tree_sitter import Node

_LONGEST_VALUE: Final = 1024  # characters; names, options and numbers are shorter, and values may grow in a loop
_MOST_WORDS: Final = 128
_LARGEST: Final = 10**9
_SPLITS: Final = re.compile(r"[ \t\n]")
_PATTERN: Final = re.compile(r"[*?\[]")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPE_QUOTED: Final = re.compile(r"\\([$`\"\\\n])")
_NPROC: Final = re.compile(rb"(?:\$\(|`)\s*nproc\s*[)`]")
_REFERENCE: Final = re.compile(rb"\$\((\w+)\)")
_ARITHMETIC: Final[Mapping[str, Callable[[int, int], int | None]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b if a >= 0 and b > 0 else None,
    "%": lambda a, b: a % b if a >= 0 and b > 0 else None,
}


class _Unset(Enum):
    UNSET = 0


UNSET: Final = _Unset.UNSET
Value = str | None | _Unset
"""A variable's value, None if it is known only when it runs, or UNSET."""


class Scope:
    """The variables of a shell at one place of its text.

    :param environment: the container's variables
    :param cores: what ``nproc`` prints; None without a request
    :param arguments: the positional parameters from ``$0`` on; None if they are known only when it runs
    """

    def __init__(self, environment: Environment, cores: int | None, arguments: tuple[str | None, ...] | None) -> None:
        self.environment = environment
        self.cores = cores
        self.arguments = arguments
        self.values: dict[str, Value] = {}
        self.blind = False
        """Whether no variable is known, as it is open which shell expands it."""

    def copy(self, arguments: tuple[str | None, ...] | None = None) -> Scope:
        """A scope for a subshell or a branch. With arguments it is that of a function's call."""
        other = Scope(self.environment, self.cores, self.arguments if arguments is None else arguments)
        other.values = dict(self.values)
        other.blind = self.blind
        return other

    def blinded(self) -> Scope:
        """A scope in which no variable is known."""
        other = self.copy()
        other.arguments, other.blind = None, True
        return other

    def get(self, name: str) -> Value:
        """The value of a variable or a positional parameter."""
        if self.blind:
            return None
        if name.isdigit():
            place = int(name) if len(name) < 4 else 1000
            if self.arguments is None:
                return None
            return self.arguments[place] if place < len(self.arguments) else UNSET
        if name in self.values:
            return self.values[name]
        if self.environment.is_later(name):
            return None
        return self.environment.values.get(name, UNSET)

    def set(self, name: str, value: Value) -> None:
        """Note an assignment."""
        long = isinstance(value, str) and len(value) > _LONGEST_VALUE
        self.values[name] = None if long else value

    def forget(self, *others: Mapping[str, Value]) -> None:
        """Make unknown what any of the branches has set otherwise: it is open which of them runs."""
        for values in others:
            for name, value in values.items():
                if self.get(name) != value:
                    self.values[name] = None


def words_of(node: Node, scope: Scope) -> list[str | None]:
    """The words that one argument becomes. One that may become any number of words counts as one unknown word."""
    if node.type in ("simple_expansion", "expansion", "command_substitution"):
        value = _special(node, scope)
        if value is None or _PATTERN.search(value):
            return [None]
        split = value.split(maxsplit=_MOST_WORDS)
        return list(split) if len(split) <= _MOST_WORDS else [None]
    if node.type == "string" and _text(node) in ('"$@"', '"${@}"'):
        return [None] if scope.arguments is None else list(scope.arguments[1:])
    return [word_of(node, scope, splits=True)]


def word_of(node: Node, scope: Scope, *, splits: bool = False) -> str | None:
    """The value of a node as one word; None if it is known only when it runs.

    :param splits: whether the shell would split an expansion at blanks, which is then unknown
    """
    kind = node.type
    if kind in ("word", "variable_name", "special_variable_name", "extglob_pattern", "regex"):
        return _ESCAPE.sub(lambda match: "" if match[1] == "\n" else match[1], _text(node))
    if kind == "number":
        return None if node.named_children else _text(node)
    if kind == "raw_string":
        return scope.environment.known(_text(node)[1:-1])
    if kind == "string":
        return _string(node, scope)
    if kind == "concatenation":
        parts = [word_of(child, scope, splits=splits) for child in node.children]
        whole = sum(child.end_byte - child.start_byte for child in node.children) == node.end_byte - node.start_byte
        return "".join([part for part in parts if part is not None]) if whole and None not in parts else None
    value = _special(node, scope)
    return None if value is None or (splits and (_SPLITS.search(value) or _PATTERN.search(value))) else value


def _special(node: Node, scope: Scope) -> str | None:
    if node.type in ("simple_expansion", "expansion"):
        return _expansion(node, scope)
    if node.type == "command_substitution":
        return _substitution(node, scope)
    if node.type == "arithmetic_expansion":
        inside = node.named_children
        number = _number(inside[0], scope) if len(inside) == 1 else None
        return None if number is None else str(number)
    return None


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def quoted_text(node: Node) -> str | None:
    """A string in double quotes with its expansions as they are written; None for another node."""
    return _unquoted((node.text or b"")[1:-1]) if node.type == "string" else None


def _string(node: Node, scope: Scope) -> str | None:
    """A string in double quotes. The tree leaves some blanks out, so what lies between its nodes is literal."""
    source, parts = node.text or b"", []
    begin, position = node.start_byte, 1
    for child in node.children[1:]:
        last = child.type == '"' and child.end_byte == node.end_byte
        if child.type == "string_content" or (not last and not child.is_named):
            continue
        parts.append(_unquoted(source[position : child.start_byte - begin]))
        position = child.end_byte - begin
        if last:
            break
        value = word_of(child, scope)
        if value is None or len(value) > _LONGEST_VALUE:
            return None
        parts.append(value)
    return "".join(parts)


def _unquoted(literal: bytes) -> str:
    return _ESCAPE_QUOTED.sub(lambda match: "" if match[1] == "\n" else match[1], literal.decode("utf-8", "replace"))


def _substitution(node: Node, scope: Scope) -> str | None:
    """``$(nproc)``, or a reference of Kubernetes, which looks like a substitution and is replaced before."""
    text = node.text or b""
    if match := _REFERENCE.fullmatch(text):
        name = match[1].decode()
        if name in scope.environment.values:
            return scope.environment.values[name]
        if scope.environment.is_later(name):
            return None
    return str(scope.cores) if _NPROC.fullmatch(text) and scope.cores is not None else None


def _expansion(node: Node, scope: Scope) -> str | None:
    """``$A``, ``${A}``, ``${A:-b}`` and ``${A:=b}``."""
    inside = [child for child in node.children if child.type not in ("$", "${", "}")]
    if not inside or inside[0].type not in ("variable_name", "special_variable_name"):
        return None
    name = _text(inside[0])
    if inside[0].type == "special_variable_name" and not name.isdigit():
        return None
    value = scope.get(name)
    if value is None or len(inside) > 1:
        return None if value is None else _with_default(name, value, inside[1:], scope)
    if value is UNSET:  # the image or a sourced file may set it
        return "" if name in scope.values or name.isdigit() else None
    return value


def _with_default(name: str, value: str | _Unset, rest: Sequence[Node], scope: Scope) -> str | None:
    """The value of ``${NAME:-default}``, of whose text ``rest`` is what follows the name."""
    operator = rest[0].type
    if operator not in (":-", "-", ":=", "=") or len(rest) > 2:
        return None
    if isinstance(value, str) and (value or operator in ("-", "=")):
        return value
    default = "" if len(rest) == 1 else word_of(rest[1], scope)
    if operator in (":=", "="):
        scope.set(name, default)
    return default


def _number(node: Node, scope: Scope) -> int | None:
    """The value of an arithmetic expression, as far as it is one of known whole numbers."""
    if node.type == "parenthesized_expression":
        inside = node.named_children
        return _number(inside[0], scope) if len(inside) == 1 else None
    if node.type == "binary_expression" and len(node.children) == 3:
        left, right = _number(node.children[0], scope), _number(node.children[2], scope)
        work = _ARITHMETIC.get(_text(node.children[1]))
        found = work(left, right) if work is not None and left is not None and right is not None else None
        return found if found is not None and abs(found) <= _LARGEST else None
    if node.type in ("variable_name", "word") and not _text(node).isdigit():
        value = scope.get(_text(node))
        text = value if isinstance(value, str) else ""
    else:
        text = word_of(node, scope) or ""
    if not text.isascii() or not text.isdigit() or len(text) > 9 or (text.startswith("0") and text != "0"):
        return None
    return int(text)
