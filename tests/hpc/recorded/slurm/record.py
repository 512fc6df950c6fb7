"""Record what Slurm says, from the bed: ``python -m tests.hpc.recorded.slurm.record DIRECTORY [PART …]``,
as root where it is up.

The bed's daemons and one node are stopped and started for it, so nobody else should use the bed meanwhile. What is
recorded depends on the variant that is up: a directory each.

Every recording is ``NAME.out`` and, where the command said something there, ``NAME.err``; ``index.txt`` has a line each:
name, exit code, who asked, and the command line as a shell would take it, between tabs.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bed import daemons, site, standing
from bed.commands import BedError
from bed.layout import OPERATOR, SERVICE, USERS

ADA, BEN = USERS
LAYOUT = standing.layout()
try:
    ACCOUNTING = standing.variant(LAYOUT).accounting
except BedError as error:
    raise SystemExit(str(error)) from None
QUEUE = (
    "JobID:|,ArrayJobID:|,ArrayTaskID:|,State:|,Reason:|,exit_code:|,Partition:|,UserName:|,SubmitTime:|,StartTime:|"
    ",EndTime:|,PendingTime:|,TimeLimit:|,NodeList:|,Restarts:|,WorkDir:|,Comment:|,Name:|"
)
HISTORY = "JobIDRaw,State,ExitCode,DerivedExitCode,Submit,Start,End,Elapsed,Partition,User,Account,NodeList,JobName"


class Recorder:
    """Runs commands as users and writes down what they say.

    :param directory: where to; what is there is written over
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        index = directory / "index.txt"
        before = index.read_text().splitlines()[1:] if index.exists() else []
        self.lines = {line.split("\t")[0]: line for line in before}

    def __call__(self, name: str, *argv: str, user: str = ADA) -> str:
        """Record one command; its standard output."""
        done = run(*argv, user=user)
        (self.directory / f"{name}.out").write_bytes(done.stdout)
        (self.directory / f"{name}.err").unlink(missing_ok=True)
        if done.stderr:
            (self.directory / f"{name}.err").write_bytes(done.stderr)
        self.lines[name] = "\t".join((name, str(done.returncode), user, shlex.join(argv)))
        (self.directory / "index.txt").write_text(
            "name\texit code\tuser\tcommand line\n" + "\n".join(self.lines.values()) + "\n"
        )
        return done.stdout.decode(errors="replace").strip()


def run(*argv: str, user: str = ADA) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a user in the work directory of the first."""
    return subprocess.run(
        ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "env", "-i", "PATH=/usr/bin:/bin", *argv],
        cwd=LAYOUT.work / ADA if user in {ADA, "root"} else "/",
        capture_output=True,
        check=False,
        timeout=120,
    )


def submit(*options: str, wrap: str = "sleep 300", user: str = ADA) -> str:
    """A job's id."""
    where = () if user == ADA else ("--chdir", str(LAYOUT.work / user))
    done = run("sbatch", "--parsable", "--export=NONE", *where, *options, "--wrap", wrap, user=user)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def state(job: str) -> str:
    """A job's state, as the controller has it; empty where it knows none."""
    return run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T", user="root").stdout.decode().strip()


def until(holds: Callable[[], bool], what: str, seconds: float = 150) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.2)


def reach(job: str, *states: str) -> str:
    """Wait until a job has one of these states; its id."""
    until(lambda: state(job) in states, f"job {job} {'/'.join(states)} (is {state(job)})")
    return job


def details(record: Recorder, name: str, job: str, user: str = ADA) -> None:
    """One job in every form."""
    record(f"{name}.scontrol", "scontrol", "show", "job", job, user=user)
    record(f"{name}.scontrol-line", "scontrol", "show", "job", "-o", job, user=user)
    record(f"{name}.squeue", "squeue", "-h", "-t", "all", "-j", job, "-O", QUEUE, user=user)
    if ACCOUNTING:
        record(f"{name}.sacct", "sacct", "-n", "-P", "-X", "-j", job, "-o", HISTORY, user=user)


