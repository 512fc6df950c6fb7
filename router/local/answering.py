"""Does the work of the commands that change something: qsub, qdel, qsig, qhold, qrls, and the embedded queue's own.

Knows the ledger and OpenPBS' texts and exit codes (PBSE codes modulo 256). A request holds the caller's command line,
environment and directory (``router.local.calling``). An answer has ``rc``, ``out`` and ``err``; the latter two are
printed unchanged.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from router.errors import ConfigError
from router.local import faults, limits, looking, placing, running, submission
from router.local import ledger as ledgers
from router.local.ledger import Ledger
from router.local.records import ACTIVE, EXITING, FINISHED, HELD, QUEUED, RUNNING, SUSPENDED, Job, Queue
from router.local.resources import Rejection, clock
from router.local.submission import Request

Answer = dict[str, Any]
Call = Mapping[str, Any]
_Outcome = tuple[int, str]
_DONE: Final = (0, "")
_FINISHED: Final = (35, "Job has finished")
_UNKNOWN: Final = (153, "Unknown Job Id")
_NOT_YOURS: Final = (159, "Unauthorized Request ")
_BAD_SIGNAL: Final = (165, "Unknown/illegal signal name")
_BAD_STATE: Final = (168, "Request invalid for state of job")
_UNKNOWN_QUEUE, _DISABLED, _LIMITS = 170, 173, 188
_LOST: Final = (67, "End of File")


def handle(ledger: Ledger, request: Call) -> Answer:
    """The answer to one request of a command."""
    name = str(request.get("op", ""))
    if name in _OWN:
        return _OWN[name](ledger, request)
    if name not in _COMMANDS:
        return {"rc": 1, "out": "", "err": f"the embedded queue does not know {name!r}\n"}
    fine = request.get("faults") == "ignore"
    if ledger.faults.unreachable and not fine:
        return looking.cannot_connect(name, request["words"], "Connection refused")
    try:
        answer = _COMMANDS[name](ledger, request)
    except Rejection as error:
        return {"rc": error.returncode, "out": "", "err": f"{name}: {error.words}\n"}
    if ledger.faults.answers_lost and not fine and "needs" not in answer:
        return {"rc": _LOST[0], "out": "", "err": f"{name}: {_LOST[1]}\n"}
    return answer


def can_be_late(request: Call) -> bool:
    """Whether a delay affects this request: an OpenPBS command that does not ignore the faults."""
    return request.get("op") in _COMMANDS and request.get("faults") != "ignore"


# --- submission --------------------------------------------------------------------------------------------------


def _qsub(ledger: Ledger, call: Call) -> Answer:
    """Submit a job. A second request with the same token (after a lost answer) returns the same job."""
    known = ledger.jobs.get(ledger.tokens.get(call["token"], -1))
    if known is not None:
        return _submitted(known)
    operands = submission.operands(call["words"])
    if len(operands) > 1 and "--" not in call["words"]:
        raise Rejection(2, submission.USAGE)
    own_words = bool(operands) and "--" in call["words"]
    if not own_words and "script" not in call:
        return {"needs": operands[0] if operands else "-"}
    script, name = (_exec(operands), operands[0]) if own_words else (call["script"], (operands or ["STDIN"])[0])
    name = "STDIN" if name == "-" else os.path.basename(name)  # noqa: PTH119 - any text, perhaps no path
    request = submission.parse(call["words"], script, call["environment"], script_name=name)[0]
    job = _accepted(ledger, call, request)
    ledger.state.write(job.seq, "script", script)
    ledger.state.save(job)
    ledgers.add(ledger, job)
    return _submitted(job)


def _submitted(job: Job) -> Answer:
    return {"rc": 0, "out": "" if "-z" in job.options else f"{job.job_id}\n", "err": ""}


def _exec(words: Sequence[str]) -> str:
    quoted = ("'" + word.replace("'", "'\\''") + "'" for word in words)
    return f"exec {' '.join(quoted)}\n"


def _accepted(ledger: Ledger, call: Call, request: Request) -> Job:
    """The job of an accepted submission. Raises Rejection; a rejection by a limit uses up a number, as on OpenPBS."""
    queue = ledger.config.queue(request.options.get("-q", "").partition("@")[0])
    if queue is None:
        raise Rejection(_UNKNOWN_QUEUE, "Unknown queue")
    if not queue.enabled:
        raise Rejection(_DISABLED, "Queue is not enabled")
    seq = ledger.state.next_sequence()
    asked = request.asked
    walltime = queue.walltime_default if asked.walltime is None else asked.walltime
    if queue.walltime_max is not None and walltime is not None and walltime > queue.walltime_max:
        raise Rejection(_LIMITS, "Job violates queue and/or server resource limits")
    ncpus = sum(chunk.count * chunk.ncpus for chunk in asked.chunks)
    refused = limits.refusal(call["user"], ncpus, queue, ledger.config, ledger.living.values())
    if refused is not None:
        raise Rejection(*refused)
    return _job(ledger, call, request, queue, (seq, queue.walltime_max if walltime is None else walltime))


def _job(ledger: Ledger, call: Call, request: Request, queue: Queue, figures: tuple[int, int | None]) -> Job:
    (seq, walltime), now, options = figures, time.time(), dict(request.options)
    held, server = "-h" in options, ledger.config.server
    listed = dict(request.asked.listed) | ({} if walltime is None else {"walltime": clock(walltime)})
    return Job(
        seq=seq,
        server=server,
        name=request.name,
        owner=call["user"],
        host=call["host"],
        queue=queue.name,
        state=HELD if held else QUEUED,
        substate=running.HELD_SUBSTATE if held else running.WAITING,
        chunks=list(request.asked.chunks),
        place=request.asked.place,
        walltime=walltime,
        listed=dict(sorted(listed.items())),
        options=options,
        attributes=dict(request.attributes),
        variables=dict(request.variables),
        origin=_origin(call) | {"PBS_O_QUEUE": queue.name},
        arguments=" ".join(call["words"]),
        output=_output(call, options.get("-o"), f"{request.name}.o{seq}", f"{seq}.{server}.OU"),
        error=_output(call, options.get("-e"), f"{request.name}.e{seq}", f"{seq}.{server}.ER"),
        created=now,
        modified=now,
        held=held,
        token=call["token"],
    )


def _origin(call: Call) -> dict[str, str]:
    """The variables PBS_O_…, which describe where the submission came from."""
    environment = call["environment"]
    known = ("HOME", "LANG", "PATH", "MAIL", "SHELL")
    taken = {f"PBS_O_{name}": environment[name] for name in known if name in environment}
    host = {"PBS_O_LOGNAME": call["user"], "PBS_O_SYSTEM": os.uname().sysname, "PBS_O_HOST": call["host"]}
    return {**taken, **host, "PBS_O_WORKDIR": call["cwd"]}


def _output(call: Call, path: str | None, default: str, inside: str) -> str:
    """The file for output: the given path, a file in the given directory, or the default in the working directory."""
    if path is None:
        return f"{call['cwd']}/{default}"
    _, colon, after = path.partition(":/")
    path = f"/{after}" if colon and "/" not in path.partition(":/")[0] else path
    whole = path if path.startswith("/") else f"{call['cwd']}/{path}"
    is_directory = whole.endswith("/") or os.path.isdir(whole)  # noqa: PTH112 - any text, perhaps no path
    return f"{whole.rstrip('/')}/{inside}" if is_directory else whole


# --- acting on jobs ----------------------------------------------------------------------------------------------


def _each(
    usage: str, options: str, act: Callable[[Ledger, Job, Mapping[str, str]], _Outcome]
) -> Callable[[Ledger, Call], Answer]:
    """A command on several ids: returns the exit code of the last failure, and a line for each failure."""

    def operate(ledger: Ledger, call: Call) -> Answer:
        given, ids = looking.options_of(call["words"], options, usage)
        if not ids:
            raise Rejection(2, f"usage: {usage}")
        rc, lines = 0, []
        for text in ids:
            if not looking.ID.fullmatch(text):
                raise Rejection(1, f"illegally formed job identifier: {text}")
            seq = int(text.partition(".")[0].partition("[")[0])
            job = looking.known(ledger, call, seq)
            found = _allowed(ledger, call, job) or act(ledger, job, given) if job else _UNKNOWN
            if found[0]:
                rc = found[0]
                lines.append(f"{call['op']}: {found[1]} {seq}.{ledger.config.server}\n")
        return {"rc": rc, "out": "", "err": "".join(lines)}

    return operate


def _allowed(ledger: Ledger, call: Call, job: Job) -> _Outcome | None:
    """None if the caller may change the job (its owner or an operator), else the error."""
    return None if call["user"] in {job.owner, *ledger.config.operators} else _NOT_YOURS


def _delete(ledger: Ledger, job: Job, options: Mapping[str, str]) -> _Outcome:
    forced, purge = "force" in options.get("-W", ""), "-x" in options
    if job.state == FINISHED:
        if purge:
            ledgers.forget(ledger, job)
        return _DONE if purge else _FINISHED
    job.deleted_by, job.forced, job.purge, job.modified = f"{job.owner}@{job.host}", forced, purge, time.time()
    if job.state not in ACTIVE:
        ledgers.end_unstarted(job)
        ledgers.save(ledger, job)
        if purge or ledger.faults.history_lost:
            ledgers.forget(ledger, job)
        return _DONE
    if " and terminated" not in job.comment:
        job.comment += f" and terminated by {job.deleted_by}"
    job.kill_at = job.kill_at or time.time() + ledger.config.kill_delay
    job.signals.append(signal.SIGKILL if forced else signal.SIGTERM)
    ledgers.save(ledger, job)
    running.order(job, ledger.state)
    return _DONE


def _signal(ledger: Ledger, job: Job, options: Mapping[str, str]) -> _Outcome:
    given = options.get("-s", "TERM")
    if given in {"suspend", "resume"}:
        return _FINISHED if job.state == FINISHED else _suspend(ledger, job, resume=given == "resume")
    name = given.upper().removeprefix("SIG")
    known = {item.name.removeprefix("SIG"): int(item) for item in signal.Signals}
    number = int(name) if name.isdigit() else known.get(name)
    if number is None or not 0 <= number < signal.NSIG:
        return _BAD_SIGNAL
    if job.state == FINISHED:
        return _FINISHED
    if job.state not in {RUNNING, SUSPENDED}:
        return _BAD_STATE
    job.signals.append(number)
    ledgers.save(ledger, job)
    running.order(job, ledger.state)
    return _DONE


def _suspend(ledger: Ledger, job: Job, *, resume: bool) -> _Outcome:
    """Stop a job and free its slots for other jobs, or let it go on once they are free again.

    OpenPBS allows this only to operators. Here the owner may do it too, as there is nearly always only one user.
    """
    if job.deleted_by or job.state != (SUSPENDED if resume else RUNNING):
        return _BAD_STATE
    job.modified = time.time()
    if resume:
        job.substate = running.TO_BE_RESUMED
    else:
        job.state, job.substate, job.stopped = SUSPENDED, running.SUSPENDED_BY_HAND, job.modified
    ledgers.save(ledger, job)
    running.order(job, ledger.state)
    return _DONE


def _hold(ledger: Ledger, job: Job, _: Mapping[str, str]) -> _Outcome:
    if job.state == FINISHED:
        return _FINISHED
    ledgers.hold(ledger, job)
    return _DONE


def _release(ledger: Ledger, job: Job, _: Mapping[str, str]) -> _Outcome:
    if job.state == FINISHED:
        return _FINISHED
    ledgers.release(ledger, job)
    return _DONE


_COMMANDS: Final[Mapping[str, Callable[[Ledger, Call], Answer]]] = {
    "qsub": _qsub,
    "qstat": looking.qstat,
    "qselect": looking.qselect,
    "qdel": _each("qdel [-W force] [-x] job_identifier...", "xW:", _delete),
    "qsig": _each("qsig [-s signal] job_identifier...", "s:", _signal),
    "qhold": _each("qhold [-h hold_list] job_identifier...", "h:", _hold),
    "qrls": _each("qrls [-h hold_list] job_identifier...", "h:", _release),
}


# --- the embedded queue's own ------------------------------------------------------------------------------------


def _queues(ledger: Ledger, _: Call) -> Answer:
    return {"rc": 0, "queues": [_queue_state(ledger, queue) for queue in ledger.config.queues]}


def _queue_state(ledger: Ledger, queue: Queue) -> dict[str, Any]:
    states = [job.state for job in ledger.active.get(queue.name, {}).values()]
    return {
        "site": queue.site,
        "queue": queue.name,
        "up": queue.enabled and queue.started,
        "freeNodes": placing.free_nodes(queue, ledger.occupying(queue.name)),
        "queuedJobs": len(ledger.waiting.get(queue.name, ())),
        "runningJobs": states.count(RUNNING) + states.count(EXITING),
    }


def _reload(ledger: Ledger, _: Call) -> Answer:
    config = ledger.state.config()
    kept = {queue.name for queue in config.queues}
    lost = sorted({job.queue for job in ledger.living.values()} - kept)
    if lost:
        return {"rc": 1, "err": f"jobs that are not over need the queue {', '.join(lost)}"}
    ledgers.reconfigure(ledger, config)
    return {"rc": 0}


def _faults(ledger: Ledger, call: Call) -> Answer:
    """Change the faults, if any words are given, and show them. A change applies from the next command on."""
    try:
        changed = faults.changed(ledger.faults, tuple(call["words"]))
    except ConfigError as error:
        return {"rc": 2, "err": str(error)}
    if changed != ledger.faults:
        ledger.faults = changed
        ledger.state.save_faults(changed)
    return {"rc": 0, "faults": faults.document_of(ledger.faults)}


def _stop(ledger: Ledger, call: Call) -> Answer:
    """End the daemon; with ``delete`` first end all jobs at once."""
    for job in list(ledger.living.values()) if call.get("delete") else ():
        _delete(ledger, job, {"-W": "force"})
    return {"rc": 0, "stop": True, "delete": bool(call.get("delete"))}


_OWN: Final[Mapping[str, Callable[[Ledger, Call], Answer]]] = {
    "queues": _queues,
    "reload": _reload,
    "faults": _faults,
    "stop": _stop,
}
