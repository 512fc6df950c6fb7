"""The forms in which people write MPI Jobs: a launcher anywhere in a container, and what each of them must print.

The program is ``bed/ring.c``, which verifies itself: all ranks of a launch add their numbers to the same sum.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bed.layout import NODES
from tests.agent.bed.site import TALLY
from tests.agent.bed.test_mpi import mpi

NAME = "@NAME@"
"""In a form, the directory of its own Job: below the tally, seen under the same path by all."""
FILES = "/cfg"
"""Where a form's ConfigMap is mounted."""
VENV = "/venv"
"""Where a directory of the Job is mounted that holds a launcher of its own."""
CORES = 4


@dataclass(frozen=True)
class Form:
    """A container's words, and its end.

    :param words: the command; a single one is a text for ``bash -c``; none is the image's own entrypoint
    :param rings: the sizes of the launches of ``ring``, in any order
    :param said: the other lines of its log, in their order; None where another test looks at them
    :param shown: parts of the log's other lines, where these are another program's
    :param files: the files of a ConfigMap at ``/cfg``
    :param image: launcher and image, as the site's policy knows them
    :param ranks: the hint for them; None without one
    :param more: further fields of the container
    """

    words: tuple[str, ...]
    rings: tuple[int, ...] = (4,)
    said: tuple[str, ...] | None = ()
    shown: tuple[str, ...] = ()
    code: int = 0
    files: Mapping[str, str] = field(default_factory=dict)
    image: str = "mpirun/forms:1"
    ranks: int | None = 4
    more: Mapping[str, Any] = field(default_factory=dict)


def text(*lines: str, **fields: Any) -> Form:
    """A text for ``bash -c``."""
    return Form(("bash", "-c", "\n".join(lines)), **fields)


PYTHON = """
import subprocess, sys
done = subprocess.run(["mpirun", "-np", "4", "ring"], capture_output=True, text=True)
sys.stdout.write(done.stdout)
print("python read", len(done.stdout.splitlines()), "lines,", done.returncode)
"""
RUN = "#!/bin/bash\nset -e\ncd /tmp\nmpirun -np 4 ring | tee log\nwc -l <log\n"
OUT = "which is not in the image: what a container writes outside volumes and /tmp is seen by itself alone; write it to one of them"

