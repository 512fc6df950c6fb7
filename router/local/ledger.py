"""What the embedded queue does when it is asked: submit, show, delete, signal, hold, release; and whom it starts next.

Knows the jobs of one directory and OpenPBS' answers (exit code, words). Changes jobs and saves them; sockets and
waiting are the daemon's. Every answer is a mapping with ``rc``, ``stderr`` and what the command shows.
"""

from __future__ import annotations

import getpass
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from router.local import placing, running
from router.local.records import ACTIVE, EXITING, FINISHED, HELD, QUEUED, RUNNING, Config, Job, Queue, record_of
from router.local.resources import Chunk, clock
from router.local.state import State

Answer = dict[str, Any]
_FINISHED_RC, _UNKNOWN_RC, _UNKNOWN_QUEUE, _DISABLED, _LIMITS, _BAD_STATE, _BAD_SIGNAL = (
    35,
    153,
    170,
    173,
    188,
    168,
    165,
)


@dataclass(slots=True)
class Ledger:
    """The jobs of one directory. ``started`` holds the shepherds to wait for, until the daemon takes them."""

    state: State
    config: Config
    jobs: dict[int, Job]
    started: list[tuple[Job, subprocess.Popen[str] | None]] = field(default_factory=list)

    def active(self, queue: str = "") -> list[Job]:
        """Jobs that run, of one queue or of all."""
        return [job for job in self.jobs.values() if job.state in ACTIVE and queue in {"", job.queue}]


def recover(ledger: Ledger) -> None:
    """After a start: find again what an earlier daemon left running."""
    for job in ledger.active():
        if running.adopt(job, ledger.state):
            ledger.started.append((job, None))
        ledger.state.save(job)
    limit = time.time() - ledger.config.history
    for seq in [seq for seq, job in ledger.jobs.items() if job.state == FINISHED and (job.ended or 0) < limit]:
        _forget(ledger, seq)


def schedule(ledger: Ledger) -> None:
    """Start what fits, first come first served in each queue; say of the others why they wait."""
    for queue in ledger.config.queues:
        if not queue.started:
            continue
        for job in [job for job in ledger.jobs.values() if job.queue == queue.name and job.state == QUEUED]:
            words = placing.never(job, queue)
            shares = None if words else placing.place(job, queue, ledger.active(queue.name))
            if shares is None:
                _comment(ledger, job, words or "Not Running: Not enough free nodes available")
                if words:
                    continue
                break
            job.shares = shares
            ledger.started.append((job, running.start(job, ledger.state, ledger.config)))


def _comment(ledger: Ledger, job: Job, words: str) -> None:
    if job.comment != words:
        job.comment, job.modified = words, time.time()
        ledger.state.save(job)


def end(ledger: Ledger, job: Job) -> None:
    """A job's shepherd has ended."""
    running.finish(job, ledger.state)
    if job.purge:
        _forget(ledger, job.seq)


def _forget(ledger: Ledger, seq: int) -> None:
    ledger.jobs.pop(seq, None)
    ledger.state.forget(seq)


def kill_overdue(ledger: Ledger, now: float) -> float | None:
    """KILL what did not heed TERM in time; the next such moment, None where there is none."""
    waiting = [job for job in ledger.active() if job.kill_at is not None]
    for job in waiting:
        if job.kill_at is not None and job.kill_at <= now:
            job.kill_at = None
            ledger.state.save(job)
            running.send(job, signal.SIGKILL)
    return min((job.kill_at for job in waiting if job.kill_at is not None), default=None)


def handle(ledger: Ledger, request: Mapping[str, Any]) -> Answer:
    """One request of a command."""
    operation = _OPERATIONS.get(request.get("op", ""))
    if operation is None:
        return {"rc": 1, "stderr": [f"the embedded queue does not know {request.get('op')!r}"]}
    return operation(ledger, request)


