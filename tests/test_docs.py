"""The pages: every link leads somewhere, every command of the README and of docs/judging.md exists and works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from router.cli import COMMANDS, commands

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page
    for where in ("", "docs/", "examples/*/", "certs/", "charts/*/", "manifests/")
    for page in ROOT.glob(f"{where}*.md")
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())

    assert [target for target in targets if "://" not in target and not (page.parent / target).exists()] == []


def test_the_readme_names_every_command() -> None:
    named = set(re.findall(r"`batchgate (\w+)", (ROOT / "README.md").read_text()))

    assert set(COMMANDS) - {"version"} <= named


def test_every_status_of_a_pod_has_a_meaning_and_an_advice() -> None:
    page = (ROOT / "docs" / "where-is-my-job.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("|")]

    assert len(rows) > 30
    assert [row for row in rows if not all(cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1])] == []


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        target for page in PAGES for target in re.findall(r"(?:`|^)make ([a-z0-9-]+)", page.read_text(), re.MULTILINE)
    }

    assert {"bench", "check", "demo", "test"} <= named <= targets


def test_the_command_of_the_page_on_judging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (command,) = re.findall(r"^batchgate (.+)$", (ROOT / "docs/judging.md").read_text(), re.MULTILINE)

    result = CliRunner().invoke(commands, shlex.split(command))

    assert result.exit_code == 0, result.output
    assert "rules, in order" in result.output
