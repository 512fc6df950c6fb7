"""docs/simulating.md names every option and column, and its example is what the command prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click import Option
from click.testing import CliRunner

from router.cli import commands
from router.cli.cluster import _CONNECTION
from router.cli.policysimulate import simulate
from router.simulate.reports import HEAD

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "simulating.md").read_text()


def test_the_example_is_what_the_command_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, output = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (command,) = re.findall(r"^batchgate (.+)$", PAGE, re.MULTILINE)
    (tmp_path / "small.swf").write_text(trace)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")

    result = CliRunner().invoke(commands, shlex.split(command))

    assert result.exit_code == 0, result.output
    assert result.output == output


def test_every_option_and_column_is_on_the_page() -> None:
    cells = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    options = [one for one in simulate.params if isinstance(one, Option) and one.name not in _CONNECTION]

    assert {one.opts[0] for one in options} == {name for cell in cells for name in re.findall(r"`(--?[a-z-]+)", cell)}
    assert set(HEAD) - {"POLICY"} == {name for cell in cells for name in re.findall(r"`([A-Z][A-Z0-9 -]+)`", cell)}
