"""One process per job: starts the script, enforces walltime and memory, suspends and resumes it, notes its end.

Shell. It uses only its job's directory and the standard library, and is run by path, so that it starts in 10 ms. It
survives the daemon: the next daemon reads the job's end from ``exit.json``. The daemon's orders (signals, suspension, a
time to kill) are a file, which the shepherd reads at each SIGUSR1. As a subreaper it also ends processes that a job
leaves behind, in any session. Usage: ``shepherd.py DIRECTORY RUN``, with SIGUSR1 blocked.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

ORDERS: Final = "orders.json"
POKE: Final = signal.SIGUSR1
LISTS: Final = Path("/proc/thread-self/children")
"""Exists if the kernel lists each process's children (CONFIG_PROC_CHILDREN)."""
_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER, prctl(2)
_NO_SHELL: Final = 254
_EMPTY_SCRIPT: Final = 127
_OPEN: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_LOOK: Final = 1.0
"""Seconds between two looks at a job's memory."""
_LONG: Final = 3600.0
# The daemon ignores some signals, a child inherits that, and bash could not even trap them.
_DEFAULT_AGAIN: Final = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


def start_time(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat, which together with the pid identifies a process for ever; None if it is gone."""
    fields = stat(pid)
    return int(fields[19]) if fields else None


def stat(pid: int | str) -> list[str]:
    """The fields of /proc/PID/stat after the name (state first); empty for a process that is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    fields = text[text.rindex(")") + 2 :].split()
    return [] if fields[0] in {"Z", "X"} else fields


def _processes() -> Iterator[tuple[int, list[str]]]:
    """All processes of the machine; too slow for a thousand jobs that end at the same time."""
    for name in [entry.name for entry in os.scandir("/proc") if entry.name.isdigit()]:
        if fields := stat(name):
            yield int(name), fields


def signal_session(session: int, number: int) -> None:
    """Send a signal to every process of a session, as pbs_mom does, whatever its parent is."""
    _signal([pid for pid, fields in _processes() if int(fields[3]) == session], number)


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _children(pid: int) -> list[int]:
    """A process's children, by the kernel's list, without reading other processes."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def _all_children() -> Callable[[int], Iterable[int]]:
    """The same for a kernel without these lists."""
    children: dict[int, list[int]] = {}
    for pid, fields in _processes():
        children.setdefault(int(fields[1]), []).append(pid)
    return lambda pid: children.get(pid, ())


def _look() -> dict[int, list[str]]:
    """All descendants of this process. A state is read before the children: a stopped process starts no more."""
    children = _children if LISTS.exists() else _all_children()
    found: dict[int, list[str]] = {}
    left = [*children(os.getpid())]
    while left:
        pid = left.pop()
        if fields := stat(pid):
            found[pid] = fields
        left += children(pid)
    return found


def _descendants() -> dict[int, list[str]]:
    """All descendants of this process, in any session, with their ``stat``.

    The second look finds processes that the first missed, as they got another parent or a sibling ended meanwhile.
    """
    return {**_look(), **_look()}


def write_whole(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.write_text(text)
    half.rename(path)


def claim(directory: Path, run: int, pid: int) -> bool:
    """Take the right to the given run of this job; True for one process only. ``pid`` 0: no process may run it."""
    half = directory / f".claim.{os.getpid()}"
    half.write_text(json.dumps([pid, start_time(pid) if pid else 0]))
    try:
        os.link(half, directory / f"claim.{run}")
    except FileExistsError:
        return False
    finally:
        half.unlink()
    return True


def _become_subreaper() -> None:
    import ctypes  # noqa: PLC0415 - half of the start-up time

    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _outputs(job: dict[str, Any], directory: Path) -> tuple[int, int, bool]:
    """Descriptors for stdout and stderr, and whether they are the files that the job wants.

    Undeliverable output stays in the job's directory, as in pbs_mom's ``undelivered``.
    """
    delivered = True
    descriptors: list[int] = []
    for kind in ("output", "error"):
        if job[kind] is None:
            descriptors.append(descriptors[0])
            continue
        try:
            descriptors.append(os.open(job[kind], _OPEN, 0o666))
        except OSError:
            delivered = False
            descriptors.append(os.open(directory / f"undelivered.{kind}", _OPEN, 0o666))
    return descriptors[0], descriptors[1], delivered


def _launch(job: dict[str, Any], output: int, error: int) -> int | None:
    """Start the shell in a session of its own. Returns None after an error, which the job's stderr gets."""
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, error, 2),
    ]
    shell = job["shell"]
    try:
        return os.posix_spawn(
            shell, [shell, job["script"]], job["env"], file_actions=actions, setsid=True, setsigmask=[],
            setsigdef=_DEFAULT_AGAIN,
        )  # fmt: skip
    except OSError as reason:
        os.write(error, f"exec of {shell} failed with error: {reason.strerror}\n".encode())
        return None


