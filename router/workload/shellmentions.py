"""Tells which launchers that a text names surely do not run.

Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from router.workload.shellbudget import ShellBudget
from router.workload.shellcommands import literal_spans
from router.workload.shellsets import walked
from router.workload.shellsource import ShellWord
from router.workload.wrappers import base

if TYPE_CHECKING:
    from tree_sitter import Node

_PRINTS: Final = frozenset(
    ["[", "cat", "echo", "exit", "hash", "ls", "man", "printf", "rm", "test", "type", "whereis", "which"]
)
"""Commands that start none of the programs that they name."""


def only_prints(words: Sequence[ShellWord]) -> bool:
    """Whether a command only prints the programs that it names, or looks at them."""
    name = base(words[0].text or "")
    option = words[1].text if len(words) > 1 else ""
    if option is None or (len(words) > 1 and words[1].many):
        return name in ("echo", "cat", "ls", "exit", "[", "test")
    if name == "command":
        return option in ("-v", "-V")
    return (
        name in _PRINTS
        and not (name == "printf" and option.startswith("-v"))
        and not (name == "hash" and "p" in option)
    )


def harmless(root: Node, budget: ShellBudget) -> list[tuple[int, int]]:
    """The comments and tests of a text."""
    spans: list[tuple[int, int]] = []
    for node, _ in walked(root, budget):
        if node.type == "comment":
            spans.append((node.start_byte, node.end_byte))
        elif node.type == "test_command":
            spans += literal_spans(node, budget)
    return spans


def outside(found: Sequence[tuple[int, str]], spans: Sequence[tuple[int, int]]) -> list[tuple[int, str]]:
    """The mentions in none of the spans."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    starts = [start for start, _ in merged]
    outside = []
    for place, name in found:
        index = bisect_right(starts, place) - 1
        if index < 0 or place >= merged[index][1]:
            outside.append((place, name))
    return outside
