"""Follows the commands of shell text in the order in which they run, with the values of variables at each place.

Pure. A loop over known values is followed once for each. Where it is open whether a part runs, the variables that it
sets are unknown after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from router.values import unchanging
from router.workload.shellvalues import UNSET, Scope, word_of, words_of

if TYPE_CHECKING:
    from tree_sitter import Node

_DEEPEST: Final = 150  # nodes within each other, through functions and strings; each takes two of Python's 1000 frames
_MOST_COMMANDS: Final = 1000
_MOST_VALUES: Final = 64
_READS: Final = frozenset(["read", "mapfile", "readarray", "getopts", "let"])
_SUBSHELLS: Final = frozenset(["subshell", "command_substitution", "process_substitution"])
_CLAUSES: Final = frozenset(["elif_clause", "else_clause"])


class TooDeepError(Exception):
    """The text is nested more deeply than it is followed."""


@unchanging
class Source:
    """A text and its place.

    :param field: of the manifest
    :param outer: the text that holds it; None for a word of the manifest
    :param shift: its place in the outer text, in bytes
    :param exact: whether each of its bytes is one of the outer text; else all have the place of the first
    """

    field: str
    text: bytes
    outer: Source | None = None
    shift: int = 0
    exact: bool = True

    def place(self, offset: int) -> tuple[str, int, int]:
        """Field, line and column of a byte."""
        if self.outer is not None:
            return self.outer.place(self.shift + (offset if self.exact else 0))
        before = self.text[:offset].decode("utf-8", "replace")
        return self.field, before.count("\n") + 1, len(before) - before.rfind("\n")


@unchanging
class ShellWord:
    """A word of a command; ``text`` is None if it is known only when it runs. ``node`` is None for a manifest's word."""

    text: str | None
    source: Source
    start: int = 0
    node: Node | None = None

    @property
    def shell_text(self) -> str | None:
        """The word as text of a shell; None if it is known only when it runs.

        That of the manifest is taken as written, so that places are its own: references count as substitutions there.
        """
        if self.node is not None or b"$$" in self.source.text:
            return self.text
        return self.source.text.decode("utf-8", "replace")

    def inside(self, text: str) -> Source:
        """The word's value as a text of its own."""
        wanted = text.encode("utf-8", "replace")
        if self.node is None:
            return Source(self.source.field, wanted)
        exact = self.node.type in ("raw_string", "string") and (self.node.text or b"")[1:-1] == wanted
        return Source(self.source.field, wanted, self.source, self.start + exact, exact)


Command = Callable[[Sequence[ShellWord], Scope], None]


