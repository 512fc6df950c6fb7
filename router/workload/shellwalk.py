"""Follows the commands of shell text in the order in which they run, with the values of variables at each place.

Pure. A loop over known values is followed once for each. Where it is open whether a part runs, the variables that it
sets are unknown after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from router.values import unchanging
from router.workload.shellbudget import ShellBudget
from router.workload.shellcommands import Command, command_of, goes_elsewhere, redirections
from router.workload.shellscope import UNSET, Function, Scope
from router.workload.shellsets import Sets, sets_of
from router.workload.shellsource import Source, references
from router.workload.shellvalues import MANY, Expanded, arguments_of, value_of, words_of

if TYPE_CHECKING:
    from tree_sitter import Node

_SUBSHELLS: Final = frozenset(["subshell", "command_substitution", "process_substitution"])
_ENDS_IN_COMMAND: Final = frozenset(["list", "negated_command", "pipeline"])
_CAPTURED: Final = frozenset(["command_substitution", "process_substitution"])
_CLAUSES: Final = frozenset(["elif_clause", "else_clause"])
_ATTRIBUTES: Final = frozenset("xr")
"""Of ``declare``: others change how a value is read."""

Visit = Callable[[Command, Scope], None]


@unchanging
class Assigned:
    """A place that gives a variable its value.

    :param start: of the value, in bytes, like ``end``
    :param references: variables that the value refers to
    """

    name: str
    source: Source
    start: int
    end: int
    references: frozenset[str]


class Walk:
    """Follows texts; ``visit`` is called for each command, with the variables there."""

    def __init__(self, visit: Visit, budget: ShellBudget) -> None:
        self.assigned: dict[tuple[Source, int], Assigned] = {}
        self._visit = visit
        self._budget = budget
        self._defined: dict[int, Function] = {}
        self._called: set[int] = set()
        self._calling: list[int] = []
        self._sets: dict[int, Sets] = {}
        self._behind: dict[int, Sequence[Node]] = {}
        """Redirections behind a command, by its node."""
        self._away = 0
        self._work: dict[str, Callable[[Node, Source, Scope], None]] = {
            "c_style_for_statement": self._while,
            "case_statement": self._case,
            "command": self._command,
            "compound_statement": self._compound,
            "declaration_command": self._declaration,
            "for_statement": self._for,
            "function_definition": self._function,
            "if_statement": self._if,
            "list": self._list,
            "pipeline": self._pipeline,
            "redirected_statement": self._redirected,
            "test_command": self._test,
            "unset_command": self._unset,
            "variable_assignment": self._assignment,
            "while_statement": self._while,
        }

    def follow(self, node: Node, source: Source, scope: Scope) -> None:
        """Follow a node of the tree. Raises UnreadError if that takes too much."""
        self._budget.step()
        with self._budget.deeper():
            work = self._work.get(node.type)
            if work is not None:
                work(node, source, scope)
            elif node.type in _SUBSHELLS:
                with self._elsewhere(inside=node.type in _CAPTURED):
                    self._inside(node, source, scope.copy())
            else:
                self._inside(node, source, scope)

    def finish(self, scope: Scope) -> None:
        """Follow the functions that nothing calls by name, with everything unknown. Raises UnreadError."""
        waiting = True
        while waiting:
            waiting = False
            for key, function in tuple(self._defined.items()):
                if key not in self._called:
                    self._called.add(key)
                    waiting = True
                    self.follow(function.body, function.source, scope.blinded())

    def call(self, name: str, words: Sequence[Expanded], scope: Scope) -> bool:
        """Follow a call of a function; False if there is none of that name. Raises UnreadError.

        :param words: with the name
        """
        functions = scope.functions.get(name, ())
        branches = [scope.copy() for _ in functions]
        for function, inside in zip(functions, branches, strict=True):
            self._call(function, words, inside)
        if branches:
            scope.adopt(branches[0])
            scope.join(branches[1:])
        return bool(functions)

    def _call(self, function: Function, words: Sequence[Expanded], scope: Scope) -> None:
        key = function.body.id
        self._called.add(key)
        again = self._calling.count(key)
        sets = self._sets_of(function.body)
        if again < 2:  # a function that calls itself is followed once more, with everything unknown
            inside = scope.blinded() if again else scope.copy()
            first = scope.arguments[0] if scope.arguments else None
            inside.local, inside.in_function = set(), True
            inside.arguments = None if again else arguments_of(words[1:], first)
            self._calling.append(key)
            self.follow(function.body, function.source, inside)
            self._calling.pop()
            own = tuple(inside.local)
            inside.arguments, inside.local = scope.arguments, scope.local
            scope.adopt(inside)
            scope.forget(*own)  # what the caller has of these names, the function may have changed before
        if sets.jumps or again:
            self._forget(sets, scope)

    def _sets_of(self, node: Node) -> Sets:
        if node.id not in self._sets:
            self._sets[node.id] = sets_of(node, self._budget)
        return self._sets[node.id]

    def _forget(self, sets: Sets, scope: Scope) -> None:
        """Make unknown what a part may set, and what the functions that it may call set."""
        every = [sets, *[self._sets_of(one.body) for functions in scope.functions.values() for one in functions]]
        if any(one.wild for one in every):
            scope.lose()
        if any(one.positional for one in every):
            scope.arguments = None
        for one in every:
            scope.forget(*one.names)

    def _inside(self, node: Node, source: Source, scope: Scope) -> None:
        children = node.children
        self._budget.step(len(children))
        for index, child in enumerate(children):
            if child.is_named and (child.named_child_count or child.type in self._work):
                behind = index + 1 < len(children) and children[index + 1].type == "&"
                self.follow(child, source, scope.copy() if behind else scope)

    def _command(self, node: Node, source: Source, scope: Scope) -> None:
        """A command with the redirections behind it, between which it may have further words."""
        redirects = self._behind.get(node.id, ())
        environment = scope.copy()
        prefixes: list[str] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assignment(child, source, environment)
                prefixes += _names(child)
            else:
                self.follow(child, source, scope.copy())  # substitutions in its words
                self._side_effects(child, scope)
        environment.exported.update(prefixes)
        command = command_of(node, redirects, source, scope, environment if prefixes else scope)
        lasting = () if command.is_outside else tuple(prefixes)  # a function or eval sees them, and may set them
        scope.forget(*lasting)
        if command.words:
            with self._elsewhere(inside=command.captured):
                self._visit(replace(command, captured=scope.captured or self._away > 0), scope)
        scope.forget(*lasting)
        if command.captured and command.words and command.words[-1].text == "exec":
            scope.captured = True

    @contextmanager
    def _elsewhere(self, *, inside: bool = True) -> Iterator[None]:
        """Follow something whose output goes elsewhere than to the log."""
        self._away += inside
        yield
        self._away -= inside

    def _redirected(self, node: Node, source: Source, scope: Scope) -> None:
        """The parser may take a redirection of a list's last command for one of the whole list."""
        redirects = redirections(node)
        body = last = node.child_by_field_name("body")
        while last is not None and last.type in _ENDS_IN_COMMAND:
            last = last.named_children[-1]
        of_command = last is not None and last.type == "command"
        if last is not None and of_command:
            self._behind[last.id] = redirects
        if body is not None:
            with self._elsewhere(inside=not of_command and goes_elsewhere(redirects)):
                self.follow(body, source, scope)
        for child in node.children_by_field_name("redirect"):
            inside = scope.copy()
            self._inside(child, source, inside)
            scope.join([inside])
            scope.forget(*self._sets_of(child).names)

    def _side_effects(self, node: Node, scope: Scope) -> None:
        """What expressions within a part set: ``$((N = 4))``, ``${a[N++]}``."""
        if any(mark in (node.text or b"") for mark in (b"((", b"[")):
            scope.forget(*self._sets_of(node).names)

    def _test(self, node: Node, source: Source, scope: Scope) -> None:
        self._inside(node, source, scope.copy())
        scope.forget(*self._sets_of(node).names)

    def _compound(self, node: Node, source: Source, scope: Scope) -> None:
        if node.children[0].type == "((":
            self._test(node, source, scope)
        else:
            self._inside(node, source, scope)

    def _assignment(self, node: Node, source: Source, scope: Scope) -> None:
        self._inside(node, source, scope.copy())
        value = node.child_by_field_name("value")
        self._side_effects(node if value is None else value, scope)
        plain = any(child.type == "=" for child in node.children) and _is_plain(node)
        for name in _names(node):
            scope.set(name, ("" if value is None else value_of(value, scope)) if plain else None)
            if value is not None:
                self._note(name, value, source)

    def _note(self, name: str, value: Node, source: Source) -> None:
        found = Assigned(name, source, value.start_byte, value.end_byte, references(value.text or b""))
        self.assigned.setdefault((source, value.start_byte), found)

    def _declaration(self, node: Node, source: Source, scope: Scope) -> None:
        """``export A=1 B``, ``local N=4``, ``declare -i N=4``."""
        kind = node.children[0].type
        options = [_text(child) for child in node.named_children if child.type == "word" and _text(child)[:1] in "-+"]
        letters = set("".join(options)) - set("-")
        named = [child for child in node.named_children if child.type in ("variable_assignment", "variable_name")]
        for child in named:
            if child.type == "variable_assignment":
                self._assignment(child, source, scope)
        names = [name for child in named for name in (_names(child) or [_text(child)])]
        if len(named) + len(options) < node.named_child_count:  # export $X
            self._inside(node, source, scope.copy())
            scope.lose()
        if kind in ("local", "declare", "typeset"):
            scope.local.update(names)
            bare = [_text(child) for child in named if child.type == "variable_name"]
            scope.forget(*(names if kind == "local" and not scope.in_function else bare))
        if not letters <= _ATTRIBUTES:
            scope.forget(*names)
            scope.fixed.update(names)
            scope.exported.difference_update(names)
            scope.kept.update(names)
            scope.blind |= "n" in letters and kind != "export"
        elif kind == "readonly" or "r" in letters:
            scope.fixed.update(names)
        if (kind == "export" and not letters) or letters == {"x"}:
            scope.exported.update(names)

    def _unset(self, node: Node, source: Source, scope: Scope) -> None:
        for child in node.named_children:
            if child.type in ("variable_name", "word"):
                scope.functions.pop(_text(child), None)
                scope.set(_text(child), UNSET)
            else:
                self.follow(child, source, scope.copy())
                scope.lose()

    def _function(self, node: Node, source: Source, scope: Scope) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            function = Function(_text(name), body, source)
            self._defined.setdefault(body.id, function)
            scope.functions[function.name] = (function,)

    def _for(self, node: Node, source: Source, scope: Scope) -> None:
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        if variable is None or body is None:
            return
        values: list[Expanded] = []
        for child in node.children_by_field_name("value"):
            self.follow(child, source, scope.copy())
            self._side_effects(child, scope)
            values += words_of(child, scope)
            self._note(_text(variable), child, source)
        known = [value for value in values if value is not MANY and value is not None]
        if len(known) < len(values) or not values or node.children[0].type == "select":
            self._while(node, source, scope)
            return
        sets = self._sets_of(body)
        before = scope.copy()
        for value in known:
            if sets.jumps:
                self._forget(sets, scope)
            scope.set(_text(variable), value)
            self.follow(body, source, scope)
        scope.join([before])
        if sets.jumps:
            self._forget(sets, scope)

    def _while(self, node: Node, source: Source, scope: Scope) -> None:
        """A loop whose rounds are unknown: so is what it sets, from its first round on."""
        sets = self._sets_of(node)
        self._forget(sets, scope)
        for child in node.named_children:
            if child.type != "variable_assignment":  # for ((n = 1; …; …)): the first round's value only
                self.follow(child, source, scope)
        self._forget(sets, scope)

    def _if(self, node: Node, source: Source, scope: Scope) -> None:
        branches: list[Scope] = []
        then: Scope | None = None
        children = node.children
        self._budget.step(len(children))
        for index, child in enumerate(children):
            if not child.is_named:
                continue
            behind = index + 1 < len(children) and children[index + 1].type == "&"
            if node.field_name_for_child(index) == "condition":
                self.follow(child, source, scope.copy() if behind else scope)
            elif child.type in _CLAUSES:
                inside = scope.copy()
                self.follow(child, source, inside)
                branches.append(inside)
                scope.join([inside])  # what an elif's condition sets, the next clause sees
            else:
                then = then or scope.copy()
                self.follow(child, source, then.copy() if behind else then)
        scope.join([*([then] if then else []), *branches])

    def _case(self, node: Node, source: Source, scope: Scope) -> None:
        branches: list[Scope] = []
        for child in node.named_children:
            if child.type != "case_item":
                self.follow(child, source, scope.copy())
                scope.forget(*self._sets_of(child).names)
                continue
            inside = scope.copy()
            inside.join(branches[-1:])  # ;& goes on there
            self.follow(child, source, inside)
            branches.append(inside)
        scope.join(branches)

    def _list(self, node: Node, source: Source, scope: Scope) -> None:
        """``a && b``, ``a || b``: each part sees what those before it set, if it runs at all."""
        parts: list[tuple[bool, Node]] = []
        while node.type == "list":
            parts.append((any(child.type == "&&" for child in node.children), node.named_children[-1]))
            node = node.named_children[0]
        self.follow(node, source, scope)
        succeeded = scope.copy()
        for also, part in reversed(parts):
            inside = (succeeded if also else scope).copy()
            self.follow(part, source, inside)
            if also:
                succeeded = inside.copy()
            else:
                succeeded.join([inside])
            scope.join([inside])

    def _pipeline(self, node: Node, source: Source, scope: Scope) -> None:
        for child in node.named_children:
            inside = scope.copy()
            with self._elsewhere():
                self.follow(child, source, inside)
            scope.join([inside])  # some shells run the last part themselves


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _is_plain(assignment: Node) -> bool:
    """Whether it sets a variable, and no element of an array."""
    name = assignment.child_by_field_name("name")
    return name is not None and name.type == "variable_name"


def _names(node: Node) -> list[str]:
    """The variable that an assignment sets, or of which it sets an element."""
    name = node.child_by_field_name("name")
    if name is not None and name.type == "subscript":
        name = name.child_by_field_name("name")
    return [] if name is None else [_text(name)]
