"""Whether the long forms of the kill tests run: ``make kill-test`` sets the variable."""

from __future__ import annotations

import os
import random

import pytest

LONG = bool(os.environ.get("BATCHGATE_KILL_TEST"))
only_long = pytest.mark.skipif(not LONG, reason="takes minutes: make kill-test")
SEED = "BATCHGATE_KILL_SEED"
"""A variable that repeats the moments of an earlier run, as far as the machine repeats itself."""


def draw_seed() -> int:
    """What the moments of this run are drawn from."""
    return int(os.environ.get(SEED, random.randrange(1 << 32)))
