"""``batchgate local``: OpenPBS' commands for the embedded queue, and three of its own (queues, stop).

Reads words and files and the caller's environment, prints, and exits with OpenPBS' codes. Imports nothing heavy:
a whole ``qsub`` takes as long as starting Python.
"""

from __future__ import annotations

import dataclasses
import getopt
import os
import pwd
import re
import socket
import stat
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from router.errors import ConfigError
from router.local import client, display, submission
from router.local.administration import queues, stop
from router.local.records import FINISHED, Job, job_of
from router.local.resources import Rejection
from router.local.state import VARIABLE, State, default_directory

_ID: Final = re.compile(r"(\d+)(?:\[\d*\])?(?:\.[A-Za-z0-9._-]+)?")
_SYSTEM_RC, _STATUS_RC, _UNKNOWN_QUEUE, _FINISHED, _UNKNOWN = 162, 255, 170, 35, 153
_NAME: Final = re.compile(r"[A-Za-z0-9_.+-]+")


class _Words(click.Command):
    """A command that reads its words itself: OpenPBS' options are not click's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave every word as it is; ``--help`` alone is click's."""
        if args == ["--help"]:
            return super().parse_args(ctx, args)
        ctx.params = {"words": tuple(args)}
        return []


@click.group(context_settings={"help_option_names": ["--help"]})
@click.option(
    "--directory", envvar=VARIABLE, default=default_directory, show_default=f"${VARIABLE} or the user's state directory",
    help="Where the embedded queue keeps its state.", type=click.Path(file_okay=False),
)  # fmt: skip
@click.pass_context
def local(ctx: click.Context, directory: str) -> None:
    """The embedded queue: a one-machine batch system that speaks OpenPBS, to try things with.

    Jobs run for real, as you, on this machine. A background process starts with the first command and ends by itself
    when it is idle. Without declared queues (`batchgate local queues --define`) there is one, "workq".

    \b
    Example:  echo hostname | batchgate local qsub && batchgate local qstat -x
    """
    ctx.obj = State(Path(directory).absolute())


def _words(help_text: str, example: str) -> Callable[[Callable[[State, Sequence[str]], None]], click.Command]:
    """Make a command of a function of (state, words)."""

    def decorate(function: Callable[[State, Sequence[str]], None]) -> click.Command:
        name = function.__name__

        @click.pass_obj
        def run(state: State, words: tuple[str, ...]) -> None:
            try:
                function(state, words)
            except Rejection as error:
                _fail(name, error.words, error.returncode)
            except ConfigError as error:
                rc = _STATUS_RC if name == "qstat" else _SYSTEM_RC
                _fail(name, f"cannot connect to server local (errno=15010): {error}", rc)

        command = _Words(
            name, callback=run, help=f"{help_text}\n\n\b\nExample:  {example}", options_metavar="[OPTIONS AND OPERANDS]"
        )
        local.add_command(command)
        return command

    return decorate


def _fail(name: str, words: str, returncode: int) -> NoReturn:
    print(f"{name}: {words}", file=sys.stderr)  # noqa: T201 - click would re-encode what a job's name may hold
    sys.exit(returncode)


def _write(text: str) -> None:
    sys.stdout.buffer.write(text.encode(errors="surrogateescape"))
    sys.stdout.flush()


def _finish(name: str, answer: dict[str, Any]) -> None:
    for words in answer.get("stderr", ()):
        print(f"{name}: {words}", file=sys.stderr)  # noqa: T201 - as above
    sys.exit(answer["rc"])


def _options(words: Sequence[str], options: str, usage: str) -> tuple[dict[str, str], list[str]]:
    try:
        given, rest = getopt.getopt(list(words), options)
    except getopt.GetoptError as error:
        raise Rejection(2, f"{error.msg}\nusage: {usage}") from error
    return dict(given), rest


# --- submission --------------------------------------------------------------------------------------------------


@_words(
    "Submit a script (a file, or standard input); prints the job's id. Options and directives are OpenPBS'.",
    "echo hostname | batchgate local qsub -N hello -l select=1:ncpus=1 -o hello.out -j oe",
)
def qsub(state: State, words: Sequence[str]) -> None:  # noqa: D103 - its help says it
    operands = _operands(words)
    script, name = _script(operands)
    request, _ = submission.parse(words, script, dict(os.environ), script_name=name)
    account = _account()
    origin = _origin(account)
    outputs = (flag for flag in ("-o", "-e") if _is_directory(request.options.get(flag)))
    answer = client.ask(
        state,
        {
            "op": "submit",
            "token": os.urandom(16).hex(),
            "script": script,
            "name": request.name,
            "chunks": [dataclasses.asdict(chunk) for chunk in request.asked.chunks],
            "place": request.asked.place,
            "walltime": request.asked.walltime,
            "listed": dict(request.asked.listed),
            "options": dict(request.options),
            "attributes": dict(request.attributes),
            "variables": dict(request.variables),
            "origin": origin,
            "arguments": " ".join(words),
            "directories": list(outputs),
            "host": socket.gethostname(),
            "user": account,
        },
    )
    if answer["rc"] == 0 and "-z" not in request.options:
        _write(answer["stdout"] + "\n")
    _finish("qsub", answer)