FORMS: dict[str, Form] = {
    # Shell text.
    "an environment is sourced, the output goes to tee": text(
        "echo 'export MODE=fast' >/tmp/env.sh",
        "source /tmp/env.sh && cd /tmp && mpirun -np 4 sh -c 'test $MODE = fast && exec ring' | tee log; wc -l <log",
        said=("4",),
    ),
    "loop": text("for n in 2 4; do mpirun -np $n ring; done", rings=(2, 4)),
    "loop of while read, as ssh has it": text(
        "printf '2\\n4\\n' | while read n; do mpirun -np $n ring </dev/null; done", rings=(2, 4)
    ),
    "pipe into the launcher": text(
        "printf 'a\\nb\\n' | mpirun -np 4 sh -c 'cat; exec ring' | sort", said=("a", "b")
    ),
    "input from a file": text("seq 3 >/tmp/in", "mpirun -np 4 sh -c 'cat; exec ring' </tmp/in", said=("1", "2", "3")),
    "redirections": text(
        "cd /tmp", "mpirun -np 4 sh -c 'ring; echo e >&2' >out 2>err", "cat out; wc -l <err", said=("4",)
    ),
    "standard error apart": text("mpirun -np 4 sh -c 'ring; echo lost >&2' 2>/dev/null"),
    "one after another": text("mpirun -np 4 ring && mpiexec -n 4 ring && orterun -n 4 ring", rings=(4, 4, 4)),
    "two at once": text("mpirun -np 2 ring & mpirun -np 2 ring & wait; echo both", rings=(2, 2), said=("both",)),
    "timeout": text("cd /tmp; timeout 600 mpirun -np 4 ring; echo $?", said=("0",)),
    "timeout that strikes": text("timeout 5 mpirun -np 4 sleep 600 2>/dev/null; echo $?", rings=(), said=("124",)),
    "exec": text("cd /tmp && exec mpirun -np 4 ring"),
    "trailing semicolon": text("cd /tmp; mpirun -np 4 ring;"),
    "set -e": text("set -euo pipefail", "cd /tmp", "mpirun -np 4 ring | cat", "echo over", said=("over",)),
    "set -e, and a rank fails": text("set -e", "cd /tmp", "mpirun -np 4 ring 7", "echo over", code=7, said=None),
    "function": text('run() { mpirun -np "$1" ring; }', "run 4 | cat"),
    "condition": text("if ! mpirun -np 4 ring; then echo bad; else echo good; fi", said=("good",)),
    "substitution": text('found=$(mpirun -np 4 ring) && echo "$found"'),
    "here-document": text("bash <<'END'", "mpirun -np 4 ring </dev/null", "END"),
    "in the background": text("cd /tmp", "nohup mpirun -np 4 ring >log 2>&1 &", "wait $!; code=$?", "grep rank log; exit $code"),
    "prefixes": text("cd /tmp", "time env MODE=1 nice -n 1 mpirun -np 4 ring 2>&1", said=None),
    "xargs": text("echo 4 | xargs -I@ mpirun -np @ ring"),
    "login shell": Form(("bash", "-lc", "cd /tmp && mpirun -np 4 ring | cat")),
    "a plain sh": Form(("sh", "-c", "cd /tmp && mpirun -np 4 ring | cat")),
    # Words that are known only when the text runs.
    "number with a default": text("mpirun -np ${NP:-4} ring | cat"),
    "number of the Job's environment": text(
        "mpirun -np $NP ring | cat", more={"env": [{"name": "NP", "value": "4"}]}
    ),
    "nproc": text("mpirun -np $(nproc) ring | cat"),
    "no number": text("cd /tmp && mpirun ring | cat"),
    # Where the text is out of sight.
    "script of a ConfigMap": Form(("bash", f"{FILES}/run.sh"), files={"run.sh": RUN}, said=("4",)),
    "script of a ConfigMap that is sourced": text(f"cd /tmp && . {FILES}/run.sh", files={"run.sh": RUN}, said=("4",)),
    "script of the image": Form(("sh", "/usr/local/bin/solve.sh", "4"), said=("the image's own script",)),
    "entrypoint of the image": Form((), said=("the image's entrypoint", "the image's own script")),
    "python -c": Form(("python3", "-c", PYTHON), said=("python read 4 lines, 0",)),
    "python -m, with the launcher as an argument": Form(
        ("python3", "-m", "solver", "--launcher", "mpirun"),
        files={"solver.py": PYTHON},
        said=("python read 4 lines, 0",),
        more={"env": [{"name": "PYTHONPATH", "value": FILES}]},
    ),
    "perl": Form(("perl", "-e", 'system("mpirun -np 4 ring") == 0 or die')),
    # Launchers and their options.
    "mpiexec.hydra in an image without it": text(
        "cd /tmp; mpiexec.hydra -genv MODE fast -ppn 2 -n 4 sh -c 'test $MODE = fast && exec ring' | cat"
    ),
    "srun in an image without it": text("cd /tmp; srun -n 4 ring | cat"),
    "absolute path": text("cd /tmp; /usr/bin/mpirun -np 4 ring | cat"),
    "a launcher of a virtual environment in a volume": text(
        f". {VENV}/bin/activate", "cd /tmp", "mpirun -np 4 ring | cat", "command -v mpirun", said=(f"{VENV}/bin/mpirun",)
    ),
    "-x": text("mpirun -x MODE=fast -np 4 sh -c 'test $MODE = fast && exec ring' | cat"),
    "--wdir": text("mkdir /tmp/w; mpirun --wdir /tmp/w -np 4 sh -c 'test $PWD = /tmp/w && exec ring' | cat"),
    "--map-by ppr:2:node": text("mpirun --map-by ppr:2:node ring | cat"),
    "-N": text("mpirun -N 1 ring | cat", rings=(2,), ranks=None),
    "--oversubscribe": text("mpirun --oversubscribe -np 6 ring | cat", rings=(6,)),
    "--allow-run-as-root, --host, --mca": text(
        "mpirun --allow-run-as-root --host localhost:4 --mca btl tcp,self --bind-to none -np 4 ring | cat"
    ),
    "the version": text("cd /tmp", "mpirun --version | head -n 1", "mpirun -np 4 ring", said=None, shown=("(Open MPI) ",)),
    "several programs": text(
        "mpirun -np 1 sh -c 'test ${OMPI_MCA_orte_app_num} = 0 && exec ring' : -np 3 ring | cat", rings=(4,)
    ),
    "several programs, as the whole command": Form(("mpirun", "-np", "1", "ring", ":", "-np", "3", "ring")),
    # Lifted: the launcher is the whole command.
    "lifted, plain": Form(("mpirun", "-np", "4", "ring")),
    "lifted, timeout": Form(("timeout", "600", "mpirun", "-np", "4", "ring")),
    "lifted, tini": Form(("tini", "--", "mpirun", "-np", "4", "ring")),
    "lifted, a text": text("set -e; exec mpirun -np 4 ring;"),
    # The site's launcher is Slurm's.
    "srun: pipe and tee": text("cd /tmp && mpirun -np 4 ring | tee log; wc -l <log", said=("4",), image="srun/forms:1"),
    "srun: input": text(
        "seq 3 | mpirun -np 4 sh -c 'cat; exec ring' | sort", said=("1", "2", "3"), image="srun/forms:1"
    ),
    "srun: two at once": text("srun -n 2 ring & srun -n 2 ring & wait", rings=(2, 2), image="srun/forms:1"),
    "srun: script of a ConfigMap": Form(
        ("bash", f"{FILES}/run.sh"), files={"run.sh": RUN}, said=("4",), image="srun/forms:1"
    ),
    "srun: exit code": text("mpirun -np 4 ring 7; exit $?", code=7, said=None, image="srun/forms:1"),
    "srun: several programs": text(
        "mpirun -x A=1 -np 1 sh -c 'test $A = 1 && exec ring' : -np 3 sh -c 'test -z \"$A\" && exec ring' | cat",
        image="srun/forms:1",
    ),
    # Shapes that published manifests have, in words of our own.
    "benchmark: a loaded environment, a directory by a pattern, a computed number, an appended log": text(
        "mkdir -p /tmp/bench-2.3/bin && cp $(command -v ring) /tmp/bench-2.3/bin/solver",
        "echo 'export LIBRARY=/opt' >/tmp/load.sh && . /tmp/load.sh",
        "cd /tmp/bench-*/bin && mpirun -n $(($WORKERS * 2)) -ppn 2 ./solver >>/tmp/bench.log",
        "#mpirun -np 2 -ppn 1 PingPong",
        "cat /tmp/bench.log",
        more={"env": [{"name": "WORKERS", "value": "2"}]},
    ),
    "worker hosts from a file, a daemon that is not there": text(
        "printf 'worker-0\\nworker-1\\n' >/tmp/hosts",
        "HOSTS=`cat /tmp/hosts | tr '\\n' ','`",
        "mkdir -p /tmp/run; command -v sshd;",
        "mpiexec --allow-run-as-root --host ${HOSTS} -np 4 ring;",
    ),
    "a prefix, an interpreter as the program": text(
        "mpiexec --allow-run-as-root --prefix /usr -np 4 python3 -c 'import os; os.execvp(\"ring\", [\"ring\"])';"
    ),
    "an absolute launcher with many options": Form(
        (
            *("/usr/bin/mpirun", "--allow-run-as-root", "--tag-output", "-np", "4", "-N", "2", "--bind-to", "none"),
            *("-x", "PATH", "-x", "MODE=fast", "--mca", "pml", "^cm", "--mca", "btl", "tcp,self", "ring"),
        )
    ),
    # What cannot be, in one sentence each.
    "ranks that start ranks": text("mpirun -np 2 mpirun -np 2 ring; echo $?", rings=(), said=None, shown=("recursive calls",)),
    "a directory that is the container's own": text(
        "mkdir /w && cd /w && mpirun -np 4 ring; echo $?",
        rings=(),
        said=(f"batchgate: ranks cannot start in /w, {OUT}", "1"),
    ),
    "a program that is the container's own": text(
        "mkdir /own && cp $(command -v ring) /own/mine; mpirun -np 4 /own/mine; echo $?",
        rings=(),
        said=(f"batchgate: ranks have no /own/mine, {OUT}", "127"),
    ),
    "more ranks than places": text(
        "mpirun -np 9 ring; echo $?",
        rings=(),
        said=("batchgate: Slurm gave places for 4 ranks, and 9 are to run", "1"),
    ),
}  # fmt: skip


