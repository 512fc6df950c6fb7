"""``python -m tests.chart.readme``: writes the table of values in the chart's README, from ``values.yaml``.

Pure but for reading and writing the two files. A value's description is the comment above it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any, Final

import yaml

from tests.chart.rendering import CHART

README: Final = CHART / "README.md"
VALUES: Final = CHART / "values.yaml"
BEGIN: Final = "| value | default | |\n|---|---|---|\n"
_KEY = re.compile(r"^(?P<indent> *)(?P<key>[A-Za-z]+):")


def leaves(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each value that may be set, by its path: what is no mapping, an empty mapping, and resources as a whole."""
    for key, value in values.items():
        place = f"{path}.{key}".removeprefix(".")
        if isinstance(value, dict) and value and not key.lower().endswith("resources"):
            yield from leaves(value, place)
        else:
            yield place, value


def comments(text: str) -> dict[str, str]:
    """The comment above each key, by the key's path, as one line; indented lines of a comment are left out."""
    found: dict[str, str] = {}
    path: list[str] = []
    lines: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            lines.append(line.lstrip()[1:])
        elif match := _KEY.match(line):
            path = [*path[: len(match["indent"]) // 2], match["key"]]
            whole = [one.strip() for one in lines if one.strip() and not one.startswith("  ")]
            found[".".join(path)] = " ".join(whole)
            lines = []
        else:
            lines = []
    return found


def table(text: str) -> str:
    """The table of a values.yaml."""
    told = comments(text)
    rows = [f"| `{place}` | `{json.dumps(value)}` | {told[place]} |\n" for place, value in leaves(yaml.safe_load(text))]
    return BEGIN + "".join(rows)


def with_table(page: str, made: str) -> str:
    """The page with this table in place of its own."""
    head, _, rest = page.partition(BEGIN)
    rows = re.match(r"(\|.*\n)*", rest)
    assert rows is not None
    return head + made + rest[rows.end() :]


def main() -> int:
    """Write the README; returns the exit code."""
    README.write_text(with_table(README.read_text(), table(VALUES.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
