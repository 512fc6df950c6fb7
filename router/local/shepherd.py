"""One process a job: starts the script, keeps the walltime, notes how it ended.

Knows its job's directory and nothing of queues; run by path, with the standard library alone, so that it starts in
10 ms. It survives the daemon: its ``exit.json`` is how the next daemon learns of the end. As a subreaper it also ends
what a job leaves behind, in whatever session. Usage: ``shepherd.py DIRECTORY RUN``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER, prctl(2)
_NO_SHELL: Final = 254
_EMPTY_SCRIPT: Final = 127
_OPEN: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def start_time(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat: with the pid it names a process for good. None where there is none."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def _stat(pid: int | str) -> list[str]:
    """The fields of /proc/PID/stat after the name (state first); nothing for a process that is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    fields = text[text.rindex(")") + 2 :].split()
    return [] if fields[0] in {"Z", "X"} else fields


def session_members(session: int) -> list[int]:
    """The processes of a session."""
    return [pid for pid, fields in _processes() if int(fields[3]) == session]


def _proc_names() -> list[str]:
    return [entry.name for entry in os.scandir("/proc") if entry.name.isdigit()]


def _processes() -> list[tuple[int, list[str]]]:
    found = ((int(name), _stat(name)) for name in _proc_names())
    return [(pid, fields) for pid, fields in found if fields]


def signal_session(session: int, number: int) -> None:
    """Send a signal to every process of a session, as pbs_mom does."""
    for pid in session_members(session):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, fields in _processes():
        children.setdefault(int(fields[1]), []).append(pid)
    found = list(children.get(os.getpid(), ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def write_whole(path: Path, text: str) -> None:
    """A file that is there whole or not at all."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.write_text(text)
    half.rename(path)


def claim(directory: Path, run: int, pid: int) -> bool:
    """Take the right to run this job for the given time; True for one process only. ``pid`` 0: nobody shall run it."""
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
    import ctypes  # noqa: PLC0415 - only here, and half of the start-up time

    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _outputs(job: dict[str, Any], directory: Path) -> tuple[int, int, bool]:
    """Descriptors for stdout and stderr, and whether they are where the job wants them.

    Output that cannot be delivered stays in the job's directory, as it stays in pbs_mom's ``undelivered``.
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
    """Start the shell in a session of its own; None where it cannot be started, which the job's stderr then says."""
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, error, 2),
    ]
    shell = job["shell"]
    try:
        return os.posix_spawn(
            shell, [shell, job["script"]], job["env"], file_actions=actions, setsid=True, setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )  # fmt: skip
    except OSError as reason:
        os.write(error, f"exec of {shell} failed with error: {reason.strerror}\n".encode())
        return None


def _reap(pid: int) -> int | None:
    """Collect ended children; the wait status of ``pid`` once it is among them."""
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


def _follow(pid: int, walltime: float | None, kill_delay: float) -> tuple[int, bool]:
    """Wait for the job's shell; (wait status, whether the walltime ended it). TERM first, KILL after the delay."""
    limits = [] if walltime is None else [(walltime, signal.SIGTERM), (walltime + kill_delay, signal.SIGKILL)]
    begun = time.monotonic()
    exceeded = False
    while True:
        status = _reap(pid)
        if status is not None:
            return status, exceeded
        left = limits[0][0] - (time.monotonic() - begun) if limits else 3600.0
        if left > 0:
            signal.sigtimedwait([signal.SIGCHLD], left)
        elif limits:
            exceeded = True
            signal_session(pid, limits.pop(0)[1])


def _end_leftovers() -> None:
    """Kill and collect everything that still descends from this job."""
    while True:
        for pid in _descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _scratch(job: dict[str, Any]) -> str:
    import tempfile  # noqa: PLC0415 - for the few jobs' start, not for the daemon that imports this module

    return tempfile.mkdtemp(prefix=f"pbs.{job['id']}.")


def main(directory: Path, run: int) -> None:
    """Run one job to its end."""
    if not claim(directory, run, os.getpid()):
        return
    job = json.loads((directory / "run.json").read_text())
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
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
    with contextlib.suppress(BrokenPipeError):  # the daemon that waits for this line may have been killed
        os.write(1, f"{pid or 0}\n".encode())
    os.close(1)
    note: dict[str, Any] = {"status": _EMPTY_SCRIPT if empty else _NO_SHELL, "signal": 0, "walltime": False}
    if pid is not None:
        status, note["walltime"] = _follow(pid, job["walltime"], job["kill_delay"])
        _end_leftovers()
        code = os.waitstatus_to_exitcode(status)
        note |= {"status": max(code, 0), "signal": max(-code, 0)}
    _finish(directory, note, begun, delivered=delivered, scratch=scratch)


def _finish(directory: Path, note: dict[str, Any], begun: float, *, delivered: bool, scratch: str) -> None:
    import resource  # noqa: PLC0415 - only at the end
    import shutil  # noqa: PLC0415

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = time.time()
    note |= {"started": begun, "ended": ended, "delivered": delivered}
    note |= {"cpu": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss * 1024}
    os.chdir("/")
    shutil.rmtree(scratch, ignore_errors=True)
    write_whole(directory / "exit.json", json.dumps(note))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
