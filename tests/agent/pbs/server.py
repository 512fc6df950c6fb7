"""An OpenPBS or TORQUE as its manager sees and troubles it: what lives, settings, a server that is away.

Everything here is run as root, whom both take for a manager on the server's own host. Which of them it is, ``qstat`` of
the first directory of commands says whose server answers.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from router.hpc import openpbs, torque
from tests.agent.whole.waiting import until

SECONDS = 120.0
_SETTINGS = Path("/etc/pbs.conf")


def _usable() -> str:
    """The PATH of the system that answers here; of OpenPBS where none does."""
    paths = [dict(commands.environment)["PATH"] for commands in (openpbs.DEFAULT, torque.DEFAULT)]
    for path in paths:
        if (qstat := shutil.which("qstat", path=path.partition(":")[0])) is not None:
            done = subprocess.run([qstat, "-B"], capture_output=True, timeout=SECONDS, check=False)
            if done.returncode == 0:
                return path
    return paths[0]


PATH: Final = _usable()


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


TORQUE: Final = version().startswith("Version: ")
"""OpenPBS says ``pbs_version = ``."""
OVER: Final = "C" if TORQUE else "F"
"""The state of a job that is over, while there is a record of it."""
START: Final = os.environ.get("BATCHGATE_PBS_START", "")
"""A command that starts those daemons of all hosts that do not run; without it OpenPBS' own script, for this host's."""
DETAILS: Final = ("qstat", "-f", "-1") if TORQUE else ("qstat", "-x", "-f", "-w")
_NAMES: Final = {"Exit_status": "exit_status", "stime": "start_time"} if TORQUE else {}


def attribute(job_id: str, name: str) -> str:
    """One attribute of a job, also of one that is over, by its name on OpenPBS; empty where it has none."""
    name = _NAMES.get(name, name)
    lines = ok(*DETAILS, job_id).splitlines()
    found = (line.partition(" = ") for line in lines if line.strip().startswith(f"{name} = "))
    return next((value for _, _, value in found), "")


def variables(job_id: str) -> dict[str, str]:
    """What a job was given as its environment."""
    return dict(entry.split("=", 1) for entry in attribute(job_id, "Variable_List").split(",") if "=" in entry)


def hosts() -> dict[str, int]:
    """The cores of each execution host that is free, by its short name, as ``exec_host`` has it."""
    if TORQUE:
        every = ET.fromstring(ok("pbsnodes", "-x"))
        shown = [{one.tag: one.text or "" for one in node} for node in every]
        return {one["name"].partition(".")[0]: int(one["np"]) for one in shown if one["state"] == "free"}
    nodes = json.loads(ok("pbsnodes", "-a", "-F", "json"))["nodes"]
    free = [node["resources_available"] for node in nodes.values() if node["state"] == "free"]
    return {one["host"].partition(".")[0]: int(one["ncpus"]) for one in free}


def program(name: str) -> str:
    """The path of one of its commands."""
    return f"{PATH.partition(':')[0]}/{name}"


def living(user: str) -> list[str]:
    """Ids of a user's jobs that are not over."""
    return ok("qselect", "-u", user, *(("-s", "EHQRTW") if TORQUE else ())).split()


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


@contextlib.contextmanager
def history(*, kept: bool) -> Iterator[None]:
    """Whether the server keeps records of jobs that are over."""
    name, values = ("keep_completed", ("0", "300")) if TORQUE else ("job_history_enable", ("False", "True"))
    with setting(name, values[kept]):
        yield


def schedule() -> None:
    """Let the scheduler look at its jobs now: it does so when jobs come and end, not when one is moved or its queue starts."""
    ok("qmgr", "-c", "set server scheduling = True")


@contextlib.contextmanager
def plans(jobs: int) -> Iterator[None]:
    """OpenPBS' scheduler plans the starts of so many waiting jobs, for a while (``strict_ordering``, ``backfill_depth``)."""
    file = Path(_settings()["PBS_HOME"]) / "sched_priv" / "sched_config"
    before = file.read_text()
    strict = re.sub(r"^strict_ordering:.*", "strict_ordering: true ALL", before, flags=re.MULTILINE)
    assert strict != before, f"{file} has no strict_ordering that is off"
    ok("qmgr", "-c", f"set server backfill_depth = {jobs}")
    _write_scheduling(file, strict)
    try:
        yield
    finally:
        _write_scheduling(file, before)
        ok("qmgr", "-c", "unset server backfill_depth")


