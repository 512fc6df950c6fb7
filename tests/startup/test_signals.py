"""Signals that come when a handler could do no harm, and when it could."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_BEGINNING = """
import os, signal, sys, threading
from router.startup import signals

if len(sys.argv) == 2:
    signals.hold((signal.SIGTERM,))
    os.kill(os.getpid(), signal.SIGTERM)
    os.execv(sys.executable, [sys.executable, __file__])  # which takes some time to begin
stopping = threading.Event()
asked = signals.call_at((signal.SIGTERM, signal.SIGHUP), stopping.set)
me = os.getpid()
"""
WHILE_WAITING = """
with stopping._cond:  # as a wait has it for a moment
    os.kill(me, signal.SIGTERM)
sys.exit(0 if stopping.wait(30) and asked == [signal.SIGTERM] else 7)
"""
WHILE_FREED = """
class Freed:
    def __del__(self):
        os.kill(me, signal.SIGHUP)

freed = Freed()
del freed
sys.exit(0 if stopping.wait(30) and asked == [signal.SIGHUP] else 7)
"""
BEFORE_IT_IS_TOLD = """
sys.exit(0 if stopping.wait(30) and asked == [signal.SIGTERM] else 7)
"""


@pytest.mark.parametrize(
    ("text", "words"), [(WHILE_WAITING, []), (WHILE_FREED, []), (BEFORE_IT_IS_TOLD, ["by another program before"])]
)
def test_no_signal_is_lost(tmp_path: Path, text: str, words: list[str]) -> None:
    (tmp_path / "program.py").write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{_BEGINNING}{text}")

    argv = [sys.executable, str(tmp_path / "program.py"), *words]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stderr) == (0, "")
