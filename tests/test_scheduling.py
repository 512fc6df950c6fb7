"""How tests are shared out: names of modules that have moved away would let them run anywhere, and late."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scheduling import LONG, TOGETHER, scope

ROOT = Path(__file__).parent.parent
MODULES = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]


@pytest.mark.parametrize("start", [start for starts in TOGETHER.values() for start in starts])
def test_each_beginning_is_that_of_a_module(start: str) -> None:
    assert [module for module in MODULES if module.startswith(f"tests/{start}")] != []


def test_each_scope_that_takes_long_is_one() -> None:
    assert LONG.keys() - {scope(module) for module in MODULES} == set()


@pytest.mark.parametrize(
    ("nodeid", "expected"),
    [
        ("tests/agent/whole/test_kills.py::test_a[x::y]", "life and kills"),
        ("tests/agent/whole/test_operators.py::test_a", "operators"),
        ("tests/pod/test_view.py::test_a", "tests/pod/test_view.py"),
    ],
)
def test_what_a_test_runs_together_with(nodeid: str, expected: str) -> None:
    assert scope(nodeid) == expected


CONFTEST = """
from tests import scheduling

def pytest_xdist_make_scheduler(config, log):
    return scheduling.ByScope(config, log)

def pytest_collection_modifyitems(items):
    items.reverse()
"""


def test_scopes_begin_in_the_order_of_the_tests(tmp_path: Path) -> None:
    """xdist itself begins with the scope of most tests, which are the quick ones."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_many.py").write_text("def test_a(): pass\ndef test_b(): pass\ndef test_c(): pass\n")
    (tmp_path / "test_one.py").write_text("def test_d(): pass\n")

    done = _run(tmp_path)

    ran = [line.rpartition("::")[2].strip() for line in done.stdout.splitlines() if "PASSED" in line]
    assert ran == ["test_d", "test_c", "test_b", "test_a"], done


ENDLESS = """
import subprocess

def test_a(): pass

def test_b():
    with subprocess.Popen(["sleep", "99"]):  # whose end waits for it, whatever has happened
        raise AssertionError

def test_c(): pass
"""


def test_a_test_that_never_ends_fails_and_the_others_run(tmp_path: Path) -> None:
    """A time limit by a signal alone lets such a test wait for ever in its own end."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_endless.py").write_text(ENDLESS)

    done = _run(tmp_path, "-o", "faulthandler_timeout=8", "-o", "faulthandler_exit_on_timeout=true")

    results = re.findall(r"^\[gw\d\] .* (PASSED|FAILED) .*::(\w+)", done.stdout, re.MULTILINE)
    assert sorted(results) == [("FAILED", "test_b"), ("PASSED", "test_a"), ("PASSED", "test_c")], done
    assert "test_endless.py::test_b" in done.stdout.partition("crashed while running")[2]
    assert "subprocess.py" in done.stderr, done


def _run(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = ("-v", "-n", "1", "-p", "no:cacheprovider", f"--rootdir={directory}", *options, str(directory))
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=environment,
    )