def _submit(ledger: Ledger, request: Mapping[str, Any]) -> Answer:
    for job in ledger.jobs.values():
        if job.token == request["token"]:  # asked again, because a daemon died before its answer arrived
            return {"rc": 0, "stdout": job.job_id}
    queue = ledger.config.queue(request["options"].get("-q", "").partition("@")[0])
    if queue is None:
        return {"rc": _UNKNOWN_QUEUE, "stderr": ["Unknown queue"]}
    if not queue.enabled:
        return {"rc": _DISABLED, "stderr": ["Queue is not enabled"]}
    walltime = queue.walltime_default if request["walltime"] is None else request["walltime"]
    if queue.walltime_max is not None and walltime is not None and walltime > queue.walltime_max:
        ledger.state.next_sequence()  # rejected submissions burn ids
        return {"rc": _LIMITS, "stderr": ["Job violates queue and/or server resource limits"]}
    if walltime is None:
        walltime = queue.walltime_max
    job = _job(ledger, request, queue, walltime)
    ledger.state.write(job.seq, "script", request["script"])
    ledger.state.save(job)
    ledger.jobs[job.seq] = job
    return {"rc": 0, "stdout": job.job_id}


def _job(ledger: Ledger, request: Mapping[str, Any], queue: Queue, walltime: int | None) -> Job:
    seq, now, options = ledger.state.next_sequence(), time.time(), request["options"]
    held = "-h" in options
    listed = request["listed"] | ({} if walltime is None else {"walltime": clock(walltime)})
    name, server = request["name"], ledger.config.server
    return Job(
        seq=seq,
        server=server,
        name=name,
        owner=getpass.getuser() if not request.get("user") else request["user"],
        host=request["host"],
        queue=queue.name,
        state=HELD if held else QUEUED,
        substate=running.HELD_SUBSTATE if held else running.WAITING,
        chunks=[Chunk(**chunk) for chunk in request["chunks"]],
        place=request["place"],
        walltime=walltime,
        listed=dict(sorted(listed.items())),
        options=options,
        attributes=request["attributes"],
        variables=request["variables"],
        origin=request["origin"] | {"PBS_O_QUEUE": queue.name},
        arguments=request["arguments"],
        output=_output(request, "-o", f"{name}.o{seq}", f"{seq}.{server}.OU"),
        error=_output(request, "-e", f"{name}.e{seq}", f"{seq}.{server}.ER"),
        created=now,
        modified=now,
        held=held,
        token=request["token"],
    )


def _output(request: Mapping[str, Any], flag: str, default: str, inside: str) -> str:
    """Where output goes: the path given, the default beside the submission, or a file in the directory given."""
    path = request["options"].get(flag)
    if path is None:
        return f"{request['origin']['PBS_O_WORKDIR']}/{default}"
    _, colon, after = path.partition(":/")
    path = f"/{after}" if colon and "/" not in path.partition(":/")[0] else path
    whole = path if path.startswith("/") else f"{request['origin']['PBS_O_WORKDIR']}/{path}"
    return f"{whole.rstrip('/')}/{inside}" if whole.endswith("/") or flag in request.get("directories", ()) else whole


def _show(ledger: Ledger, _: Mapping[str, Any]) -> Answer:
    jobs = [record_of(job) for job in ledger.jobs.values()]
    return {
        "rc": 0,
        "jobs": jobs,
        "server": ledger.config.server,
        "queues": [queue.name for queue in ledger.config.queues],
    }


def _each(
    act: Callable[[Ledger, Job, Mapping[str, Any]], tuple[int, str]],
) -> Callable[[Ledger, Mapping[str, Any]], Answer]:
    """An operation on several ids: the exit code of the last that failed, one line for each."""

    def operate(ledger: Ledger, request: Mapping[str, Any]) -> Answer:
        answer: Answer = {"rc": 0, "stderr": []}
        for text in request["ids"]:
            seq = int(text.partition(".")[0])
            job, job_id = ledger.jobs.get(seq), f"{seq}.{ledger.config.server}"
            rc, words = act(ledger, job, request) if job else (_UNKNOWN_RC, "Unknown Job Id")
            if rc:
                answer["rc"] = rc
                answer["stderr"].append(f"{words} {job_id}")
        return answer

    return operate