class Walk:
    """Follows texts; ``command`` is called for each command, with its words and the variables there."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._functions: dict[str, tuple[Node, Source]] = {}
        self._called: set[str] = set()
        self._calling: list[str] = []
        self._depth = 0
        self._commands = 0
        self._work: dict[str, Callable[[Node, Source, Scope], None]] = {
            "c_style_for_statement": self._while,
            "case_statement": self._case,
            "command": self._simple,
            "for_statement": self._for,
            "function_definition": self._function,
            "if_statement": self._if,
            "list": self._list,
            "pipeline": self._pipeline,
            "unset_command": self._unset,
            "variable_assignment": self._assignment,
            "while_statement": self._while,
        }

    def follow(self, node: Node, source: Source, scope: Scope) -> None:
        """Follow a node of the tree. Raises TooDeepError."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise TooDeepError
        work = self._work.get(node.type)
        if work is not None:
            work(node, source, scope)
        elif node.type in _SUBSHELLS:
            self._inside(node, source, scope.copy())
        else:
            self._inside(node, source, scope)
        self._depth -= 1

    def finish(self, scope: Scope) -> None:
        """Follow the functions that nothing calls by name: their parameters are unknown."""
        for name, (body, source) in tuple(self._functions.items()):
            if name not in self._called:
                inside = scope.copy()
                inside.arguments = None
                self.follow(body, source, inside)

    def call(self, name: str, arguments: Sequence[str | None], scope: Scope) -> bool:
        """Follow a call of a function; False if there is none of that name."""
        if name not in self._functions:
            return False
        self._called.add(name)
        if name not in self._calling and not self._tired:
            body, source = self._functions[name]
            inside = scope.copy(tuple(arguments))
            self._calling.append(name)
            self.follow(body, source, inside)
            self._calling.pop()
            scope.values = inside.values
        return True

    @property
    def _tired(self) -> bool:
        """Whether so many commands were followed that each further one is followed once."""
        return self._commands > _MOST_COMMANDS

    def _inside(self, node: Node, source: Source, scope: Scope) -> None:
        for child in node.named_children:
            if child.named_child_count or child.type in self._work:
                self.follow(child, source, scope)

    def _simple(self, node: Node, source: Source, scope: Scope) -> None:
        self._commands += 1
        self._inside(node, source, scope.copy())  # substitutions in its words
        words: list[ShellWord] = []
        for index, child in enumerate(node.children):
            if node.field_name_for_child(index) in ("name", "argument"):
                one = child.named_children[0] if child.type == "command_name" and child.named_children else child
                words += [ShellWord(text, source, child.start_byte, one) for text in words_of(one, scope)]
        if words:
            self._set_by(words, scope)
            self._command(words, scope)

    def _set_by(self, words: Sequence[ShellWord], scope: Scope) -> None:
        """What the shell's own commands do to variables and parameters."""
        texts = [word.text for word in words]
        if texts[0] in _READS:
            for name in texts[1:]:
                scope.set(name or "", None)
        elif texts[0] == "set" and "--" in texts:
            scope.arguments = (None, *texts[texts.index("--") + 1 :])
        elif texts[0] == "shift":
            scope.arguments = None

    def _assignment(self, node: Node, source: Source, scope: Scope) -> None:
        self._inside(node, source, scope)
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or name.type != "variable_name":
            return
        plain = any(child.type == "=" for child in node.children)
        scope.set(_text(name), ("" if value is None else word_of(value, scope)) if plain else None)

    def _unset(self, node: Node, _source: Source, scope: Scope) -> None:
        for child in node.named_children:
            if child.type == "variable_name":
                scope.set(_text(child), UNSET)

    def _function(self, node: Node, source: Source, _scope: Scope) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self._functions[_text(name)] = (body, source)

    def _for(self, node: Node, source: Source, scope: Scope) -> None:
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        if variable is None or body is None:
            return
        values: list[str | None] = []
        for child in node.children_by_field_name("value"):
            self._inside(child, source, scope.copy())
            values += words_of(child, scope)
        known = not self._tired and 0 < len(values) <= _MOST_VALUES and None not in values
        if not known or node.children[0].type == "select":
            self._while(node, source, scope)
            return
        before = dict(scope.values)
        for value in values:
            scope.set(_text(variable), value)
            self.follow(body, source, scope)
            if self._tired:
                break
        scope.forget(before)

    def _while(self, node: Node, source: Source, scope: Scope) -> None:
        """A loop whose rounds are unknown: so is what it sets, from its first round on."""
        names = set(_assigned(node))
        for name in names:
            scope.set(name, None)
        for child in node.named_children:
            if child.type != "variable_assignment":  # for ((n = 1; …; …)): the first round's value only
                self.follow(child, source, scope)
        for name in names:
            scope.set(name, None)

    def _if(self, node: Node, source: Source, scope: Scope) -> None:
        branches = [scope]
        here = None
        for index, child in enumerate(node.children):
            if child.type in _CLAUSES or node.field_name_for_child(index) == "condition":
                inside = scope if child.type not in _CLAUSES else scope.copy()
            else:
                here = inside = here or scope.copy()
            if child.is_named:
                branches.append(inside)
                self.follow(child, source, inside)
        scope.forget(*[dict(branch.values) for branch in branches])

    def _case(self, node: Node, source: Source, scope: Scope) -> None:
        branches = []
        for child in node.named_children:
            inside = scope.copy() if child.type == "case_item" else scope
            branches.append(inside)
            self.follow(child, source, inside)
        scope.forget(*[dict(branch.values) for branch in branches])

    def _list(self, node: Node, source: Source, scope: Scope) -> None:
        """``a && b`` counts as both, as what follows needs both. In ``a || b`` it is open whether b runs."""
        either = any(child.type == "||" for child in node.children)
        for index, child in enumerate(node.named_children):
            inside = scope.copy() if either and index else scope
            self.follow(child, source, inside)
            if inside is not scope:
                scope.forget(dict(inside.values))

    def _pipeline(self, node: Node, source: Source, scope: Scope) -> None:
        for child in node.named_children:
            self.follow(child, source, scope.copy())


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _assigned(node: Node) -> Iterator[str]:
    """The names of variables that a part of the text may set."""
    cursor = node.walk()
    going = True
    while going:
        here = cursor.node
        if here is not None and here.type in ("variable_name", "word") and _is_set(here):
            yield _text(here)
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            going = cursor.goto_parent()
            if not going:
                break


def _is_set(name: Node) -> bool:
    """Whether the text around a name may give it a value."""
    parent = name.parent
    if parent is None:
        return False
    if parent.type == "command":
        program = parent.child_by_field_name("name")
        return program is not None and _text(program) in _READS
    if parent.type == "expansion":
        return any(child.type in (":=", "=") for child in parent.children)
    return parent.type in _SETS


_SETS: Final = frozenset(
    [
        "variable_assignment",
        "for_statement",
        "unset_command",
        "postfix_expression",
        "unary_expression",
        "binary_expression",
    ]
)
