"""``docs/policy-tests.md`` and the hooks for pre-commit: what they say to run does what they say."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from router.cli import commands

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "policy-tests.md").read_text()
COMMANDS = re.findall(r"^batchgate (.+)$", PAGE, re.MULTILINE)
HOOKS = {one["id"]: one for one in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
CONFIGURED = yaml.safe_load(PAGE.partition("# .pre-commit-config.yaml\n")[2].partition("```")[0])["repos"][0]["hooks"]
ACTION = yaml.safe_load(PAGE.partition("# .github/workflows/policy.yaml\n")[2].partition("```")[0])


def hooked() -> list[str]:
    """The command lines of the hooks, with the arguments that the page gives them."""
    entries = [(HOOKS[one["id"]]["entry"], one["args"]) for one in CONFIGURED]
    return [shlex.join([*shlex.split(entry)[1:], *arguments]) for entry, arguments in entries]


def acted() -> list[str]:
    """The command lines of the container actions."""
    return [step["with"]["args"] for step in ACTION["jobs"]["policy"]["steps"] if step["uses"].startswith("docker://")]


@pytest.mark.parametrize("line", [*COMMANDS, *hooked(), *acted()])
def test_each_command_works(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.chdir(ROOT)

    result = CliRunner().invoke(commands, shlex.split(line))

    assert (result.exit_code, result.stderr) == (0, ""), result.output


def test_every_hook_is_shown() -> None:
    assert [one["id"] for one in CONFIGURED] == list(HOOKS)
    assert {one["pass_filenames"] for one in HOOKS.values()} == {False}


def test_both_commands_are_shown_as_hook_and_as_container_action() -> None:
    for lines in (hooked(), acted()):
        assert [line.split()[:2] for line in lines] == [["policy", "check"], ["policy", "test"]]


def test_the_page_names_every_key_of_the_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(commands, ["policy", "test", "policies", "-o", "json"])
    table = PAGE.partition("The object of `-o json`")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)(?:\[\])?`", table))

    found = set(_keys(json.loads(result.stdout)))

    assert found - named == set()


def _keys(value: object) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for one in value.values() for key in _keys(one))]
    return [key for one in value for key in _keys(one)] if isinstance(value, list) else []
