"""Reduces shell text to the one simple command that it runs, where the rest changes nothing about it.

Pure. Taken off are a last ``;``, leading ``set -e``, ``set -u`` and ``set -o pipefail``, and one redirection:
``2>&1``, as both go to the container's one log, or ``>/dev/null``. A list, a pipeline or a loop is left as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from router.values import unchanging
from router.workload import shellwords
from router.workload.shellbudget import ShellBudget
from router.workload.shellwords import Word
from router.workload.wrappers import base

if TYPE_CHECKING:
    from tree_sitter import Node

_NAMED: Final = frozenset(["errexit", "nounset", "pipefail"])
_LETTERS: Final = frozenset("eu")
_KNOW_PIPEFAIL: Final = frozenset(["bash", "ksh", "zsh"])
"""Others end with an error: dash has known the option only since 2024."""
_ENDS: Final = frozenset([";", "\n"])


@unchanging
class Plain:
    """A simple command.

    :param text: as long as the whole text, with blanks in place of what was taken off
    :param words: of the command, with their places in ``text``
    :param before: settings of the shell, as text that goes before a command: ``set -eu; ``
    :param after: the redirection that stays, as text that goes behind it: `` >/dev/null``
    """

    text: str
    words: tuple[Word, ...]
    before: str = ""
    after: str = ""


def reduce(text: str, shell: str, budget: ShellBudget) -> Plain | str:
    """The simple command of a text; for any other text, words that say what it is (``a pipeline``).

    :param budget: of the Job's shell texts; a text beyond it is not reduced
    """
    words = shellwords.split(text)
    if not isinstance(words, str):
        return Plain(text, words)
    if len(text) > shellwords.LONGEST or not any(sign in text for sign in (";", "\n", "&&", ">")):
        return words
    root = budget.tree(text)
    found = None if isinstance(root, str) else _command(root, shell)
    if found is None:
        return words
    node, before, after = found
    source = text.encode()
    start, end = (len(source[:place].decode()) for place in (node.start_byte, node.end_byte))
    kept = " " * start + text[start:end] + " " * (len(text) - end)
    split = shellwords.split(kept)
    return words if isinstance(split, str) else Plain(kept, split, before, after)


def _command(root: Node, shell: str) -> tuple[Node, str, str] | None:
    """The node of the command, and what goes before and behind it; None unless the rest can be taken off."""
    if any(not child.is_named and child.type not in _ENDS for child in root.children):
        return None
    statements = [child for child in root.named_children if child.type != "comment"]
    before = ""
    while statements:
        statement = statements.pop(0)
        if statement.type == "list" and len(statement.children) == 3 and statement.children[1].type == "&&":
            statements[:0] = [statement.children[0], statement.children[2]]
            if _setting(statement.children[0], shell) is None:
                return None
            continue
        if (setting := _setting(statement, shell)) is not None and statements:
            before += setting
            continue
        if statements:
            return None
        return _redirected(statement, before)
    return None


def _setting(node: Node, shell: str) -> str | None:
    """A command ``set`` that only says when the shell ends, as text; None for any other command."""
    texts = [(child.text or b"").decode() for child in node.named_children]
    if node.type != "command" or len(texts) < 2 or texts[0] != "set":
        return None
    position = 1
    while position < len(texts):
        option = texts[position]
        named = option.endswith("o")
        if option[:1] != "-" or len(option) < 2 or not _LETTERS.issuperset(option[1 : len(option) - named]):
            return None
        position += 1
        if named:
            name = texts[position] if position < len(texts) else ""
            if name not in _NAMED or (name == "pipefail" and base(shell) not in _KNOW_PIPEFAIL):
                return None
            position += 1
    return f"{' '.join(texts)}; "


def _redirected(node: Node, before: str) -> tuple[Node, str, str] | None:
    if node.type == "command":
        return node, before, ""
    body = node.child_by_field_name("body")
    redirects = node.children_by_field_name("redirect")
    if node.type != "redirected_statement" or body is None or body.type != "command" or len(redirects) != 1:
        return None
    text = b"".join((redirects[0].text or b"").split()).decode()
    if text == "2>&1":
        return body, before, ""
    return (body, before, " >/dev/null") if text in (">/dev/null", "1>/dev/null") else None