def _operands(words: Sequence[str]) -> list[str]:
    """What follows the options. Rejection where that is more than a script."""
    rest = submission.operands(words)
    if len(rest) > 1 and "--" not in words:
        raise Rejection(2, submission.USAGE)
    return rest if "--" not in words or not rest else ["--", *rest]


def _script(operands: Sequence[str]) -> tuple[str, str]:
    """The script's text and the name that it gives the job."""
    if operands[:1] == ["--"]:
        quoted = ("'" + word.replace("'", "'\\''") + "'" for word in operands[1:])
        return f"exec {' '.join(quoted)}\n", Path(operands[1]).name
    if not operands or operands[0] == "-":
        return sys.stdin.buffer.read().decode(errors="surrogateescape"), "STDIN"
    path = Path(operands[0])
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise Rejection(1, "script not a file")
        content = path.read_bytes().decode(errors="surrogateescape")
    except OSError as error:
        raise Rejection(1, f"script file:: {error.strerror}") from error
    return content, path.name


def _is_directory(path: str | None) -> bool:
    return path is not None and Path(path).is_dir()


def _account() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _origin(account: str) -> dict[str, str]:
    """PBS_O_…: where the submission came from."""
    known = {"HOME": "", "LANG": "", "PATH": "", "MAIL": "", "SHELL": ""}
    taken = {f"PBS_O_{name}": os.environ[name] for name in known if name in os.environ}
    host = {"PBS_O_LOGNAME": account, "PBS_O_SYSTEM": os.uname().sysname, "PBS_O_HOST": socket.gethostname()}
    return {**taken, **host, "PBS_O_WORKDIR": str(Path.cwd())}


# --- looking -----------------------------------------------------------------------------------------------------

_QSTAT_USAGE: Final = "qstat [-f] [-x] [-F format | -w] [-D delim] [-a] [-H] [-u user] [ job_identifier... | queue... ]"
_QSELECT_USAGE: Final = (
    "qselect [-H] [-x] [-N name] [-q queue] [-s states] [-P project_name] [-A account] [-u user_name]"
)


@_words(
    "Show jobs: all, those named, those of a queue. -f for all attributes, -x for finished ones too.",
    "batchgate local qstat -x -f -F json 0.local",
)
def qstat(state: State, words: Sequence[str]) -> None:  # noqa: D103 - its help says it
    if words == ("--version",):
        _write(f"pbs_version = {display.VERSION}\n")
        return
    options, rest = _options(words, "fxwaHtn1sF:D:u:", _QSTAT_USAGE)
    form = options.get("-F", "")
    table = [flag for flag in ("-a", "-u", "-w", "-H") if flag in options]
    if ("-f" in options and table) or (form and "-f" not in options) or form not in {"", "dsv", "json"}:
        raise Rejection(2, f"conflicting options.\nusage: {_QSTAT_USAGE}")
    answer = client.ask(state, {"op": "show"})
    found, problems, rc = _found(answer, rest, history="-x" in options or "-H" in options)
    if "-u" in options:
        users = {name.partition("@")[0] for name in options["-u"].split(",")}
        found = [job for job in found if job.owner in users]
    _write(_shown(found, options, answer["server"], several=len(rest) > 1, wide=bool(table)))
    for line in problems:
        print(f"qstat: {line}", file=sys.stderr)  # noqa: T201 - as above
    sys.exit(rc)


def _shown(jobs: list[Job], options: dict[str, str], server: str, *, several: bool, wide: bool) -> str:
    if options.get("-F") == "json":
        return display.as_json(jobs, several_asked=several, server=server, now=time.time())
    if options.get("-F") == "dsv":
        return display.as_dsv(jobs, options.get("-D", "|"))
    if "-f" in options:
        return display.as_text(jobs)
    return display.wide_table(jobs, server, time.time()) if wide else display.plain_table(jobs)


