"""The end of what goes on until interrupted, as the first process of a container."""

from __future__ import annotations

import subprocess
import sys

from tests.webhook.servers import ROOT

_WHILE_FREED = """
import os, signal, sys
from router.cli.certs import _end_by_signal

class Freed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

_end_by_signal()
freed = Freed()
del freed
sys.exit(7)
"""


def test_a_signal_ends_it_even_while_an_object_is_freed() -> None:
    """Python drops an exception there, so the process would have gone on."""
    argv = [sys.executable, "-c", _WHILE_FREED]
    done = subprocess.run(argv, check=False, cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
