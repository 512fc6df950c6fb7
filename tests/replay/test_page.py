"""docs/trying-policies.md names every option, kind of change and field of a line, and none that is not there."""

from __future__ import annotations

import json
import re
from pathlib import Path

from click import Option

from router.cli.cluster import _CONNECTION
from router.cli.policydiff import _FAILING, diff
from router.replay.changes import Kind
from router.replay.reports import FAILING
from tests.cli.test_policydiff import lines

PAGE = (Path(__file__).parent.parent.parent / "docs" / "trying-policies.md").read_text()


def _first_cells(text: str) -> list[str]:
    return [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]


def test_every_option_is_on_the_page() -> None:
    options = [one for one in diff.params if isinstance(one, Option) and one.name not in _CONNECTION]
    named = {name for cell in _first_cells(PAGE) for name in re.findall(r"(--?[a-z-]+)", cell)}

    assert {one.opts[0] for one in options} - {"--scripts"} == named
    assert "`--scripts`" in PAGE


def test_every_kind_of_change_is_on_the_page() -> None:
    table = PAGE.partition("| kind | the decision |")[2].partition("\n\n")[0]

    assert re.findall(r"`(\w+)` \|", table) == [str(kind) for kind in Kind if kind is not Kind.NONE]
    assert _FAILING == FAILING


def test_every_field_of_a_line_is_on_the_page() -> None:
    table = PAGE.partition("## The decision log")[2]
    named = {name for cell in _first_cells(table) for name in re.findall(r"`(\w+)`", cell)}

    assert named == set(json.loads(lines((2, "ada", 0))))
