"""Which daemons there are, and which of their processes run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bed import daemons
from bed.daemons import Daemon
from bed.layout import Layout, Variant
from tests.processes import started

ROOT = Path(__file__).parents[2]
SLEEPER = Daemon("sleeper", "sleep", ("sleep", "600"))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    found = Layout(state=tmp_path / "state", running=tmp_path / "run", shared=tmp_path / "shared")
    found.logs.mkdir(parents=True)
    found.running.mkdir()
    return found


def test_each_variant_starts_what_it_needs_in_order(layout: Layout) -> None:
    names = {
        accounting: [daemon.name for daemon in daemons.daemons(layout, Variant(accounting=accounting))]
        for accounting in (True, False)
    }

    nodes = ["node1", "node2", "node3", "node4"]
    assert names == {
        True: ["munged", "mariadbd", "slurmdbd", "slurmctld", *nodes, "sshd"],
        False: ["munged", "slurmctld", *nodes, "sshd"],
    }


def test_start_and_stop_twice(layout: Layout) -> None:
    started = [daemons.start(layout, SLEEPER), daemons.start(layout, SLEEPER)]
    pid = daemons.running(layout, SLEEPER)
    assert pid is not None
    assert daemons.descendants(os.getpid()).count(pid) == 1

    stopped = [daemons.stop(layout, SLEEPER), daemons.stop(layout, SLEEPER)]

    assert (started, stopped, daemons.running(layout, SLEEPER)) == ([True, False], [True, False], None)
    os.waitpid(pid, 0)


def test_a_pid_that_another_program_has_by_now_is_not_the_daemons(layout: Layout) -> None:
    layout.pid_file("sleeper").write_text(f"{os.getpid()}\n")

    assert daemons.running(layout, SLEEPER) is None
    assert daemons.stop(layout, SLEEPER) is False


@pytest.mark.parametrize("text", ["", "x", "0", "999999999"])
def test_a_pid_file_of_nobody(layout: Layout, text: str) -> None:
    layout.pid_file("sleeper").write_text(text)

    assert daemons.running(layout, SLEEPER) is None


def test_a_process_that_ended_and_waits_to_be_reaped_does_not_run(layout: Layout) -> None:
    with started(["sleep", "600"]) as process:
        layout.pid_file("sleeper").write_text(f"{process.pid}\n")
        process.send_signal(signal.SIGKILL)
        until = time.monotonic() + 60
        while daemons.running(layout, SLEEPER) and time.monotonic() < until:
            time.sleep(0.01)

        assert daemons.running(layout, SLEEPER) is None


def test_the_command_line_says_in_a_sentence_what_is_wrong() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bed", "stop", "nobody"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bed: nobody is no daemon of the bed; there are munged, ")
