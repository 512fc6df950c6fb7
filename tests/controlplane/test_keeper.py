"""The keeper: nothing that it started outlives it, however it or its owner ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from router.controlplane.processes import Component, Keeper, start_keeper
from router.errors import ConfigError

SECONDS = 60

# Writes its process id once it runs, then sleeps; `daemon` leaves its session and its parent first.
SLEEPER = """
import os, signal, sys, time
if "daemon" in sys.argv:
    if os.fork(): os._exit(0)
    os.setsid()
    if os.fork(): os._exit(0)
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1] + ".new", "w") as file: file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    started = start_keeper(tmp_path / "keeper.log")
    yield started
    started.close()


def sleeper(keeper: Keeper, directory: Path, *how: str, grace: float = 0.0) -> tuple[Component, int]:
    """Start one, and wait until it runs; it, and its own process id."""
    told = directory / f"pid-{'-'.join(how)}"
    argv = [sys.executable, "-c", SLEEPER, str(told), *how]
    component = Component("sleeper", argv, directory, dict(os.environ), keeper, grace)
    component.start()
    await_true(told.exists)
    return component, int(told.read_text())


def await_true(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def awaited(pid: int) -> int:
    """How many descriptors the loop of a process waits for: the lines of its epoll (proc(5), fdinfo)."""
    found = 0
    for one in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # of a file that was open for a moment
            found += one.read_text().count("tfd:")
    return found


def is_gone(pid: int) -> bool:
    """Whether it has ended; one that nobody waited for yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_exit_codes_are_told(keeper: Keeper, tmp_path: Path) -> None:
    component = Component("ends", ["/bin/sh", "-c", "echo last words; exit 3"], tmp_path, {}, keeper)
    component.start()

    await_true(lambda: component.exit_code() is not None)

    assert (component.exit_code(), component.running, component.tail()) == (3, False, "  last words")


def test_a_program_that_is_not_there_is_an_error(keeper: Keeper, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot start /no/such/program: No such file or directory"):
        Component("none", ["/no/such/program"], tmp_path, {}, keeper).start()


def test_one_child_is_ended_and_started_again(keeper: Keeper, tmp_path: Path) -> None:
    component, first = sleeper(keeper, tmp_path)
    with pytest.raises(ConfigError, match="sleeper runs already"):
        component.start()

    assert component.end() == -signal.SIGTERM
    assert is_gone(first)
    component.start()
    assert component.running


def test_a_child_that_ignores_the_signal_is_killed(keeper: Keeper, tmp_path: Path) -> None:
    component, _ = sleeper(keeper, tmp_path, "stubborn")

    assert component.end(seconds=0.2) == -signal.SIGKILL


@pytest.mark.parametrize("how", [(), ("daemon",), ("stubborn",)], ids=["plain", "daemon", "stubborn"])
def test_the_owner_closes_it(tmp_path: Path, how: tuple[str, ...]) -> None:
    keeper = start_keeper(tmp_path / "keeper.log")
    _, pid = sleeper(keeper, tmp_path, *how)

    keeper.close()

    assert is_gone(pid)


def test_its_own_sudden_end_ends_its_children(tmp_path: Path) -> None:
    keeper = start_keeper(tmp_path / "keeper.log")
    _, pid = sleeper(keeper, tmp_path)

    os.kill(keeper.pid, signal.SIGKILL)

    await_true(lambda: is_gone(pid))
    with pytest.raises(ConfigError, match="the control plane's keeper has ended"):
        keeper.ask(do="poll", pid=pid)
    keeper.close()


OWNER = """
import os, sys, time
from pathlib import Path
from router.controlplane.processes import Component, start_keeper
directory = Path(sys.argv[1])
keeper = start_keeper(directory / "keeper.log")
keeper.ask(do="at-end", argv=["/bin/sh", "-c", f"echo done > {directory}/at-end"])
Component("sleeper", [sys.executable, "-c", sys.argv[2], str(directory / "pid"), "daemon"], directory, dict(os.environ), keeper).start()
if sys.argv[3] == "leave":
    while not (directory / "pid").exists(): time.sleep(0.01)
    keeper.leave()
    print(keeper.pid)
    sys.exit()
if os.fork() == 0:
    # A fork that keeps copies of the owner's descriptors open.
    time.sleep(600)
    os._exit(0)
time.sleep(600)
"""


def test_its_owners_sudden_end_ends_all(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path), SLEEPER, "stay"], start_new_session=True)
    await_true((tmp_path / "pid").exists)
    pid = int((tmp_path / "pid").read_text())

    owner.kill()
    owner.wait()

    await_true(lambda: is_gone(pid))
    await_true((tmp_path / "at-end").exists)
    os.killpg(owner.pid, signal.SIGKILL)


AGAIN = """
import os, sys
from pathlib import Path
from router.controlplane.processes import Component, start_keeper
directory = Path(sys.argv[1])
keeper = start_keeper(directory / "keeper.log")
argv = ["/bin/sh", "-c", f"echo $$ >> {directory}/starts; exec sleep 600"]
again, once = (Component(name, argv, directory, dict(os.environ), keeper) for name in ("again", "once"))
again.start()
once.start()
keeper.leave(again=[again])
print(keeper.pid, again.pid, once.pid)
"""


def test_what_is_to_be_started_again_is(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    starts.touch()  # read before a shell has written to it, where the machine is busy
    done = subprocess.run(
        [sys.executable, "-c", AGAIN, str(tmp_path)], check=True, capture_output=True, text=True, timeout=SECONDS
    )
    keeper, again, once = (int(word) for word in done.stdout.split())
    await_true(lambda: len(starts.read_text().split()) == 2)
    os.kill(once, signal.SIGKILL)

    for count in (3, 4):
        os.kill(again, signal.SIGKILL)
        await_true(lambda wanted=count: len(starts.read_text().split()) == wanted)  # type: ignore[misc]
        again = int(starts.read_text().split()[-1])

    assert is_gone(once)
    os.kill(keeper, signal.SIGTERM)
    await_true(lambda: is_gone(again))


def test_one_that_was_left_ends_at_sigterm(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", OWNER, str(tmp_path), SLEEPER, "leave"]
    keeper = int(subprocess.run(argv, check=True, capture_output=True, text=True, timeout=SECONDS).stdout)
    pid = int((tmp_path / "pid").read_text())
    # Its owner has ended, and its loop has seen that: nothing but its own wake-up is waited for. Both go on.
    await_true(lambda: awaited(keeper) == 1)
    assert not is_gone(pid)
    assert not is_gone(keeper)

    os.kill(keeper, signal.SIGTERM)

    await_true(lambda: is_gone(pid))
    await_true(lambda: is_gone(keeper))
    assert (tmp_path / "at-end").read_text() == "done\n"
