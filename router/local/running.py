"""Starts a job under its shepherd, gives the shepherd orders, and records the job's end in OpenPBS' terms.

Shell: starts processes, writes orders, reads the shepherd's notes. Handles one job at a time, without queues.
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
from router.local.records import FINISHED, QUEUED, RUNNING, SUSPENDED, Config, Job
from router.local.resources import clock
from router.local.state import State

# Exit_status and substate as OpenPBS records them.
LOST_STATUS, DELETED_STATUS, FORCED_STATUS = -20, 271, 265
EXCEEDED_STATUS: Final = {"walltime": -29, "mem": -27}
ENDED_WELL, DELETED, ENDED_BADLY, WAITING, STARTING, STARTED, HELD_SUBSTATE = 92, 91, 93, 10, 41, 42, 20
SUSPENDED_BY_HAND, TO_BE_RESUMED = 43, 45
_DEFAULT_UMASK: Final = 0o077
_SIGNALLED_FROM_OUTSIDE, _SIGNALLED_INSIDE = 256, 128
_SHEPHERD: Final = str(Path(shepherd.__file__).resolve())


def start(job: Job, state: State, config: Config) -> subprocess.Popen[bytes]:
    """Start a job that has its shares. Its record is saved before and after, so that a crash loses no run.

    It returns at once: the shepherd itself notes the job's session. SIGUSR1 must be blocked, as the shepherd inherits
    this.
    """
    job.state, job.substate, job.started, job.modified = RUNNING, STARTING, time.time(), time.time()
    job.run_count += 1
    job.comment = f"Job run at {time.strftime('%a %b %d at %H:%M')} on {display.exec_vnode(job)}"
    run = _run_file(job, state, config)
    state.write(job.seq, "run.json", json.dumps(run))
    state.save(job)
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", _SHEPHERD, str(state.job_directory(job.seq)), str(job.run_count)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    job.shepherd = [process.pid, shepherd.start_time(process.pid) or 0]
    state.save(job)
    return process


def _run_file(job: Job, state: State, config: Config) -> dict[str, Any]:
    nodefile = state.write(job.seq, "nodefile", _nodefile(job, config))
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
        "memory": sum(share.memory for share in job.shares) if config.enforce_memory else 0,
        "kill_delay": config.kill_delay,
    }


def _nodefile(job: Job, config: Config) -> str:
    """The nodefile: one line per rank, with its host."""
    queue = config.queue(job.queue)
    named = queue is not None and queue.host_per_node  # None if the queue was removed while its job ran
    machine = socket.gethostname()
    hosts = [display.node_name(job.queue, share.node) if named else machine for share in job.shares]
    return "".join(f"{host}\n" * share.mpiprocs for host, share in zip(hosts, job.shares, strict=True))


def _account() -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(os.getuid())
    except KeyError:  # a container's uid without an entry
        name = str(os.getuid())
        return pwd.struct_passwd((name, "x", os.getuid(), os.getgid(), "", "/", "/bin/bash"))


def _environment(job: Job, config: Config, nodefile: str) -> dict[str, str]:
    """The environment of a PBS job, without the daemon's own."""
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


def order(job: Job, state: State) -> None:
    """Give the job's shepherd the orders of its record: signals, suspension, a time to kill.

    The record must be saved before. A shepherd may get an order twice, but carries it out once.
    """
    orders = {
        "signals": job.signals,
        "suspended": job.state == SUSPENDED and not job.deleted_by,
        "kill_at": job.kill_at,
    }
    state.write_whole(job.seq, shepherd.ORDERS, json.dumps(orders))
    if is_watched(job):
        with contextlib.suppress(ProcessLookupError):
            os.kill(job.shepherd[0], shepherd.POKE)


def is_watched(job: Job) -> bool:
    """Whether the job's shepherd still runs."""
    return bool(job.shepherd) and shepherd.start_time(job.shepherd[0]) == job.shepherd[1]


def adopt(job: Job, state: State) -> bool:
    """Find a running job's shepherd after a crash of the daemon. False if the job never started; it is queued again."""
    if not job.shepherd and shepherd.claim(state.job_directory(job.seq), job.run_count, 0):
        job.state, job.substate, job.shares, job.started = QUEUED, WAITING, [], None
        return False
    owner = state.read_json(job.seq, f"claim.{job.run_count}")
    if isinstance(owner, list):
        job.shepherd = owner
    order(job, state)
    return True


def find_session(job: Job, state: State) -> None:
    """Note a running job's session, once its shepherd has written it."""
    if job.session is None:
        job.session = state.read_json(job.seq, "session") or None
    if job.session is not None and job.substate == STARTING:
        job.substate = STARTED


def finish(job: Job, state: State) -> None:
    """Record the end of a job whose shepherd has ended."""
    note = state.read_json(job.seq, "exit.json")
    find_session(job, state)
    if note is None:  # the shepherd itself was killed, or the machine
        if job.session:
            shepherd.signal_session(job.session, signal.SIGKILL)
        note = {"status": 0, "signal": 0, "ended": time.time(), "lost": True}
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
        "walltime": clock(note.get("ran", job.ended - (note.get("started") or job.started or job.ended))),
    }
    for name in ("run.json", "nodefile", shepherd.ORDERS):
        with contextlib.suppress(FileNotFoundError):
            (state.job_directory(job.seq) / name).unlink()
    state.save(job)


def _verdict(job: Job, note: dict[str, Any]) -> tuple[int, int, str]:
    """Exit_status, substate and the end of the comment. A deletion outranks every other cause, also a trapped TERM."""
    if job.deleted_by:
        return FORCED_STATUS if job.forced else DELETED_STATUS, DELETED, ""
    if note.get("lost"):
        return LOST_STATUS, ENDED_BADLY, ""
    exceeded = note.get("exceeded")
    if exceeded:
        return EXCEEDED_STATUS[exceeded], ENDED_BADLY, f" and exceeded resource {exceeded}"
    status = note["status"]
    if note["signal"]:
        outside = note["signal"] in job.signals
        status = note["signal"] + (_SIGNALLED_FROM_OUTSIDE if outside else _SIGNALLED_INSIDE)
    return (status, ENDED_BADLY, " and failed") if status else (0, ENDED_WELL, " and finished")
