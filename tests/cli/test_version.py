"""``batchgate version`` as a user calls it."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
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
def _known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(release, "revision", lambda: REVISION)
    monkeypatch.setattr(release, "packages", lambda: {"click": "8.2", "PyYAML": "6.0"})


@pytest.mark.parametrize(
    ("options", "lines"),
    [([], HEAD), (["--client"], HEAD), (["--long"], [*HEAD, "  click 8.2", "  PyYAML 6.0"])],
    ids=["short", "client", "long"],
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
        "cluster": None,
    }


def _away(directory: Path) -> Path:
    """A kubeconfig of a cluster that does not answer."""
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    users = [{"name": "u", "user": {"token": "t"}}]
    config = {"current-context": "c", "clusters": [cluster], "contexts": [context], "users": users}
    file = directory / "away.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


@pytest.mark.parametrize(
    ("options", "code", "shown", "said"),
    [
        ([], 0, HEAD, "Warning: the cluster was not looked at: "),
        (["--client"], 0, HEAD, ""),
        (["--server"], 2, [], "Error: GET /version: "),
    ],
    ids=["if it answers", "client", "server"],
)
def test_a_cluster_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], code: int, shown: list[str], said: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(_away(tmp_path)))

    done = subprocess.run(
        [sys.executable, "-m", "router", "version", *options], capture_output=True, text=True, check=False
    )

    lines = [line for line in done.stdout.splitlines() if not line.startswith("revision ")]
    assert (done.returncode, lines) == (code, [line for line in shown if not line.startswith("revision ")])
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_it_loads_no_client_and_no_rules() -> None:
    words = (
        "import sys; sys.argv[1:] = ['version']; from router.cli import main\ntry: main()\nexcept SystemExit: pass\n"
    )
    check = "print(sorted({'kubernetes', 'yaml', 'pydantic', 'cel_expr_python'} & set(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", words + check], capture_output=True, text=True, check=True).stdout

    assert told.splitlines()[-1] == "[]"
