"""Every example: its expected decision, its own part of the script, and that its README's commands work.

A changed script is looked at, then written anew with: ``python -m tests.test_examples``.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from router import policy
from router.cli import commands
from router.gate import judging as gate
from router.policy.decision import NO_QUEUE_STATES, Requester
from router.startup.policyfiles import read_directory
from router.workload.cluster import UNKNOWN_CLUSTER

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/job.yaml"))
ADA = Requester("ada", (), "default")


def judgement_of(example: Path) -> gate.Judgement:
    opened = gate.Gate(
        policy=policy.load(read_directory(ROOT / "examples" / "policies")),
        cluster=UNKNOWN_CLUSTER,
        states=NO_QUEUE_STATES,
        signer=None,
        issued_at=0,
    )
    return gate.judge(yaml.safe_load((example / "job.yaml").read_text()), requester=ADA, gate=opened)


def decided(judgement: gate.Judgement) -> dict[str, Any]:
    """The decision in the words of expected.yaml."""
    decision = judgement.decision
    assert decision is not None
    shown: dict[str, Any] = {"target": decision.target, "rule": decision.rule}
    if decision.route is not None:
        shown |= {"site": decision.route.site.name, "queue": decision.route.queue.name}
    if decision.obstacles:
        shown["fields"] = [obstacle.path for obstacle in decision.obstacles]
    if decision.audited:
        shown["audited"] = [audited.rule for audited in decision.audited]
    return shown


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_decision(example: Path) -> None:
    expected = yaml.safe_load((example / "expected.yaml").read_text())

    assert expected["decision"] == decided(judgement_of(example))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_script(example: Path) -> None:
    script = judgement_of(example).script
    file = example / "script.sh"

    assert (file.read_text() if file.exists() else None) == (script.own if script else None)


def test_the_page_on_scripts_shows_an_own_part_in_full() -> None:
    script = judgement_of(ROOT / "examples" / "02-large-goes-to-hpc").script

    assert script is not None
    assert f"```bash\n{script.own}```\n" in (ROOT / "docs" / "script.md").read_text()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_commands_of_the_readme(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = re.findall(r"^batchgate (.+)$", (example / "README.md").read_text(), re.MULTILINE)
    denied = "deny" in (example / "expected.yaml").read_text()

    assert found
    for command in found:
        result = CliRunner().invoke(commands, shlex.split(command))
        assert (1 if denied else 0) == result.exit_code, result.output


if __name__ == "__main__":
    for each in EXAMPLES:
        rendered = judgement_of(each).script
        if rendered is not None:
            (each / "script.sh").write_text(rendered.own)