def _reap(pid: int) -> int | None:
    """Collect ended children; returns the wait status of ``pid`` once it has ended."""
    status = None
    while True:
        try:
            ended, code = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if ended == 0:
            return status
        if ended == pid:
            status = code


# --- memory ------------------------------------------------------------------------------------------------------


def family(pid: int) -> list[int]:
    """A process's descendants."""
    found: list[int] = []
    left = _children(pid)
    while left:
        found.append(left.pop())
        left += _children(found[-1])
    return found


def _resident(pid: int) -> int:
    """Bytes of a process in memory, including shared pages."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError):
        return 0


def _fair_share(pid: int) -> int:
    """The same, with each page divided among the processes that share it; ``_resident`` if that is unavailable."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return _resident(pid)


def _memory(limit: int) -> int:
    """Bytes of the job in memory; the exact figure, which takes longer, only if the rough one exceeds the limit."""
    pids = family(os.getpid())
    rough = sum(map(_resident, pids))
    return rough if rough <= limit else sum(map(_fair_share, pids))


# --- following a job ---------------------------------------------------------------------------------------------


class _Run:
    """A running job. Times are monotonic, except ``kill_at``, which is the daemon's (since 1970).

    ``exceeded``: OpenPBS' name of the resource that ended it. ``stopped``: when a suspension began; ``away``: how long
    former ones took. ``obeyed`` counts the signals that were sent.
    """

    __slots__ = ("away", "begun", "directory", "error", "exceeded", "kill_at", "limits", "look", "memory", "obeyed",
                 "peak", "pid", "stopped", "walltime")  # fmt: skip

    def __init__(self, pid: int, directory: Path, job: dict[str, Any], error: int) -> None:
        self.pid, self.directory, self.error = pid, directory, error
        self.walltime: float | None = job["walltime"]
        self.limits: list[tuple[float, int]] = []
        if self.walltime is not None:
            self.limits = [(self.walltime, signal.SIGTERM), (self.walltime + job["kill_delay"], signal.SIGKILL)]
        self.memory: int = job["memory"]
        self.begun = self.look = time.monotonic()
        self.away = 0.0
        self.stopped: float | None = None
        self.kill_at: float | None = None
        self.obeyed = self.peak = 0
        self.exceeded = ""

    def ran(self, now: float) -> float:
        """Seconds that the job has run, without suspensions."""
        return (self.stopped or now) - self.begun - self.away


def _follow(run: _Run) -> int:
    """Wait for the job's shell, and enforce limits and the daemon's orders meanwhile; returns its wait status."""
    _obey(run)
    while True:
        status = _reap(run.pid)
        if status is not None:
            return status
        _watch_memory(run)
        got = signal.sigtimedwait([signal.SIGCHLD, POKE], _until_next(run))
        if got is not None and got.si_signo == POKE:
            _obey(run)


def _until_next(run: _Run) -> float:
    """Send the signals that are due; returns the seconds until the next is due."""
    now = time.monotonic()
    waits = [_LONG]
    if run.kill_at is not None:
        waits.append(run.kill_at - time.time())
        if waits[-1] <= 0:
            run.kill_at = None
            _signal_job(run, signal.SIGKILL)
    if run.stopped is None:
        if run.limits and run.ran(now) >= run.limits[0][0]:
            _exceed(run, "walltime", f"{int(run.ran(now))} exceeded limit {int(run.walltime or 0)}")
            _signal_job(run, run.limits.pop(0)[1])
        waits += [limit - run.ran(now) for limit, _ in run.limits[:1]]
        waits += [run.look - now] if run.memory else []
    return max(0.0, min(waits))


