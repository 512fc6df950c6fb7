"""Works out words of shell text whose values are known before it runs.

Pure. Known are literals, variables that the manifest or a plain assignment sets, ``${A:-b}``, whole-number arithmetic,
and ``$(nproc)``, which is the number of cores asked for. Everything else is None: known only when it runs. What a
sourced file sets is out of sight, so a variable counts as it was before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal

from router.workload.shellscope import UNSET, Arguments, Scope, Value
from router.workload.shellsets import sets_of

if TYPE_CHECKING:
    from tree_sitter import Node

_LARGEST: Final = 10**9
_LONGEST_PART: Final = 4096
_PATTERN: Final = re.compile(r"[*?\[]")
_BRACES: Final = re.compile(r"\{.*(?:,|\.\.).*\}", re.DOTALL)
_SEVERAL: Final = re.compile(rb"\$@|\$\{[^}]*@")
_SPLITS: Final = re.compile(r"[ \t\n]")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPE_QUOTED: Final = re.compile(r"\\([$`\"\\\n])")
_NPROC: Final = re.compile(rb"(?:\$\(|`)\s*nproc\s*[)`]")
_REFERENCE: Final = re.compile(rb"\$\((\w+)\)")
_LIMITS: Final = ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT")
"""Variables whose number ``nproc`` prints instead."""
_ALL_ARGUMENTS: Final = ('"$@"', '"${@}"')
_EXPANSIONS: Final = frozenset(["simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"])
_ARITHMETIC: Final[Mapping[str, Callable[[int, int], int | None]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b if a >= 0 and b > 0 else None,
    "%": lambda a, b: a % b if a >= 0 and b > 0 else None,
}


class _Many(Enum):
    MANY = 0


MANY: Final = _Many.MANY
Expanded = str | None | Literal[_Many.MANY]
"""A word, None if it is known only when it runs, or MANY for any number of words."""


def words_of(node: Node, scope: Scope) -> list[Expanded]:
    """The words that one argument becomes. Raises UnreadError if they are too many."""
    words = _expanded(node, scope)
    for word in words:
        scope.budget.made(len(word) if isinstance(word, str) else 0)
    return words


def _expanded(node: Node, scope: Scope) -> list[Expanded]:
    if node.type == "string":
        if _text(node) in _ALL_ARGUMENTS:
            return [MANY] if scope.arguments is None else list(scope.arguments[1:])
        return [MANY if _SEVERAL.search(node.text or b"") else value_of(node, scope)]
    if node.type in _EXPANSIONS:
        value = value_of(node, scope)
        return [MANY] if value is None or not _stays_one(value, scope) else list(value.split())
    if node.type in ("word", "concatenation") and _is_pattern(node):
        return [MANY]
    return [_joined(node, scope) if node.type == "concatenation" else value_of(node, scope)]


def _joined(node: Node, scope: Scope) -> Expanded:
    """Parts without blanks between them. One without quotes may make several words of them."""
    value = value_of(node, scope)
    if any(child.type in _EXPANSIONS for child in node.named_children):
        return MANY if value is None or _SPLITS.search(value) or not _stays_one(value, scope) else value
    return MANY if value is None and _SEVERAL.search(node.text or b"") else value


def _stays_one(value: str, scope: Scope) -> bool:
    """Whether only blanks split a value, and no names of files take its place."""
    return not _PATTERN.search(value) and (not value or scope.splits_at_blanks)


def _is_pattern(node: Node) -> bool:
    """Whether a word stands for names of files, or for the words of braces."""
    text = _text(node)
    braces = _BRACES.search(text) or any(child.type == "brace_expression" for child in node.children)
    return len(text) > 1 and bool(_PATTERN.search(text) or braces)


def value_of(node: Node, scope: Scope) -> str | None:
    """The value of a node as one word that is not split; None if it is known only when it runs."""
    scope.budget.step()
    work = _VALUES.get(node.type)
    if work is None:
        return None
    with scope.budget.deeper():
        return work(node, scope)


def _word(node: Node, _scope: Scope) -> str:
    return _ESCAPE.sub(lambda match: "" if match[1] == "\n" else match[1], _text(node))


def _figure(node: Node, _scope: Scope) -> str | None:
    return None if node.named_children else _text(node)  # 16#$A


def _quoted(node: Node, scope: Scope) -> str | None:
    return scope.environment.known(_text(node)[1:-1])


def _concatenation(node: Node, scope: Scope) -> str | None:
    whole = sum([one.end_byte - one.start_byte for one in node.children]) == node.end_byte - node.start_byte
    return _together([value_of(child, scope) for child in node.children], scope) if whole else None


def _arithmetic(node: Node, scope: Scope) -> str | None:
    inside = node.named_children
    number = _number(inside[0], scope) if len(inside) == 1 else None
    return None if number is None else str(number)


def arguments_of(words: Sequence[Expanded], first: str | None) -> Arguments:
    """The positional parameters that words become after ``first``, which is ``$0``; None if their number is open."""
    found = [word for word in words if word is not MANY]
    return (first, *found) if len(found) == len(words) else None


def _together(parts: Sequence[str | None], scope: Scope) -> str | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    size = sum(map(len, known))
    scope.budget.made(size)
    return "".join(known)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def quoted_text(node: Node) -> str | None:
    """A string in double quotes with its expansions as they are written; None for another node."""
    return _unquoted((node.text or b"")[1:-1]) if node.type == "string" else None


def _string(node: Node, scope: Scope) -> str | None:
    """A string in double quotes. The tree leaves some blanks out, so what lies between its nodes is literal."""
    source, parts = node.text or b"", list[str | None]()
    begin, position = node.start_byte, 1
    for child in node.children[1:]:
        last = child.type == '"' and child.end_byte == node.end_byte
        if child.type == "string_content" or (not last and not child.is_named):
            continue
        parts.append(_unquoted(source[position : child.start_byte - begin]))
        position = child.end_byte - begin
        if last:
            break
        value = value_of(child, scope)
        parts.append(None if value is None or len(value) > _LONGEST_PART else value)
    return _together(parts, scope)


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
    if not _NPROC.fullmatch(text) or scope.cores is None or "nproc" in scope.functions:
        return None
    return None if any(map(scope.may_have, _LIMITS)) else str(scope.cores)


def _expansion(node: Node, scope: Scope) -> str | None:
    """``$A``, ``${A}``, ``${A:-b}`` and ``${A:=b}``."""
    inside = [child for child in node.children if child.type not in ("$", "${", "}")]
    value: Value = None
    name = ""
    if inside and inside[0].type in ("variable_name", "special_variable_name"):
        name = _text(inside[0])
        known = inside[0].type == "variable_name" or name.isdigit()
        value = scope.get(name) if known else None
    if len(inside) > 1:
        return _with_default(node, name, value, inside[1:], scope)
    if value is UNSET:  # the image or a sourced file may set it
        return "" if name in scope.values or name.isdigit() else None
    return value


def _with_default(node: Node, name: str, value: Value, rest: Sequence[Node], scope: Scope) -> str | None:
    """The value of ``${NAME:-default}``, of whose text ``rest`` is what follows the name."""
    operator = rest[0].type
    if value is None or operator not in (":-", "-", ":=", "=") or len(rest) > 2:
        scope.forget(*sets_of(node, scope.budget).names)
        return None
    if isinstance(value, str) and (value or operator in ("-", "=")):
        return value
    default = "" if len(rest) == 1 else value_of(rest[1], scope)
    if operator in (":=", "="):
        scope.set(name, default)
    return default


def _number(node: Node, scope: Scope) -> int | None:
    """The value of an arithmetic expression, as far as it is one of known whole numbers."""
    scope.budget.step()
    with scope.budget.deeper():
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
            text = value_of(node, scope) or ""
    if not text.isascii() or not text.isdigit() or len(text) > 9 or (text.startswith("0") and text != "0"):
        return None
    return int(text)


_VALUES: Final[Mapping[str, Callable[[Node, Scope], str | None]]] = {
    **dict.fromkeys(["word", "variable_name", "special_variable_name", "extglob_pattern", "regex"], _word),
    "arithmetic_expansion": _arithmetic,
    "command_substitution": _substitution,
    "concatenation": _concatenation,
    "expansion": _expansion,
    "number": _figure,
    "raw_string": _quoted,
    "simple_expansion": _expansion,
    "string": _string,
}
