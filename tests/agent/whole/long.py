"""Whether the long forms of the kill tests run: ``make kill-test`` sets the variable."""

from __future__ import annotations

import os

import pytest

LONG = bool(os.environ.get("BATCHGATE_KILL_TEST"))
only_long = pytest.mark.skipif(not LONG, reason="takes minutes: make kill-test")
