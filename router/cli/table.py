"""Prints tables for people: aligned columns on a terminal, one line per row in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import StringIO
from typing import Final

PIPE_WIDTH: Final = 10_000


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their heads. On a terminal the last column wraps; in a pipe nothing is cut or wrapped."""
    from rich.console import Console  # noqa: PLC0415 - the import takes a tenth of a second
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for name in head:
        table.add_column(name, overflow="fold", no_wrap=name != head[-1])
    for row in rows:
        table.add_row(*(_plain(cell) for cell in row))
    if sys.stdout.isatty():
        Console(markup=False, highlight=False).print(table)
        return
    console = Console(file=StringIO(), width=PIPE_WIDTH, markup=False, highlight=False)
    with console.capture() as captured:
        console.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))  # noqa: T201


def _plain(text: str) -> str:
    """One line without control characters: a manifest's text must not control the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)
