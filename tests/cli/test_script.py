"""``batchgate script``: the complete script, or the Job's own part of it."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from router.cli import commands
from router.script import complete

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "03-mpi-over-two-nodes"


def script(*arguments: str) -> str:
    policy = str(ROOT / "examples" / "policies")
    words = ["script", "-f", str(EXAMPLE / "job.yaml"), "--policy", policy, "--user", "ada", *arguments]
    result = CliRunner().invoke(commands, words)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_own_part_is_what_an_agent_completes() -> None:
    own = script("--own")

    assert own == (EXAMPLE / "script.sh").read_text()
    assert complete(own) == script()
    assert script().endswith('\nmain "$@"\n')
    assert own.splitlines()[-1] == "# runtime 1: base apptainer images pairs talk mpi"
    assert len(own) < 2048
