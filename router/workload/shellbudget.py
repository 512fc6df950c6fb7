"""Bounds what following the shell texts of one Job may cost, over all of its containers and texts.

Pure. A text of 5 KB can stand for millions of commands or words, so each step of the work is counted, in order and
without a clock: the same Job gives the same result everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from router.workload import shelltree

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_BYTES: Final = shelltree.LONGEST
"""Most bytes of all different texts together, as the parser's worst time grows with the square of a text's length."""
MOST_STEPS: Final = 60_000
"""Most nodes of trees that are looked at, and words that are made. The scripts of published manifests take up to 700."""
MOST_CHARACTERS: Final = 512 * 1024
"""Most characters of all words that are made."""
DEEPEST: Final = 90
"""Most texts, functions and nodes within each other. Each takes up to six of Python's 1000 frames."""


class UnreadError(Exception):
    """Why a text is not followed to its end, as a clause."""


class ShellBudget:
    """What is left for the texts of one Job."""

    def __init__(self) -> None:
        self.steps = MOST_STEPS
        self.characters = MOST_CHARACTERS
        self._bytes = MOST_BYTES
        self._depth = 0
        self._trees: dict[str, Node | str] = {}

    def tree(self, text: str) -> Node | str:
        """The root of a text's tree; for a text that is not parsed, a clause that says why. Each text is parsed once."""
        if text not in self._trees:
            self._trees[text] = self._parse(text)
        return self._trees[text]

    def _parse(self, text: str) -> Node | str:
        size = len(text.encode("utf-8", "replace"))
        if size > shelltree.LONGEST:
            return f"has more than {shelltree.LONGEST} bytes"
        if size > self._bytes:
            return f"brings the shell texts of the Job to more than {MOST_BYTES} bytes"
        self._bytes -= size
        return shelltree.parse(text)

    def step(self, number: int = 1) -> None:
        """Count nodes. Raises UnreadError if there are too many."""
        self.steps -= number
        if self.steps < 0:
            raise UnreadError(f"takes more than {MOST_STEPS} steps to follow")

    def made(self, characters: int) -> None:
        """Count a word. Raises UnreadError if there are too many of them, or of their characters."""
        self.step()
        self.characters -= characters
        if self.characters < 0:
            raise UnreadError(f"makes words of more than {MOST_CHARACTERS} characters")

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Go one level down. Raises UnreadError if that is too deep."""
        if self._depth >= DEEPEST:
            raise UnreadError("is nested too deeply")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