def refusals(record: Recorder) -> None:
    """What sbatch refuses, and what scancel and the questions say of jobs that are not there or somebody else's."""
    wrap = ("--wrap", "true")
    record("refused.partition", "sbatch", "--parsable", "-p", "nosuch", *wrap)
    record("refused.time", "sbatch", "--parsable", "-p", "debug", "-t", "60", *wrap)
    record("refused.nodes", "sbatch", "--parsable", "-p", "debug", "-N", "2", *wrap)
    record("refused.nodes-partition", "sbatch", "--parsable", "-p", "batch", "-N", "3", *wrap)
    record("refused.cores", "sbatch", "--parsable", "-p", "all", "-n", "17", *wrap)
    record("refused.memory", "sbatch", "--parsable", "-p", "batch", "--mem", "64000", *wrap)
    record("refused.gpu", "sbatch", "--parsable", "-p", "batch", "--gres", "gpu:1", *wrap)
    record("refused.gpu-count", "sbatch", "--parsable", "-p", "gpu", "--gres", "gpu:3", "-N", "1", *wrap)
    record("refused.account", "sbatch", "--parsable", "-A", "nosuch", *wrap)
    record("refused.option", "sbatch", "--parsable", "--nosuch", *wrap)
    record("refused.time-format", "sbatch", "--parsable", "-t", "x", *wrap)
    record("refused.dependency", "sbatch", "--parsable", "-d", "afterok:999999", *wrap)
    record("refused.no-file", "sbatch", "--parsable", "nosuchfile")
    record("refused.reservation", "sbatch", "--parsable", "--reservation", "nosuch", *wrap)
    record("refused.qos", "sbatch", "--parsable", "--qos", "nosuch", *wrap)
    record("refused.user", "sbatch", "--parsable", *wrap, user=SERVICE)
    record("unknown.scontrol", "scontrol", "show", "job", "999999")
    record("unknown.squeue", "squeue", "-h", "-t", "all", "-j", "999999", "-O", QUEUE)
    record("unknown.squeue-two", "squeue", "-h", "-t", "all", "-j", "999998,999999", "-O", QUEUE)
    record("unknown.sacct", "sacct", "-n", "-P", "-X", "-j", "999999", "-o", HISTORY)
    record("unknown.scancel", "scancel", "999999")
    record("unknown.scancel-signal", "scancel", "-b", "-s", "TERM", "999999")
    record("bad-id.scontrol", "scontrol", "show", "job", "x12")
    record("bad-id.squeue", "squeue", "-h", "-j", "x12")
    record("bad-id.scancel", "scancel", "x12")


def waiting(record: Recorder) -> list[str]:
    """Jobs that wait, each for another reason."""
    blocker = reach(submit("-p", "batch", "-n", "8", "-J", "blocker"), "RUNNING")
    held = submit("-H", "-J", "held")
    held_by_admin = submit("-p", "batch", "-n", "8", "-J", "admin")
    run("scontrol", "hold", held_by_admin, user="root")
    details(record, "held", held)
    details(record, "held-by-admin", held_by_admin)
    later = submit("-b", "now+1hour", "-J", "later")
    details(record, "begin-time", later)
    dependent = submit("-d", f"afterok:{held}", "-J", "dependent")
    details(record, "dependency", dependent)
    first = submit("-p", "batch", "-n", "8", "-J", "first")
    until(lambda: b"Resources" in run("squeue", "-h", "-j", first, "-o", "%r").stdout, "Resources")
    second = submit("-p", "batch", "-n", "8", "-J", "second")
    until(lambda: b"Priority" in run("squeue", "-h", "-j", second, "-o", "%r").stdout, "Priority")
    details(record, "resources", first)
    details(record, "priority", second)
    array = submit("-p", "batch", "-a", "0-3%2", "-n", "8", "-J", "array")
    details(record, "array-waiting", array)
    details(record, "running", blocker)
    run("scontrol", "suspend", blocker, user="root")
    details(record, "suspended", reach(blocker, "SUSPENDED"))
    run("scontrol", "resume", blocker, user="root")
    nasty = submit("-H", "-J", "a|b =c\td", "--comment", "State=RUNNING | x=y\u00e9")
    details(record, "nasty-name", nasty)
    newline = submit("-H", "-J", "line\nJobId=1 JobState=COMPLETED")
    details(record, "newline-name", newline)
    record("many.squeue", "squeue", "-h", "-t", "all", "-O", QUEUE)
    record("many.squeue-json", "squeue", "-t", "all", "--json")
    record("many.squeue-me", "squeue", "-h", "-t", "all", "--me", "-O", QUEUE)
    record("many.scontrol", "scontrol", "show", "job", "-o")
    record("scancel.waiting", "scancel", dependent)
    details(record, "cancelled-waiting", reach(dependent, "CANCELLED"))
    return [blocker, held, held_by_admin, later, first, second, array, nasty, newline]


