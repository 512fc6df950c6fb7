"""The pages: every link leads somewhere, every command of the README and of docs/judging.md exists and works."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
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


NAMING = re.compile(r'docs/([a-z-]+)\.md(?:#([a-z-]+)|`*,\s+(?:#\s+)?"([^"]+)")?')
"""A page that code, a chart or a script names, with the section that it names: ``docs/x.md#section``, or docs/x.md, "Section"."""


def _naming() -> Iterator[tuple[str, str, str, str]]:
    """File, page, anchor and title of each such name, in all that git knows but the pages."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        file = ROOT / name
        if name.endswith((".md", ".svg")) or name.startswith("tests/") or not file.is_file():
            continue
        text = file.read_text(errors="replace")
        for match in NAMING.finditer(text):
            page, anchor, title = (found or "" for found in match.groups())
            yield name, page, anchor, title


def _sections(page: str) -> dict[str, str]:
    """The titles of a page's sections, by their anchors."""
    titles = re.findall(r"^#+ (.+)$", (ROOT / "docs" / f"{page}.md").read_text(), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-"): title.replace("`", "") for title in titles}


def test_every_page_and_section_that_code_names_is_there() -> None:
    named = list(_naming())
    gone = [(file, page) for file, page, _, _ in named if not (ROOT / "docs" / f"{page}.md").is_file()]

    assert len(named) > 100
    assert gone == []
    assert [
        (file, page, anchor or title)
        for file, page, anchor, title in named
        if (anchor and anchor not in _sections(page)) or (title and title not in _sections(page).values())
    ] == []


SUBJECTS = {
    ".pre-commit-hooks.yaml": ("policy-tests", "before-each-commit"),
    "router/cli/testreports.py": ("policy-tests", "for-machines"),
}
"""Files that name the section of a subject that is on one page only."""


def test_a_subject_is_named_with_its_section() -> None:
    named = {(file, page, anchor) for file, page, anchor, _ in _naming()}

    assert {(file, *section) for file, section in SUBJECTS.items()} <= named


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