def _write_scheduling(file: Path, text: str) -> None:
    """Another configuration of the scheduler, which reads it at SIGHUP."""
    file.write_text(text)
    for pid in pids("sched"):
        os.kill(pid, signal.SIGHUP)
    schedule()


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
            run("qdel", *(("-p",) if TORQUE else ("-W", "force")), *ids)
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


def pids(daemon: str) -> list[int]:
    """The server's (``server``), the scheduler's (``sched``), or those of all execution hosts (``mom``) seen here."""
    return [pid for pid in _processes() if _is(pid, f"pbs_{daemon}")]


def _processes() -> list[int]:
    return [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()]


def _is(pid: int, name: str) -> bool:
    """Whether a process is this program, and not what one of its kind has forked for a job."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/stat").read_text()
        comm, _, rest = status.partition("(")[2].rpartition(")")
        parent = rest.split()[1]
        whose = Path(f"/proc/{parent}/comm").read_text().strip() if parent != "1" else ""
        return comm.startswith(name) and not whose.startswith(name)
    return False


def hosts_of(pids: Iterable[int]) -> set[str]:
    """What stands for the hosts of processes: their host names' namespaces, without this machine's own."""
    return {_host(pid) for pid in pids} - {_host(os.getpid()), ""}


def _host(pid: int) -> str:
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/uts").readlink())
    return ""


def crash() -> None:
    """End all that runs on the execution hosts in namespaces of their own, daemons first, as a loss of power does."""
    daemons = pids("mom")
    hosts = hosts_of(daemons)
    assert hosts, "no execution host has a namespace of its own"
    for pid in daemons:
        os.kill(pid, signal.SIGKILL)
    until(lambda: _kill_all(hosts), lambda left: not left, what="for nothing left on the hosts")
    _await_gone(daemons)


def _kill_all(hosts: set[str]) -> list[int]:
    """The processes on these hosts, which are killed."""
    found = [pid for pid in _processes() if _host(pid) in hosts]
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found


def _await_gone(pids: list[int]) -> None:
    """Until these processes are no more, not even as zombies, whom a start script may take for living ones."""
    until(lambda: [pid for pid in pids if Path(f"/proc/{pid}").exists()], lambda left: not left, what="to be gone")


def kill(daemon: str) -> None:
    """End the server (``server``) or the daemons of all nodes (``mom``) without a last word; jobs go on."""
    found = pids(daemon)
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    _await_gone(found)


@contextlib.contextmanager
def killed(daemon: str) -> Iterator[None]:
    """The same for a while, and started again after it, until a host is free for the next job."""
    kill(daemon)
    try:
        yield
    finally:
        start()
        until(hosts, seconds=SECONDS, what="for a free host")


@contextlib.contextmanager
def away() -> Iterator[None]:
    """The server is shut down, and jobs that run are left alone; started again after it."""
    ok("qterm", "-t", "quick")
    until(lambda: run("qstat", "-B").returncode, seconds=SECONDS, what="for the server to go")
    try:
        yield
    finally:
        start()


def start(mom_options: str = "") -> None:
    """Start what does not run, and wait until it answers.

    :param mom_options: of the daemons of execution hosts, which ``START`` finds in ``MOM_OPTIONS``
    """
    words = shlex.split(START) or [f"{_settings()['PBS_EXEC']}/libexec/pbs_init.d", "start"]
    # What the start script leaves behind holds its output open.
    quiet = subprocess.DEVNULL
    environment = {**os.environ, "MOM_OPTIONS": mom_options}
    subprocess.run(words, stdin=quiet, stdout=quiet, stderr=quiet, timeout=SECONDS, check=False, env=environment)
    until(lambda: run("qstat", "-B").returncode == 0, seconds=SECONDS, what="for the server")


def _settings() -> dict[str, str]:
    return dict(line.split("=", 1) for line in _SETTINGS.read_text().splitlines() if "=" in line)