def hidden(record: Recorder, job: str) -> None:
    """A job of the first user, as others see it."""
    for name, user in (("other", BEN), ("operator", OPERATOR), ("service", SERVICE), ("root", "root")):
        details(record, f"hidden.{name}", job, user)
        record(f"hidden.{name}.list", "squeue", "-h", "-t", "all", "-O", QUEUE, user=user)
    record("hidden.scancel", "scancel", job, user=BEN)
    record("hidden.two", "squeue", "-h", "-t", "all", "-j", f"{job},999999", "-O", QUEUE, user=BEN)


def ends(record: Recorder) -> None:
    """Jobs that end, each in another way."""
    where = ("-p", "all")
    # Times are looked at every 30 s, so this one is first to start and last to be looked at.
    late = submit(*where, "-t", "1", "-J", "timeout")
    jobs = {
        "completed": submit(*where, wrap="true"),
        "failed": submit(*where, wrap="exit 7"),
        "failed-signal": submit(*where, wrap="kill -SEGV $$"),
        # Longer than the 2 s between two looks at the memory, where no cgroup holds it.
        "memory": submit(
            *where, "--mem", "50", wrap="/usr/bin/python3 -c 'import time; x = b\"1\" * (400 << 20); time.sleep(9)'"
        ),
    }
    done = ("COMPLETED", "FAILED", "OUT_OF_MEMORY")
    for name, job in jobs.items():
        details(record, name, reach(job, *done))
    for name, who, signal_words in (
        ("cancelled-by-user", ADA, ()),
        ("cancelled-by-admin", "root", ()),
        ("signalled", ADA, ("-b", "-s", "TERM")),
    ):
        job = reach(submit(*where), "RUNNING")
        time.sleep(1)  # the batch script's own start: a signal before it is lost
        record(f"{name}.scancel", "scancel", *signal_words, job, user=who)
        details(record, name, reach(job, "CANCELLED", "FAILED", "COMPLETED"))
    trap = reach(submit(*where, wrap="trap '' TERM; sleep 60 & wait; wait; sleep 60"), "RUNNING")
    time.sleep(1)
    run("scancel", trap)
    details(record, "completing", reach(trap, "COMPLETING"))
    requeued = reach(submit(*where, "--requeue", "-J", "requeued"), "RUNNING")
    record("requeue", "scontrol", "requeue", requeued)
    details(record, "requeued", requeued)
    run("scancel", requeued)
    refused = reach(submit(*where, "--no-requeue"), "RUNNING")
    record("requeue-refused", "scontrol", "requeue", refused)
    run("scancel", refused)
    array = submit(*where, "-a", "0-2", wrap="exit $SLURM_ARRAY_TASK_ID")
    until(lambda: set(state(array).split()) <= set(done), "array")
    details(record, "array-ended", array)
    record("scancel.ended", "scancel", jobs["completed"])
    record("scancel.ended-signal", "scancel", "-b", "-s", "TERM", jobs["completed"])
    details(record, "timeout", reach(late, "TIMEOUT"))
    if not ACCOUNTING:
        return
    record("ended.sacct-many", "sacct", "-n", "-P", "-X", "-j", ",".join(jobs.values()), "-o", HISTORY)
    record("ended.sacct-steps", "sacct", "-n", "-P", "-j", ",".join(jobs.values()), "-o", HISTORY)
    record("ended.sacct-json", "sacct", "--json", "-j", ",".join(jobs.values()))


def lost_node(record: Recorder) -> None:
    """A node whose slurmd dies under two jobs, one of which may not be started again."""
    kept = reach(submit("-p", "all", "-w", "node4", "--no-requeue", "-J", "no-requeue"), "RUNNING")
    again = reach(submit("-p", "all", "-w", "node4", "--requeue", "-J", "requeue"), "RUNNING")
    daemon = next(one for one in daemons.all_daemons(LAYOUT) if one.name == "node4")
    os.kill(daemons.running(LAYOUT, daemon) or 0, signal.SIGKILL)
    details(record, "node-fail", reach(kept, "NODE_FAIL"))
    details(record, "node-fail-requeued", reach(again, "PENDING"))
    record("node-fail.sinfo", "sinfo", "-h", "-N", "-o", "%N|%P|%T|%C|%E")
    record("node-fail.node", "scontrol", "show", "node", "-o", "node4")
    run("scancel", again)
    daemons.start(LAYOUT, daemon)
    site.start(LAYOUT, standing.variant(LAYOUT))