def job_of(form: Form) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """A form's Job, with the hints for two nodes, and its ConfigMap."""
    made = mpi("", "true", cpus=CORES, nodes=2)
    name = made["metadata"]["name"]
    if form.ranks is not None:
        made["metadata"]["annotations"]["batchgate.dev/ranks"] = str(form.ranks)
    pod = made["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    container.update(image=form.image, **form.more)
    container["command"] = list(form.words)
    if not form.words:
        del container["command"]
    container["resources"]["requests"]["memory"] = f"{CORES * 300}Mi"
    pod["volumes"].append({"name": "venv", "hostPath": {"path": str(TALLY / name / "venv")}})
    container["volumeMounts"].append({"name": "venv", "mountPath": VENV})
    if not form.files:
        return made, None
    pod["volumes"].append({"name": "files", "configMap": {"name": name, "defaultMode": 0o755}})
    container["volumeMounts"].append({"name": "files", "mountPath": FILES})
    return made, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": dict(form.files)}


def rings_of(lines: list[str]) -> tuple[dict[int, int], list[str], list[str]]:
    """Of a log: launches of ``ring`` by their size, what is wrong with them, and all other lines."""
    others, found = [], []
    for line in lines:
        if line.startswith("rank="):
            found.append(dict(word.split("=", 1) for word in line.split()))
        else:
            others.append(line)
    launches, wrong = {}, []
    for size in sorted({int(one["size"]) for one in found}):
        ranks = [one for one in found if one["size"] == str(size)]
        launches[size] = len(ranks) // size
        for rank in range(size):
            mine = [one for one in ranks if one["rank"] == str(rank)]
            right = {"sum": str(size * (size + 1) // 2), "from": str((rank - 1) % size), "container": "yes"}
            if len(mine) != launches[size] or any({**one, **right} != one for one in mine):
                wrong.append(f"rank {rank} of {size}: {json.dumps(mine)}")
        nodes = {one["node"] for one in ranks}
        if not nodes <= set(NODES) or (size >= CORES and len(nodes) != 2):
            wrong.append(f"{size} ranks on {sorted(nodes)}")
    return launches, wrong, others