def _found(answer: dict[str, Any], operands: Sequence[str], *, history: bool) -> tuple[list[Job], list[str], int]:
    """The jobs that operands name, in their order; what is wrong with the others; the exit code of the last of these."""
    jobs = {record["seq"]: job_of(record) for record in answer["jobs"]}
    visible = [job for job in jobs.values() if history or job.state != FINISHED]
    if not operands:
        return visible, [], 0
    found: list[Job] = []
    problems: list[str] = []
    rc = 0
    for operand in operands:
        match = _ID.fullmatch(operand)
        if match is None:
            queue = operand.partition("@")[0]
            if not operand[0].isdigit() and (not queue or queue in answer["queues"]):
                found += [job for job in visible if queue in {"", job.queue}]
                continue
            illegal = operand[0].isdigit()
            rc = 1 if illegal else _UNKNOWN_QUEUE
            problems.append(
                f"illegally formed job identifier: {operand}" if illegal else f"Unknown queue destination {operand}"
            )
            continue
        job, job_id = jobs.get(int(match.group(1))), f"{match.group(1)}.{answer['server']}"
        if job is None:
            rc = _UNKNOWN
            problems.append(f"Unknown Job Id {job_id}")
        elif job.state == FINISHED and not history:
            rc = _FINISHED
            problems.append(f"{job_id} Job has finished, use -x or -H to obtain historical job information")
        else:
            found.append(job)
    return found, problems, rc


@_words(
    "List the ids of jobs by exact criteria; -x adds finished ones, -H shows only these.",
    "batchgate local qselect -x -N hello",
)
def qselect(state: State, words: Sequence[str]) -> None:  # noqa: D103 - its help says it
    options, rest = _options(words, "xHN:q:s:P:A:u:", _QSELECT_USAGE)
    if rest or not _NAME.fullmatch(options.get("-N", "_")):
        wrong = "" if rest else "illegal -N value\n"
        raise Rejection(2, f"{wrong}usage: {_QSELECT_USAGE}")
    answer = client.ask(state, {"op": "show"})
    queue = options.get("-q", "").partition("@")[0]
    if queue and queue not in answer["queues"]:
        raise Rejection(_UNKNOWN_QUEUE, "Unknown queue destination")
    jobs = [job_of(record) for record in answer["jobs"]]
    _write("".join(f"{job.job_id}\n" for job in jobs if _selected(job, options, queue)))


def _selected(job: Job, options: dict[str, str], queue: str) -> bool:
    if job.state == FINISHED and not {"-x", "-H"} & set(options):
        return False
    users = {name.partition("@")[0] for name in options.get("-u", job.owner).split(",")}
    return (
        ("-H" not in options or job.state == FINISHED)
        and options.get("-N", job.name) == job.name
        and queue in {"", job.queue}
        and job.state in options.get("-s", job.state)
        and options.get("-P", job.options.get("-P")) == job.options.get("-P")
        and options.get("-A", job.options.get("-A")) == job.options.get("-A")
        and job.owner in users
    )


# --- acting ------------------------------------------------------------------------------------------------------


def _act(state: State, name: str, ids: Sequence[str], request: dict[str, Any]) -> None:
    if not ids:
        raise Rejection(2, f"usage: {name} job_identifier...")
    for job_id in ids:
        if not _ID.fullmatch(job_id):
            raise Rejection(1, f"illegally formed job identifier: {job_id}")
    _finish(name, client.ask(state, {**request, "ids": list(ids)}))


@_words(
    "Delete jobs: TERM, then KILL after the queue's delay; -W force at once; -x forgets them too.",
    "batchgate local qdel 0.local",
)
def qdel(state: State, words: Sequence[str]) -> None:  # noqa: D103 - its help says it
    options, ids = _options(words, "xW:", "qdel [-W force] [-x] job_identifier...")
    force = "force" in options.get("-W", "")
    _act(state, "qdel", ids, {"op": "delete", "force": force, "purge": "-x" in options})


@_words(
    "Send a signal (-s NAME or number, TERM by default) to every process of running jobs.",
    "batchgate local qsig -s USR1 0.local",
)
def qsig(state: State, words: Sequence[str]) -> None:  # noqa: D103 - its help says it
    options, ids = _options(words, "s:", "qsig [-s signal] job_identifier...")
    _act(state, "qsig", ids, {"op": "signal", "signal": options.get("-s", "TERM")})


@_words("Hold queued jobs.", "batchgate local qhold 0.local")
def qhold(state: State, words: Sequence[str]) -> None:  # noqa: D103 - its help says it
    _, ids = _options(words, "h:", "qhold [-h hold_list] job_identifier...")
    _act(state, "qhold", ids, {"op": "hold"})


@_words("Release held jobs.", "batchgate local qrls 0.local")
def qrls(state: State, words: Sequence[str]) -> None:  # noqa: D103 - its help says it
    _, ids = _options(words, "h:", "qrls [-h hold_list] job_identifier...")
    _act(state, "qrls", ids, {"op": "release"})


# --- the queue itself --------------------------------------------------------------------------------------------


local.add_command(queues)
local.add_command(stop)