def down(record: Recorder, job: str) -> None:
    """The server is down; then the accounting."""
    by_name = {one.name: one for one in daemons.all_daemons(LAYOUT)}
    daemons.stop(LAYOUT, by_name["slurmctld"])
    record("down.sbatch", "sbatch", "--parsable", "--wrap", "true")
    record("down.scancel", "scancel", job)
    record("down.scancel-signal", "scancel", "-b", "-s", "TERM", job)
    record("down.sinfo", "sinfo", "-h")
    record("down.ping", "scontrol", "ping")
    details(record, "down", job)
    site.start(LAYOUT, standing.variant(LAYOUT))
    if ACCOUNTING:
        daemons.stop(LAYOUT, by_name["slurmdbd"])
        record("accounting-down.sacct", "sacct", "-n", "-P", "-X", "-j", job, "-o", HISTORY)
        site.start(LAYOUT, standing.variant(LAYOUT))


def limits(record: Recorder) -> None:
    """An account with room for five jobs of a user."""
    jobs = [submit("-A", "limited", "-H") for _ in range(5)]
    record("full.submit", "sbatch", "--parsable", "-A", "limited", "--wrap", "true")
    run("scancel", *jobs)
    run("scontrol", "update", "partition=debug", "state=drain", user="root")
    record("full.partition-drain", "sbatch", "--parsable", "-p", "debug", "--wrap", "true")
    run("scontrol", "update", "partition=debug", "state=inactive", user="root")
    record("full.partition-inactive", "sbatch", "--parsable", "-p", "debug", "--wrap", "true")
    run("scontrol", "update", "partition=debug", "state=down", user="root")
    queued = record("full.partition-down", "sbatch", "--parsable", "-p", "debug", "--wrap", "true")
    details(record, "partition-down", queued)
    record("partition-down.sinfo", "sinfo", "-h", "-o", "%P|%a|%l|%D|%T|%N")
    run("scontrol", "update", "partition=debug", "state=up", user="root")
    run("scancel", queued)


def site_questions(record: Recorder) -> None:
    """Queues, nodes, versions, configuration."""
    record("site.version", "sbatch", "--version")
    record("site.partitions", "scontrol", "show", "partition", "-o")
    record("site.partition-unknown", "scontrol", "show", "partition", "-o", "nosuch")
    record("site.nodes", "scontrol", "show", "node", "-o")
    record("site.sinfo", "sinfo", "-h", "-o", "%R|%a|%l|%D|%C|%c|%m|%G|%T|%N")
    record("site.sinfo-nodes", "sinfo", "-h", "-N", "-o", "%N|%R|%T|%C|%e|%m|%G")
    record("site.sinfo-json", "sinfo", "--json")
    record("site.config", "scontrol", "show", "config")
    record("site.ping", "scontrol", "ping")
    record("site.associations", "sacctmgr", "-n", "-P", "show", "assoc", f"user={ADA}", "format=Account,User,MaxSubmit")
    record("site.sprio", "sprio", "-h")


def living(record: Recorder) -> None:
    """Jobs that wait and run, as they are, as others see them, and with the server down."""
    jobs = waiting(record)
    hidden(record, jobs[0])
    down(record, jobs[0])
    run("scancel", *jobs)
    until(lambda: not run("squeue", "-h").stdout, "an empty queue")


def full(record: Recorder) -> None:
    """``limits``, which are the accounting's."""
    if ACCOUNTING:
        limits(record)


PARTS = {part.__name__: part for part in (site_questions, refusals, living, full, ends, lost_node)}


def main() -> None:
    """Record into the directory that the first argument names; further arguments name parts, else all are recorded."""
    record = Recorder(Path(sys.argv[1]).resolve())
    for name in sys.argv[2:] or PARTS:
        PARTS[name](record)


if __name__ == "__main__":
    main()
