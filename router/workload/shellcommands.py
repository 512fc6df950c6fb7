"""Reads one simple command of shell text: its words, the values of its variables, where it prints to.

Pure. The parser counts words behind a redirection as further targets of it; here they are words of the command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from router.values import unchanging
from router.workload.launchernames import SHELLS, is_launcher
from router.workload.shellbudget import ShellBudget
from router.workload.shellscope import Scope
from router.workload.shellsource import ShellWord, Source
from router.workload.shellvalues import MANY, Expanded, words_of
from router.workload.wrappers import base

if TYPE_CHECKING:
    from tree_sitter import Node

_INPUTS: Final = frozenset(["<", "<&", "<&-", ">&-"])
_LOG: Final = frozenset(["/dev/null", "/dev/stdout", "/dev/stderr"])
_DESCRIPTORS: Final = frozenset(["1", "2", "-"])
_SUBSTITUTIONS: Final = frozenset(["command_substitution", "process_substitution"])
_MARKS: Final = (b"$(", b"`", b"<(", b">(")


@unchanging
class Command:
    """A simple command.

    :param words: with its program; None is the text of one that is known only when it runs
    :param spans: bytes of ``source`` that are its words or its input, without the substitutions in them
    :param environment: the variables that it is started with
    :param captured: whether what it prints may go elsewhere than to the container's log
    """

    words: tuple[ShellWord, ...]
    source: Source
    spans: tuple[tuple[int, int], ...]
    environment: Scope
    captured: bool

    @property
    def is_outside(self) -> bool:
        """Whether it is surely a program, which cannot set variables of the shell."""
        program = self.words[0].text if self.words else None
        return program is not None and ("/" in program or base(program) in SHELLS or is_launcher(program))


def expanded(words: Sequence[ShellWord]) -> list[Expanded]:
    """The values of words."""
    return [MANY if word.many else word.text for word in words]


def command_of(node: Node, redirects: Sequence[Node], source: Source, scope: Scope, environment: Scope) -> Command:
    """The command of a node and of the redirections behind it. Raises UnreadError if it has too many words."""
    own = node.children_by_field_name("redirect")
    name = node.child_by_field_name("name")
    nodes = [] if name is None else [name.named_children[0] if name.named_children else name]
    nodes += node.children_by_field_name("argument")
    nodes += [word for redirect in (*own, *redirects) for word in _further(redirect)]
    inputs = [one for redirect in (*own, *redirects) for one in _inputs(redirect)]
    words = [
        ShellWord(text if isinstance(text, str) else None, source, one.start_byte, one, text is MANY)
        for one in nodes
        for text in words_of(one, scope)
    ]
    spans = tuple([span for one in (*nodes, *inputs) for span in literal_spans(one, scope.budget)])
    return Command(tuple(words), source, spans, environment, goes_elsewhere((*own, *redirects)))


def redirections(node: Node) -> list[Node]:
    """The redirections of a ``redirected_statement``, with those that the parser puts into a here-document's."""
    found: list[Node] = []
    for redirect in node.children_by_field_name("redirect"):
        found += [redirect, *redirect.children_by_field_name("redirect")]
    return found


def goes_elsewhere(redirects: Sequence[Node]) -> bool:
    """Whether output may go elsewhere than to the log, and be read from there."""
    return any(map(_is_elsewhere, redirects))


def _is_elsewhere(redirect: Node) -> bool:
    if redirect.type != "file_redirect":
        return any(child.type == "pipeline" for child in redirect.children)
    operators = [child.type for child in redirect.children if not child.is_named]
    if operators and operators[0] in _INPUTS:
        return False
    target = redirect.child_by_field_name("destination")
    text = "" if target is None else (target.text or b"").decode("utf-8", "replace")
    return text not in _LOG and not (operators[:1] == [">&"] and text in _DESCRIPTORS)


def _further(redirect: Node) -> list[Node]:
    """The words of the command that stand behind a redirection."""
    if redirect.type == "file_redirect":
        return redirect.children_by_field_name("destination")[1:]
    return redirect.children_by_field_name("argument")


def _inputs(redirect: Node) -> list[Node]:
    """The text of a here-document or here-string."""
    if redirect.type == "herestring_redirect":
        return redirect.named_children
    return [child for child in redirect.named_children if child.type == "heredoc_body"]


def literal_spans(node: Node, budget: ShellBudget) -> Iterator[tuple[int, int]]:
    """The bytes of a node outside of substitutions, whose commands are read by themselves. Raises UnreadError."""
    start = node.start_byte
    if any(mark in (node.text or b"") for mark in _MARKS):
        for inside in _substitutions(node, budget):
            yield start, inside.start_byte
            start = inside.end_byte
    yield start, node.end_byte


def _substitutions(node: Node, budget: ShellBudget) -> Iterator[Node]:
    """The outermost substitutions in a node, in order."""
    waiting = [node]
    while waiting:
        budget.step()
        here = waiting.pop()
        if here.type in _SUBSTITUTIONS:
            yield here
        else:
            waiting += reversed(here.named_children)