def _delete(ledger: Ledger, job: Job, request: Mapping[str, Any]) -> tuple[int, str]:
    forced, purge = bool(request.get("force")), bool(request.get("purge"))
    if job.state == FINISHED:
        if purge:
            _forget(ledger, job.seq)
        return (0, "") if purge else (_FINISHED_RC, "Job has finished")
    job.deleted_by, job.forced, job.purge, job.modified = f"{job.owner}@{job.host}", forced, purge, time.time()
    if job.state not in ACTIVE:
        job.state, job.substate, job.ended = FINISHED, running.DELETED, time.time()
        job.comment = f"{job.comment} and terminated".strip() if job.comment else ""
        ledger.state.save(job)
        if purge:
            _forget(ledger, job.seq)
        return 0, ""
    if " and terminated" not in job.comment:
        job.comment += f" and terminated by {job.deleted_by}"
    job.kill_at = job.kill_at or time.time() + ledger.config.kill_delay
    ledger.state.save(job)
    running.send(job, signal.SIGKILL if forced else signal.SIGTERM)
    return 0, ""


def _signal(ledger: Ledger, job: Job, request: Mapping[str, Any]) -> tuple[int, str]:
    name = str(request["signal"]).upper().removeprefix("SIG")
    known = {item.name.removeprefix("SIG"): int(item) for item in signal.Signals}
    number = int(name) if name.isdigit() else known.get(name)
    if number is None or not 0 <= number < signal.NSIG:
        return _BAD_SIGNAL, "Unknown/illegal signal name"
    if job.state == FINISHED:
        return _FINISHED_RC, "Job has finished"
    if job.state != RUNNING:
        return _BAD_STATE, "Request invalid for state of job"
    job.signals.append(number)
    ledger.state.save(job)
    if number:
        running.send(job, number)
    return 0, ""


def _hold(ledger: Ledger, job: Job, _: Mapping[str, Any]) -> tuple[int, str]:
    if job.state == FINISHED:
        return _FINISHED_RC, "Job has finished"
    job.held, job.modified = True, time.time()
    if job.state == QUEUED:
        job.state, job.substate = HELD, running.HELD_SUBSTATE
        job.comment = f"Job held by {job.owner} on {time.ctime()}"
    ledger.state.save(job)
    return 0, ""


def _release(ledger: Ledger, job: Job, _: Mapping[str, Any]) -> tuple[int, str]:
    if job.state == FINISHED:
        return _FINISHED_RC, "Job has finished"
    job.held, job.modified = False, time.time()
    if job.state == HELD:
        job.state, job.substate, job.comment = QUEUED, running.WAITING, ""
    ledger.state.save(job)
    return 0, ""


def _queues(ledger: Ledger, _: Mapping[str, Any]) -> Answer:
    return {"rc": 0, "queues": [_queue_state(ledger, queue) for queue in ledger.config.queues]}


def _queue_state(ledger: Ledger, queue: Queue) -> dict[str, Any]:
    states = [job.state for job in ledger.jobs.values() if job.queue == queue.name]
    return {
        "site": queue.site,
        "queue": queue.name,
        "up": queue.enabled and queue.started,
        "freeNodes": placing.free_nodes(queue, ledger.active(queue.name)),
        "queuedJobs": states.count(QUEUED),
        "runningJobs": states.count(RUNNING) + states.count(EXITING),
    }


def _reload(ledger: Ledger, _: Mapping[str, Any]) -> Answer:
    config = ledger.state.config()
    kept = {queue.name for queue in config.queues}
    lost = sorted({job.queue for job in ledger.jobs.values() if job.state != FINISHED} - kept)
    if lost:
        return {"rc": 1, "stderr": [f"jobs that are not over need the queue {', '.join(lost)}"]}
    ledger.config = config
    return {"rc": 0}


def _stop(ledger: Ledger, request: Mapping[str, Any]) -> Answer:
    """End the daemon; with ``delete`` all jobs first, at once."""
    living = [job for job in ledger.jobs.values() if job.state != FINISHED]
    for job in living if request.get("delete") else ():
        _delete(ledger, job, {"force": True})
    return {"rc": 0, "stop": True, "delete": bool(request.get("delete")), "running": len(ledger.active())}


_OPERATIONS: Final[Mapping[str, Callable[[Ledger, Mapping[str, Any]], Answer]]] = {
    "submit": _submit,
    "show": _show,
    "delete": _each(_delete),
    "signal": _each(_signal),
    "hold": _each(_hold),
    "release": _each(_release),
    "queues": _queues,
    "reload": _reload,
    "stop": _stop,
}
