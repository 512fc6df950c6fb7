"""An OpenPBS as its manager sees and troubles it: what lives, settings, a server that is away.

Everything here is run as root, whom OpenPBS takes for a manager on the server's own host.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from router.hpc import openpbs
from tests.agent.whole.waiting import until

PATH = dict(openpbs.DEFAULT.environment)["PATH"]
SECONDS = 120.0
_SETTINGS = Path("/etc/pbs.conf")


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    """One command of the batch system to its end, however it ends."""
    environment = {**os.environ, "PATH": f"{PATH}:{os.environ['PATH']}"}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)


def ok(*argv: str) -> str:
    """What a command prints that must succeed."""
    done = run(*argv)
    assert done.returncode == 0, done
    return done.stdout


def version() -> str:
    """What ``qstat --version`` says; empty where there is none."""
    if shutil.which("qstat", path=PATH) is None:
        return ""
    done = run("qstat", "--version")
    return (done.stdout + done.stderr).strip()


def attribute(job_id: str, name: str) -> str:
    """One attribute of a job, also of one that is over; empty where it has none."""
    lines = ok("qstat", "-x", "-f", "-w", job_id).splitlines()
    found = (line.partition(" = ") for line in lines if line.strip().startswith(f"{name} = "))
    return next((value for _, _, value in found), "")


def variables(job_id: str) -> dict[str, str]:
    """What a job was given as its environment."""
    return dict(entry.split("=", 1) for entry in attribute(job_id, "Variable_List").split(",") if "=" in entry)


def hosts() -> dict[str, int]:
    """The cores of each execution host that is free, by its short name, as ``exec_host`` has it."""
    nodes = json.loads(ok("pbsnodes", "-a", "-F", "json"))["nodes"]
    free = [node["resources_available"] for node in nodes.values() if node["state"] == "free"]
    return {one["host"].partition(".")[0]: int(one["ncpus"]) for one in free}


def program(name: str) -> str:
    """The path of one of its commands."""
    return f"{_settings()['PBS_EXEC']}/bin/{name}"


def living(user: str) -> list[str]:
    """Ids of a user's jobs that are not over."""
    return ok("qselect", "-u", user).split()


def server() -> dict[str, str]:
    """The server's attributes."""
    lines = (line.strip().partition(" = ") for line in ok("qmgr", "-c", "list server").splitlines())
    return {name: value for name, equals, value in lines if equals}


@contextlib.contextmanager
def setting(name: str, value: str) -> Iterator[None]:
    """An attribute of the server for a while; one that it does not show is a boolean, and off."""
    before = server().get(name, "False")
    ok("qmgr", "-c", f"set server {name} = {value}")
    try:
        yield
    finally:
        ok("qmgr", "-c", f"set server {name} = {before}")


def schedule() -> None:
    """Let the scheduler look at its jobs now: it does so when jobs come and end, not when one is moved or its queue starts."""
    ok("qmgr", "-c", "set server scheduling = True")


@contextlib.contextmanager
def queue(name: str, **attributes: str) -> Iterator[None]:
    """A queue that takes and starts jobs, for a while. Its jobs that are left are deleted with it."""
    _drop(name)
    ok("qmgr", "-c", f"create queue {name}")
    for attribute, value in {**attributes, "enabled": "True", "started": "True"}.items():
        queue_set(name, attribute, value)
    try:
        yield
    finally:
        _drop(name)


def queue_set(name: str, attribute: str, value: str) -> None:
    """One attribute of a queue; an empty value takes it away."""
    words = f"set queue {name} {attribute} = {value}" if value else f"unset queue {name} {attribute}"
    ok("qmgr", "-c", words)


def _drop(name: str) -> None:
    """Delete a queue, if there is one; not even a job that is over may be in it."""
    if run("qstat", "-Q", name).returncode == 0:
        ids = run("qselect", "-q", name).stdout.split()
        if ids:
            run("qdel", "-W", "force", *ids)
        until(lambda: run("qmgr", "-c", f"delete queue {name}").returncode == 0, seconds=SECONDS, what="for no queue")


@contextlib.contextmanager
def operator(user: str) -> Iterator[None]:
    """A user who may see everybody's jobs, for a while."""
    # A server that is killed may come back with one whom it had let go.
    run("qmgr", "-c", f"set server operators -= {user}@*")
    ok("qmgr", "-c", f"set server operators += {user}@*")
    try:
        yield
    finally:
        ok("qmgr", "-c", f"set server operators -= {user}@*")


@contextlib.contextmanager
def killed(daemon: str) -> Iterator[None]:
    """The server (``server``) or the daemon of this node (``mom``) without a last word, and started again after it."""
    lock = Path(_settings()["PBS_HOME"], f"{daemon}_priv", f"{daemon}.lock")
    pid = int(lock.read_text())
    os.kill(pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pid}").exists(), seconds=SECONDS, what=f"for {daemon} to go")
    try:
        yield
    finally:
        start()


@contextlib.contextmanager
def away() -> Iterator[None]:
    """The server is shut down, and jobs that run are left alone; started again after it."""
    ok("qterm", "-t", "quick")
    until(lambda: run("qstat", "-B").returncode, seconds=SECONDS, what="for the server to go")
    try:
        yield
    finally:
        start()


def start() -> None:
    """Start what does not run, and wait until it answers."""
    # What the start script leaves behind holds its output open.
    subprocess.run(
        [f"{_settings()['PBS_EXEC']}/libexec/pbs_init.d", "start"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=SECONDS,
        check=False,
    )
    until(lambda: run("qstat", "-B").returncode == 0, seconds=SECONDS, what="for the server")


def _settings() -> dict[str, str]:
    return dict(line.split("=", 1) for line in _SETTINGS.read_text().splitlines() if "=" in line)
