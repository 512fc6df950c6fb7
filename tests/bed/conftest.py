"""For tests that look at a bed which stands on this machine, and are skipped where none does."""

from __future__ import annotations

import os

import pytest

from bed import making, standing
from bed.commands import BedError
from bed.layout import Layout


@pytest.fixture
def layout() -> Layout:
    """Of the bed that stands here. The test is skipped where none does."""
    if os.geteuid():
        pytest.skip("the bed is looked at as root")
    found = standing.layout()
    try:
        down = [name for name, pid in making.status(found).items() if not pid]
    except BedError as error:
        pytest.skip(str(error))
    if down:
        pytest.skip(f"the bed is not up: {', '.join(down)}")
    return found
