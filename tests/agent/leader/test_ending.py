"""How the agent's process ends, with an agent that is made for the case."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_BEGINNING = """
import os, signal, sys, time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from unittest.mock import Mock
from router.agent.leader import program
from router.startup.settings import LogFormat

class Agent:
    anew = False
    def __init__(self, *_):
        ThreadPoolExecutor().submit(time.sleep, 600)  # a command that hangs
    def serve(self):
        pass

program.Agent, program.sites, program.given = Agent, Mock(), Mock()
program.given.policy.return_value = (None, Mock())
"""
_END = "\nprogram.run(SimpleNamespace(log_format=LogFormat.JSON, site='s'))\n"
FAILS = """
def run(self):
    raise KeyError("what nobody thought of")
Agent.run = run
"""
ENDED_WHILE_IT_ENDS = """
def run(self):
    self.anew = True
    os.kill(os.getpid(), signal.SIGTERM)
    return 0
Agent.run = run
os.execv = lambda *_: os._exit(7)
"""
ENDS = """
Agent.run = lambda self: 0
"""


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (FAILS, 1, ["an error of the agent itself"]),
        (ENDED_WHILE_IT_ENDS, 0, []),
        (
            ENDED_WHILE_IT_ENDS.replace("os.kill(os.getpid(), signal.SIGTERM)", "pass"),
            7,
            ["starting anew, as the policy has changed for this site"],
        ),
        (ENDS, 0, []),
    ],
    ids=["an error of its own", "asked to end while it ends for a policy", "for a policy", "well"],
)
def test_no_command_that_hangs_keeps_it(text: str, code: int, said: list[str]) -> None:
    """Whoever renews the lead would go on to do so, while nobody does its work."""
    argv = [sys.executable, "-c", _BEGINNING + text + _END]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120, cwd=ROOT)

    assert (done.returncode, [json.loads(line)["message"] for line in done.stderr.splitlines()]) == (code, said)
