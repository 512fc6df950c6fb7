"""Starting a job under its shepherd, and what its end means in OpenPBS' terms.

Shell: starts processes, sends signals, reads the shepherd's notes. Knows one job at a time, nothing of queues.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from router.local import display, shepherd
from router.local.records import FINISHED, QUEUED, RUNNING, Config, Job
from router.local.resources import clock
from router.local.state import State

# Exit_status and substate as OpenPBS records them.
WALLTIME_STATUS, LOST_STATUS, DELETED_STATUS, FORCED_STATUS = -29, -20, 271, 265
ENDED_WELL, DELETED, ENDED_BADLY, WAITING, STARTED, HELD_SUBSTATE = 92, 91, 93, 10, 42, 20
_DEFAULT_UMASK: Final = 0o077
_SIGNALLED_FROM_OUTSIDE, _SIGNALLED_INSIDE = 256, 128
_SHEPHERD: Final = str(Path(shepherd.__file__).resolve())


def start(job: Job, state: State, config: Config) -> subprocess.Popen[str]:
    """Start a job that has its shares; the record is saved before and after, so that a crash loses no run."""
    job.state, job.substate, job.started, job.modified = RUNNING, STARTED, time.time(), time.time()
    job.run_count += 1
    job.comment = f"Job run at {time.strftime('%a %b %d at %H:%M')} on {display.exec_vnode(job)}"
    run = _run_file(job, state, config)
    state.write(job.seq, "run.json", json.dumps(run))
    state.save(job)
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", _SHEPHERD, str(state.job_directory(job.seq)), str(job.run_count)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True, text=True,
    )  # fmt: skip
    assert process.stdout is not None  # noqa: S101 - asked for above
    with process.stdout as line:
        job.session = int(line.readline() or 0) or None
    job.shepherd = [process.pid, shepherd.start_time(process.pid) or 0]
    state.save(job)
    return process


def _run_file(job: Job, state: State, config: Config) -> dict[str, Any]:
    host = socket.gethostname()
    lines = [f"{host}\n" for share in job.shares for _ in range(share.mpiprocs)]
    nodefile = state.write(job.seq, "nodefile", "".join(lines))
    umask = job.attributes.get("umask", "")
    return {
        "id": job.job_id,
        "shell": job.options.get("-S", "/bin/bash"),
        "script": str(state.job_directory(job.seq) / "script"),
        "env": _environment(job, config, str(nodefile)),
        "cwd": _account().pw_dir,
        "umask": int(umask, 8) if umask and not set(umask) - set("01234567") else _DEFAULT_UMASK,
        "output": job.error if job.options.get("-j") == "eo" else job.output,
        "error": None if job.options.get("-j") in {"oe", "eo"} else job.error,
        "walltime": job.walltime,
        "kill_delay": config.kill_delay,
    }


def _account() -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(os.getuid())
    except KeyError:  # a container's uid without an entry
        name = str(os.getuid())
        return pwd.struct_passwd((name, "x", os.getuid(), os.getgid(), "", "/", "/bin/bash"))


def _environment(job: Job, config: Config, nodefile: str) -> dict[str, str]:
    """What a PBS job sees, and nothing of the daemon's own environment."""
    account = _account()
    threads = str(job.chunks[0].ompthreads)
    gpus = [str(gpu) for share in job.shares for gpu in share.gpus]
    return {
        **job.origin,
        **job.variables,
        "ENVIRONMENT": "BATCH",
        "HOME": account.pw_dir,
        "LOGNAME": account.pw_name,
        "USER": account.pw_name,
        "SHELL": account.pw_shell or "/bin/bash",
        "PATH": job.variables.get("PATH", config.path),
        "PBS_ENVIRONMENT": "PBS_BATCH",
        "PBS_JOBDIR": account.pw_dir,
        "PBS_JOBID": job.job_id,
        "PBS_JOBNAME": job.name,
        "PBS_NODEFILE": nodefile,
        "PBS_NODENUM": "0",
        "PBS_QUEUE": job.queue,
        "PBS_TASKNUM": "1",
        "NCPUS": job.variables.get("NCPUS", threads),
        "OMP_NUM_THREADS": job.variables.get("OMP_NUM_THREADS", threads),
        **({"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}),
    }


def send(job: Job, number: int) -> None:
    """A signal to every process of the job's session."""
    if job.session:
        shepherd.signal_session(job.session, number)


def is_watched(job: Job) -> bool:
    """Whether the job's shepherd lives."""
    return bool(job.shepherd) and shepherd.start_time(job.shepherd[0]) == job.shepherd[1]


def adopt(job: Job, state: State) -> bool:
    """After a crash of the daemon: find a running job's shepherd. False where it never started: it is queued again."""
    if not job.shepherd and shepherd.claim(state.job_directory(job.seq), job.run_count, 0):
        job.state, job.substate, job.shares, job.started = QUEUED, WAITING, [], None
        return False
    owner = state.read_json(job.seq, f"claim.{job.run_count}")
    if isinstance(owner, list):
        job.shepherd = owner
    job.session = state.read_json(job.seq, "session") or job.session
    return True


def finish(job: Job, state: State) -> None:
    """Record the end of a job whose shepherd has ended."""
    note = state.read_json(job.seq, "exit.json")
    if note is None:  # the shepherd itself was killed, or the machine
        send(job, signal.SIGKILL)
        note = {"status": 0, "signal": 0, "walltime": False, "ended": time.time(), "lost": True}
    job.ended, job.modified, job.state = note["ended"], time.time(), FINISHED
    job.exit_status, job.substate, words = _verdict(job, note)
    job.comment += words
    job.stageout = int(note.get("delivered", False))
    job.kill_at = None
    job.used = {
        "cpupercent": "0",
        "cput": clock(note.get("cpu", 0)),
        "mem": f"{note.get('memory', 0) // 1024}kb",
        "ncpus": job.listed.get("ncpus", "1"),
        "walltime": clock(job.ended - (note.get("started") or job.started or job.ended)),
    }
    for name in ("run.json", "nodefile"):
        with contextlib.suppress(FileNotFoundError):
            (state.job_directory(job.seq) / name).unlink()
    state.save(job)


def _verdict(job: Job, note: dict[str, Any]) -> tuple[int, int, str]:
    """Exit_status, substate and what is added to the comment. A deletion beats everything, also a trapped TERM."""
    if job.deleted_by:
        return FORCED_STATUS if job.forced else DELETED_STATUS, DELETED, ""
    if note.get("lost"):
        return LOST_STATUS, ENDED_BADLY, ""
    if note["walltime"]:
        return WALLTIME_STATUS, ENDED_BADLY, " and exceeded resource walltime"
    status = note["status"]
    if note["signal"]:
        outside = note["signal"] in job.signals
        status = note["signal"] + (_SIGNALLED_FROM_OUTSIDE if outside else _SIGNALLED_INSIDE)
    return (status, ENDED_BADLY, " and failed") if status else (0, ENDED_WELL, " and finished")
