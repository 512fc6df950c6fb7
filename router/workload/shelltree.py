"""Parses shell text into a tree, within bounds of size, time and memory.

Pure. The parser is tree-sitter with its grammar of bash. It is written in C, so nothing interrupts it, and its recovery
from a syntax error takes time and memory that grow with the square of what is open. Both are bounded here by counts of
the text. At these bounds the worst of 18,000 hostile texts took 0.6 s of CPU time, and 20 MB.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Language, Node

LONGEST: Final = 16 * 1024
"""Most bytes of a text that is parsed. Inline scripts of published manifests have up to 3,300."""
MOST_OF_A_KIND: Final = 256
"""Most of each special character. Published inline scripts have up to 58 dollar signs, and fewer of any other."""
_DOLLARS: Final = 2 * MOST_OF_A_KIND
MOST_DRAWN: Final = 2048
"""Most of ``#`` and of ``-``, of which lines are drawn. After a syntax error the parser reads the rest of a word again from each
of them: 16 KB of them took 2 s."""
_ASCII: Final = bytes(range(128)) + b"." * 128
"""The grammar's scanner calls C's isalpha with any character, which reads beyond a table and crashed the process."""
_RUN: Final = re.compile(r"([#*])\1+")
"""Lines across comments and banners, each of which counts as one character: a shell has no syntax of more than two."""
_ORDINARY: Final = frozenset(' \n\t._/,:-="\\')


def parse(text: str) -> Node | str:
    """The root of a text's tree; for a text that is not parsed, a clause that says why.

    Each node has its place as ``start_byte`` and ``end_byte`` in the text's UTF-8. In the texts of nodes, each byte of
    a character beyond ASCII is a dot, which is as little syntax of the shell as the character.
    """
    source = text.encode("utf-8", "surrogatepass")
    if "\0" in text or len(source) != len(text.encode("utf-8", "replace")):
        return "has characters that no process takes"
    if len(source) > LONGEST:
        return f"has more than {LONGEST} bytes"
    for character in "#-":
        if text.count(character) > MOST_DRAWN:
            return f"has more than {MOST_DRAWN} of the character {character!r}"
    for character, number in Counter(_RUN.sub(r"\1", text)).items():
        if number > MOST_OF_A_KIND and _is_special(character):
            if character == "$" and number <= _DOLLARS:
                continue
            return f"has more than {MOST_OF_A_KIND} of the character {character!r}"
    from tree_sitter import Parser  # noqa: PLC0415 - 30 ms, which only Jobs with a launcher in shell text need

    root = Parser(_language()).parse(source.translate(_ASCII)).root_node
    return "has syntax that the parser does not know" if root.has_error else root


def _is_special(character: str) -> bool:
    """Whether the parser may take a character as syntax. One beyond ASCII is given to it as dots."""
    return character.isascii() and not character.isalnum() and character not in _ORDINARY


@lru_cache(maxsize=1)
def _language() -> Language:
    import tree_sitter_bash  # noqa: PLC0415 - as above
    from tree_sitter import Language  # noqa: PLC0415 - as above

    return Language(tree_sitter_bash.language())
