"""Lists what a part of shell text may set, wherever it is open whether, when or how often that part runs.

Pure. It names too much rather than too little.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from router.values import unchanging
from router.workload.shellbudget import ShellBudget

if TYPE_CHECKING:
    from tree_sitter import Node

SETTERS: Final = frozenset(["read", "mapfile", "readarray", "getopts", "let", "wait", "unset", "coproc"])
"""Commands whose words name variables that they set."""
DECLARATIONS: Final = frozenset(["declare", "export", "local", "readonly", "typeset"])
_WILD: Final = frozenset(["eval", "alias", "trap", "builtin", "shopt", "enable"])
_POSITIONAL: Final = frozenset(["set", "shift"])
_JUMPS: Final = frozenset(["return", "break", "continue"])
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNS: Final = re.compile(r"(?:<<|>>|[-+*/%&|^])?=")
_PARENTS: Final = frozenset(
    ["variable_assignment", "subscript", "for_statement", "unset_command", "declaration_command", "postfix_expression"]
)


@unchanging
class Sets:
    """What a part may set.

    :param names: variables
    :param wild: whether any other variable may be set, too
    :param positional: whether the positional parameters may be set
    :param jumps: whether it may end early, by ``return``, ``break`` or ``continue``
    """

    names: frozenset[str] = frozenset()
    wild: bool = False
    positional: bool = False
    jumps: bool = False


def identifiers(text: str) -> list[str]:
    """Whatever may be a variable's name in a text."""
    return _NAME.findall(text)


def sets_of(node: Node, budget: ShellBudget) -> Sets:
    """What a node and the nodes in it may set. Raises UnreadError if they are too many."""
    names: set[str] = set()
    seen: set[str] = set()
    for here, parent in walked(node, budget):
        _look(here, parent, names, seen)
    return Sets(
        frozenset(names),
        wild=not _WILD.isdisjoint(seen),
        positional=not _POSITIONAL.isdisjoint(seen),
        jumps=not _JUMPS.isdisjoint(seen),
    )


def walked(node: Node, budget: ShellBudget) -> Iterator[tuple[Node, Node | None]]:
    """A node and all in it, each with the node around it, which a tree finds only by a search. Raises UnreadError."""
    cursor = node.walk()
    around: list[Node | None] = [None]
    while around:
        budget.step()
        here = cursor.node
        if here is not None:
            yield here, around[-1]
        if cursor.goto_first_child():
            around.append(here)
            continue
        while around and not cursor.goto_next_sibling():
            around.pop()
            if not around or not cursor.goto_parent():
                return


def _look(node: Node, parent: Node | None, names: set[str], seen: set[str]) -> None:
    """Add the names that a node sets, and the words of commands that set something else."""
    kind = node.type
    if kind == "command":
        text = (node.text or b"").decode("utf-8", "replace")
        words = set(_NAME.findall(text))
        seen |= words
        if not (SETTERS | DECLARATIONS).isdisjoint(words) or ("printf" in words and "-v" in text):
            names |= words
    elif kind in ("variable_name", "word") and parent is not None and _is_set(parent):
        names.add((node.text or b"").decode("utf-8", "replace"))


def _is_set(parent: Node) -> bool:
    """Whether the node around a name may give it a value."""
    if parent.type == "expansion":
        return any(child.type in (":=", "=") for child in parent.children)
    if parent.type == "unary_expression":
        return any(child.type in ("++", "--") for child in parent.children)
    if parent.type == "binary_expression":
        return any(_ASSIGNS.fullmatch(child.type) for child in parent.children)
    return parent.type in _PARENTS
