"""The rooms of the code and what each needs: no circle, and the picture on the page is the code's.

``python -m tests.test_architecture`` draws the picture anew.
"""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

import grimp

TOP = Path(__file__).parent.parent
PAGE = TOP / "docs" / "architecture.md"
BEGIN, END = "```mermaid\n", "```\n"
ROOT = "router"
CONTRACTS = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
PURE = next(
    tuple(one["source_modules"]) for one in CONTRACTS if one["name"].startswith("The pure part knows no process")
)


@functools.cache
def rooms() -> dict[str, frozenset[str]]:
    """Each package and those whose modules its own modules import. ``names``, ``errors`` and ``values`` are everybody's."""
    graph = grimp.build_graph(ROOT, cache_dir=None)
    packages = {module for module in graph.modules if (TOP / module.replace(".", "/")).is_dir()}
    found: dict[str, set[str]] = {}
    for module in graph.modules - {f"{ROOT}.__main__"}:
        room = module if module in packages else module.rpartition(".")[0]
        for other in graph.find_modules_directly_imported_by(module):
            needed = other if other in packages else other.rpartition(".")[0]
            if ROOT not in (room, needed) and room != needed:
                found.setdefault(room, set()).add(needed)
                found.setdefault(needed, set())
    return {room: frozenset(needs) for room, needs in found.items()}


def reached(room: str, seen: tuple[str, ...] = ()) -> frozenset[str]:
    """All rooms below a room."""
    assert room not in seen, f"a circle: {' -> '.join((*seen, room))}"
    below = [needed for direct in rooms()[room] for needed in (direct, *_reached(direct, (*seen, room)))]
    return frozenset(below)


_reached = functools.cache(reached)


def picture() -> str:
    """The rooms with the arrows that no longer way replaces, top to bottom."""
    lines = ["flowchart TD"]
    for room, needs in sorted(rooms().items()):
        shown = room.removeprefix(f"{ROOT}.")
        direct = [one for one in needs if not any(one in _reached(other) for other in needs if other != one)]
        lines += [f"    {shown} --> {needed.removeprefix(f'{ROOT}.')}" for needed in sorted(direct)]
    pure = sorted(
        room.removeprefix(f"{ROOT}.") for room in rooms() if f"{room}.".startswith(tuple(f"{one}." for one in PURE))
    )
    lines += ["    classDef pure stroke-width:4px", f"    class {','.join(pure)} pure"]
    return "\n".join(lines) + "\n"


def test_no_room_needs_one_that_needs_it() -> None:
    assert {room for room in rooms() if room in reached(room)} == set()


def test_the_picture_is_that_of_the_code() -> None:
    assert f"{BEGIN}{picture()}{END}" in PAGE.read_text()


def _draw() -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{picture()}{END}{after}")


if __name__ == "__main__":
    _draw()
