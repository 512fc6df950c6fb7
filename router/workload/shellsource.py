"""Knows the place of each word of shell text in the manifest.

Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from router.values import unchanging
from router.workload.expand import refers

if TYPE_CHECKING:
    from tree_sitter import Node

_REFERENCE: Final = re.compile(rb"\$[({]?([A-Za-z_][A-Za-z0-9_]*|[@*0-9])")
PARAMETERS: Final = "@"
"""Stands for the positional parameters among the names of variables."""


def references(text: bytes) -> frozenset[str]:
    """The names of variables in ``$A``, ``${A}`` and ``$(A)``; PARAMETERS for ``$1`` and ``$@``."""
    names = [name.decode() for name in _REFERENCE.findall(text)]
    return frozenset([PARAMETERS if name in "@*" or name.isdigit() else name for name in names])


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
        """Field, line and column of a byte. Both count from 1; columns are characters."""
        if self.outer is not None:
            return self.outer.place(self.shift + (offset if self.exact else 0))
        before = self.text[:offset].decode("utf-8", "replace")
        return self.field, before.count("\n") + 1, len(before) - before.rfind("\n")


@unchanging
class ShellWord:
    """A word of a command.

    :param text: None if it is known only when it runs
    :param node: of the text's tree; None for a word of the manifest
    :param many: whether it stands for any number of words
    :param references: the variables whose values Kubernetes puts into a word of the manifest
    """

    text: str | None
    source: Source
    start: int = 0
    node: Node | None = None
    many: bool = False
    references: frozenset[str] = frozenset()

    @property
    def shell_text(self) -> str | None:
        """The word as text of a shell; None if it is known only when it runs."""
        return self.text if self.node is not None else self.source.text.decode("utf-8", "replace")

    @property
    def names(self) -> frozenset[str]:
        """The variables whose values are in it. In single quotes only Kubernetes replaces references."""
        if self.node is None:
            return self.references
        text = self.node.text or b""
        return (
            frozenset(refers(text.decode("utf-8", "replace"))) if self.node.type == "raw_string" else references(text)
        )

    def inside(self, text: str) -> Source:
        """The word's value as a text of its own."""
        wanted = text.encode("utf-8", "replace")
        if self.node is None:
            return Source(self.source.field, wanted)
        exact = self.node.type in ("raw_string", "string") and (self.node.text or b"")[1:-1] == wanted
        return Source(self.source.field, wanted, self.source, self.start + exact, exact)
