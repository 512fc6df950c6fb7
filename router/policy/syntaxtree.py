"""The syntax tree of a condition, for code that asks what a condition says instead of evaluating it.

Pure. The CEL library gives a compiled expression as bytes: a ``google.protobuf.Any`` with a ``cel.expr.CheckedExpr``.
Names and numbers of the fields are those of the language's own definition (github.com/google/cel-spec,
``proto/cel/expr/checked.proto`` and ``syntax.proto``). Only the fields that are read here are declared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from router.policy.conditions import environment


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal that is a bool, a whole number or a text."""

    value: bool | int | str


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, such as ``job``, or the variable of a macro."""

    name: str


@dataclass(frozen=True, slots=True)
class Field:
    """``operand.name``; with ``asked``, ``has(operand.name)``."""

    operand: Tree
    name: str
    asked: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator, such as ``_&&_``. The object that a method is called on is the first argument."""

    function: str
    arguments: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A list literal."""

    elements: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A macro over a list or map, such as ``exists``: the expressions that it consists of."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Other:
    """Anything else: other literals, messages, maps, and trees that are too deep to read."""


Tree = Constant | Name | Field | Call | Items | Loop | Other


def tree_of(source: str) -> Tree:
    """The tree of a condition that compiles."""
    return _tree_of(environment().compile(source).serialize())


def children(tree: Tree) -> tuple[Tree, ...]:
    """The trees right below the root of one."""
    match tree:
        case Field(operand):
            return (operand,)
        case Call(_, below) | Items(below) | Loop(below):
            return below
        case _:
            return ()


def _tree_of(serialized: bytes) -> Tree:
    try:
        checked = _class("CheckedExpr").FromString(any_pb2.Any.FromString(serialized).value)
    except DecodeError:  # protobuf reads about fifty levels of operators
        return Other()
    return _read(checked.expr)


def _read(expression: Any) -> Tree:
    kind = expression.WhichOneof("kind")
    return Other() if kind is None else _READERS[kind](getattr(expression, kind))


def _constant(literal: Any) -> Tree:
    kind = literal.WhichOneof("kind")
    return Other() if kind is None else Constant(getattr(literal, kind))


def _call(call: Any) -> Tree:
    target = (_read(call.target),) if call.HasField("target") else ()
    return Call(call.function, (*target, *map(_read, call.args)))


_LOOP: Final = ("iter_range", "accu_init", "loop_condition", "loop_step", "result")
_READERS: Final[Mapping[str, Callable[[Any], Tree]]] = {
    "constant": _constant,
    "ident": lambda ident: Name(ident.name),
    "select": lambda select: Field(_read(select.operand), select.field, select.test_only),
    "call": _call,
    "list": lambda items: Items(tuple(map(_read, items.elements))),
    "comprehension": lambda loop: Loop(tuple(_read(getattr(loop, name)) for name in _LOOP)),
}
_PACKAGE: Final = "batchgate.cel"
_FIELD: Final = descriptor_pb2.FieldDescriptorProto
_MESSAGES: Final[Mapping[str, Mapping[str, tuple[int, str]]]] = {
    "CheckedExpr": {"expr": (4, "Expr")},
    "Expr": {
        "constant": (3, "Constant"),
        "ident": (4, "Ident"),
        "select": (5, "Select"),
        "call": (6, "Call"),
        "list": (7, "CreateList"),
        "comprehension": (9, "Comprehension"),
    },
    "Constant": {"bool_value": (2, "bool"), "int64_value": (3, "int64"), "string_value": (6, "string")},
    "Ident": {"name": (1, "string")},
    "Select": {"operand": (1, "Expr"), "field": (2, "string"), "test_only": (3, "bool")},
    "Call": {"target": (1, "Expr"), "function": (2, "string"), "args": (3, "Expr")},
    "CreateList": {"elements": (1, "Expr")},
    "Comprehension": {
        "iter_range": (2, "Expr"),
        "accu_init": (4, "Expr"),
        "loop_condition": (5, "Expr"),
        "loop_step": (6, "Expr"),
        "result": (7, "Expr"),
    },
}
"""The fields that are read, with their numbers and types. Wire formats go by numbers, so a name may differ."""
_CHOICES: Final = frozenset({"Expr", "Constant"})
"""Messages whose fields exclude each other."""
_MANY: Final = frozenset({("Call", "args"), ("CreateList", "elements")})
_SCALARS: Final = {"bool": _FIELD.TYPE_BOOL, "int64": _FIELD.TYPE_INT64, "string": _FIELD.TYPE_STRING}


@lru_cache(maxsize=8)
def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


@lru_cache(maxsize=1)
def _pool() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="cel.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        if name in _CHOICES:
            message.oneof_decl.add(name="kind")
        for field, (number, kind) in fields.items():
            label = _FIELD.LABEL_REPEATED if (name, field) in _MANY else _FIELD.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, label=label)
            if kind in _SCALARS:
                added.type = _SCALARS[kind]
            else:
                added.type, added.type_name = _FIELD.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            if name in _CHOICES:
                added.oneof_index = 0
    made = descriptor_pool.DescriptorPool()
    made.Add(file)
    return made
