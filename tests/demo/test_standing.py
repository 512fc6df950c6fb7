"""A control plane that is left running: used by what it exports, found again, ended whole."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from router.controlplane.programs import Programs

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS = 300
AGAIN = "timeout 240 sh -c 'until kubectl logs job/large; do sleep 1; done'"
"""Logs once there is who serves them: an agent that was killed leads anew when its Lease has run out."""
WELL = "timeout 240 sh -c 'until batchgate status --context admin --exit-code > status; do sleep 1; done'; cat status"
"""As monitors do, once the agent tells of its queues again."""
UNSEEN = 'if batchgate status --exit-code; then false; else test "$?" = 3; fi'
"""As a user, who may not see all."""
REQUESTS = "kubectl --context admin get certificatesigningrequests -o name"


def standing(directory: Path, *words: str) -> str:
    argv = [sys.executable, "-m", "router.demo.standing", *words]
    done = subprocess.run(argv, cwd=directory, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    standing(tmp_path, "down")


def shell(place: Path, script: str) -> str:
    """What a shell prints that has taken the exports."""
    argv = ["/bin/sh", "-ec", f". build/control-plane.env; {script}"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(place)}
    done = subprocess.run(
        argv, cwd=place, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(900)
def test_it_is_used_by_what_it_exports_and_ended_whole(control_plane_programs: Programs, place: Path) -> None:
    printed = standing(place, "up", "--examples", str(EXAMPLES))

    exports = (place / "build/control-plane.env").read_text()
    assert exports in printed
    assert "runs already" in standing(place, "up", "--examples", str(EXAMPLES))
    assert shell(place, "kubectl auth whoami -o jsonpath={.status.userInfo.username}") == "ada"
    assert shell(place, "kubectl --context admin auth whoami -o jsonpath={.status.userInfo.username}") == "admin"
    shell(place, f"kubectl apply -f {EXAMPLES}/02-large-goes-to-hpc/job.yaml")
    shell(place, "kubectl wait --for=condition=Complete job/large --timeout=250s")
    assert shell(place, "kubectl logs job/large") == "the sum of 1 to 1000 is 500500\n"
    kill_agent(place)
    assert shell(place, AGAIN) == "the sum of 1 to 1000 is 500500\n"
    assert shell(place, REQUESTS).count("batchgate-kubelet-") == 1
    assert shell(place, WELL).rstrip().endswith("All is well.")
    assert "Nothing that could be looked at is wrong." in shell(place, UNSEEN)
    state = json.loads((place / "build/control-plane.json").read_text())

    standing(place, "down")

    assert list((place / "build").iterdir()) == []
    assert not Path(state["queue"]).parent.exists()
    assert processes_below(place, Path(state["queue"])) == []
    assert "No control plane" in standing(place, "down")


def kill_agent(place: Path) -> None:
    """Kill the agent, and see it gone; the keeper starts another."""
    until = time.monotonic() + 90
    # What it starts has its command line for a moment, until that is another program.
    while len(found := _agents(place)) != 1:
        assert time.monotonic() < until, f"the agent is not one process, but {found}"
        time.sleep(0.1)
    (pid,) = found
    os.kill(pid, signal.SIGKILL)
    while dict(_command_lines()).get(pid):
        assert time.monotonic() < until, f"process {pid} outlives SIGKILL"
        time.sleep(0.1)


@pytest.fixture
def short() -> Iterator[Path]:
    """Where temporary files of an ``up`` go."""
    with tempfile.TemporaryDirectory(prefix="standing-") as name:
        yield Path(name)


def begin(place: Path, short: Path) -> subprocess.Popen[str]:
    """An ``up`` that is in the middle of starting the control plane."""
    argv = [sys.executable, "-m", "router.demo.standing", "up", "--examples", str(EXAMPLES)]
    environment = {**os.environ, "TMPDIR": str(short)}
    starting = subprocess.Popen(
        argv, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert starting.stdout is not None
    assert any(line.startswith("Starting etcd") for line in starting.stdout), starting.communicate()
    until = time.monotonic() + SECONDS
    while not (place / "build/control-plane/logs/etcd.log").exists():
        assert starting.poll() is None, starting.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)
    return starting


def left(place: Path, short: Path) -> list[str]:
    """Processes and files."""
    return processes_below(place, short) + [str(entry) for entry in (*(place / "build").iterdir(), *short.iterdir())]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", ["SIGTERM", "down"])
def test_an_interrupted_start_leaves_nothing(
    control_plane_programs: Programs, place: Path, short: Path, how: str
) -> None:
    starting = begin(place, short)

    if how == "down":
        assert "has ended" in standing(place, "down")
    else:
        starting.terminate()

    _, said = starting.communicate(timeout=SECONDS)
    assert starting.returncode == 1
    assert how == "down" or said.endswith("Aborted!\n")
    assert left(place, short) == []


@pytest.mark.timeout(900)
def test_after_a_killed_start_there_is_another(control_plane_programs: Programs, place: Path, short: Path) -> None:
    killed = begin(place, short)
    killed.kill()
    killed.communicate(timeout=SECONDS)
    assert processes_below(place, short) == []

    again = begin(place, short)
    again.terminate()
    again.communicate(timeout=SECONDS)

    assert left(place, short) == []


@pytest.mark.timeout(900)
def test_two_are_not_started_at_once(control_plane_programs: Programs, place: Path, short: Path) -> None:
    starting = begin(place, short)
    starting.send_signal(signal.SIGSTOP)

    assert re.search(r"process \d+ is starting one", refused(place))

    starting.send_signal(signal.SIGCONT)
    assert "has ended" in standing(place, "down")
    starting.communicate(timeout=SECONDS)


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "build/control-plane/notes.txt"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("mine")

    assert "build/control-plane: was not made by" in refused(tmp_path)

    assert theirs.read_text() == "mine"


def refused(place: Path) -> str:
    argv = [sys.executable, "-m", "router.demo.standing", "up", "--examples", str(EXAMPLES)]
    done = subprocess.run(argv, cwd=place, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    return line


def processes_below(*directories: Path) -> list[str]:
    until = time.monotonic() + 90
    while found := [line for _, line in _command_lines() if any(f"{one}" in line for one in directories)]:
        if time.monotonic() > until:
            break
        time.sleep(0.1)
    return found


def _agents(place: Path) -> list[int]:
    return [pid for pid, line in _command_lines() if " -m router agent " in line and f"{place}" in line]


def _command_lines() -> Iterator[tuple[int, str]]:
    """Number and command line of every process; a zombie's line is empty."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            yield int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
