"""How tests are shared out: names of modules that have moved away would let them run anywhere, and late."""

from __future__ import annotations

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
