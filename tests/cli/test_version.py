"""``batchgate version`` as a user calls it."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from importlib.metadata import version

import pytest
from click.testing import CliRunner

from router import __version__
from router.cli import commands
from router.startup import release

REVISION = "0123456789abcdef0123456789abcdef01234567"
CLIENT = version("kubernetes")
HEAD = [
    f"batchgate {__version__}",
    f"revision {REVISION}",
    f"Python {platform.python_version()}",
    f"Kubernetes 1.31 to 1.36, client {CLIENT}",
]


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "revision", lambda: REVISION)
    monkeypatch.setattr(release, "packages", lambda: {"click": "8.2", "PyYAML": "6.0"})


@pytest.mark.parametrize(
    ("options", "lines"), [([], HEAD), (["--long"], [*HEAD, "  click 8.2", "  PyYAML 6.0"])], ids=["short", "long"]
)
def test_for_people(options: list[str], lines: list[str]) -> None:
    result = CliRunner().invoke(commands, ["version", *options])

    assert (result.exit_code, result.stdout.splitlines()) == (0, lines)


def test_for_programs() -> None:
    result = CliRunner().invoke(commands, ["version", "-o", "json"])

    assert json.loads(result.stdout) == {
        "version": __version__,
        "revision": REVISION,
        "python": platform.python_version(),
        "kubernetes": {"oldest": "1.31", "newest": "1.36", "client": CLIENT},
        "packages": {"click": "8.2", "PyYAML": "6.0"},
    }


def test_it_loads_no_client_and_no_rules() -> None:
    words = (
        "import sys; sys.argv[1:] = ['version']; from router.cli import main\ntry: main()\nexcept SystemExit: pass\n"
    )
    check = "print(sorted({'kubernetes', 'yaml', 'pydantic', 'cel_expr_python'} & set(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", words + check], capture_output=True, text=True, check=True).stdout

    assert told.splitlines()[-1] == "[]"