def _watch_memory(run: _Run) -> None:
    now = time.monotonic()
    if not run.memory or run.stopped is not None or now < run.look:
        return
    used = _memory(run.memory)
    run.peak = max(run.peak, used)
    run.look = now + _LOOK
    if used > run.memory:
        _exceed(run, "mem", f"{used // 1024}kb exceeded limit {run.memory // 1024}kb")
        _signal_job(run, signal.SIGKILL)


def _signal_job(run: _Run, number: int) -> None:
    """Signal the job's session like ``signal_session``, among this process's descendants, which include the session."""
    _signal([pid for pid, fields in _descendants().items() if int(fields[3]) == run.pid], number)


def _exceed(run: _Run, resource: str, words: str) -> None:
    """Note which resource ended the job, and write it to its stderr as pbs_mom does; the first one counts."""
    if run.exceeded:
        return
    run.exceeded = resource
    with contextlib.suppress(OSError):
        os.write(run.error, f"=>> PBS: job killed: {resource} {words}\n".encode())


def _obey(run: _Run) -> None:
    """Read the daemon's orders and carry out the new ones."""
    try:
        orders = json.loads((run.directory / ORDERS).read_text())
    except (OSError, ValueError):
        return
    if orders["suspended"] != (run.stopped is not None):
        _suspend(run) if orders["suspended"] else _resume(run)
    for number in orders["signals"][run.obeyed :]:
        run.obeyed += 1
        _signal_job(run, number)
    run.kill_at = orders["kill_at"]


def _suspend(run: _Run) -> None:
    """Stop all of the job's processes, in any session, also those that start meanwhile."""
    run.stopped = time.monotonic()
    while moving := [pid for pid, fields in _descendants().items() if fields[0] not in "Tt"]:
        _signal(moving, signal.SIGSTOP)
        if time.monotonic() - run.stopped > 1.0:
            return  # a process that waits for a disk stops after that wait
        time.sleep(0.001)


def _resume(run: _Run) -> None:
    run.away += time.monotonic() - (run.stopped or 0.0)
    run.stopped = None
    _signal(_descendants(), signal.SIGCONT)


def _end_leftovers() -> None:
    """Kill and collect all remaining descendants."""
    while True:
        _signal(_descendants(), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _scratch(job: dict[str, Any]) -> str:
    import tempfile  # noqa: PLC0415 - the daemon imports this module too, but does not need it

    return tempfile.mkdtemp(prefix=f"pbs.{job['id']}.")


def main(directory: Path, run: int) -> None:
    """Run one job to its end."""
    if not claim(directory, run, os.getpid()):
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, POKE])
    job = json.loads((directory / "run.json").read_text())
    _become_subreaper()
    scratch = _scratch(job)
    job["env"]["TMPDIR"] = scratch
    with contextlib.suppress(OSError):
        os.chdir(job["cwd"])
    os.umask(job["umask"])
    output, error, delivered = _outputs(job, directory)
    os.umask(0o077)
    begun = time.time()
    empty = Path(job["script"]).stat().st_size == 0
    pid = None if empty else _launch(job, output, error)
    write_whole(directory / "session", str(pid or 0))
    note: dict[str, Any] = {"status": _EMPTY_SCRIPT if empty else _NO_SHELL, "signal": 0, "exceeded": ""}
    if pid is not None:
        job_run = _Run(pid, directory, job, error)
        code = os.waitstatus_to_exitcode(_follow(job_run))
        _end_leftovers()
        note = {"status": max(code, 0), "signal": max(-code, 0), "exceeded": job_run.exceeded}
        note |= {"ran": job_run.ran(time.monotonic()), "peak": job_run.peak}
    _finish(directory, note, begun, delivered=delivered, scratch=scratch)


def _finish(directory: Path, note: dict[str, Any], begun: float, *, delivered: bool, scratch: str) -> None:
    import resource  # noqa: PLC0415 - only at the end
    import shutil  # noqa: PLC0415

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = time.time()
    note |= {"started": begun, "ended": ended, "delivered": delivered}
    note |= {"cpu": usage.ru_utime + usage.ru_stime, "memory": max(usage.ru_maxrss * 1024, note.get("peak", 0))}
    os.chdir("/")
    shutil.rmtree(scratch, ignore_errors=True)
    write_whole(directory / "exit.json", json.dumps(note))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
