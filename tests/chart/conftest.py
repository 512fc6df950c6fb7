"""Helm, where it is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.controlplane import programs


@pytest.fixture(scope="session", autouse=True)
def helm() -> Path:
    """The program. Tests are skipped where it is not built yet."""
    try:
        return programs.find_helm()
    except programs.NoPrograms as error:
        pytest.skip(str(error))
