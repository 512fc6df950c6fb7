"""Launchers inside a container: its text runs once, and what it starts by mpirun are ranks of the site's launcher."""

from __future__ import annotations

import os
import shutil
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bed.standing import layout
from router.site.schema import Site
from tests.script.builders import container, site, text_of, workload
from tests.script.nasty import NASTY
from tests.script.running import Pod
from tests.script.test_values import written

MPIRUN = shutil.which("mpirun")
HYDRA = shutil.which("mpiexec.hydra")
IMAGE = layout().image
pytestmark = [
    pytest.mark.mpi,
    pytest.mark.apptainer,
    pytest.mark.skipif(MPIRUN is None, reason="no mpirun on this machine"),
    pytest.mark.skipif(not IMAGE.exists(), reason="no image with Open MPI, as `make bed` makes it"),
]
# mpirun refuses root; only tests ever run it so.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.getuid() == 0 else {}
HOST = socket.gethostname()
PLACES = 4
MEBIBYTE = 1 << 20


@pytest.fixture(autouse=True)
def nodefile(pod: Pod) -> None:
    pod.environment.update(AS_ROOT, PBS_NODEFILE=str(pod.work / "nodefile"))
    (pod.work / "nodefile").write_text(f"{HOST}\n" * PLACES)


def where(*options: str, **profile: Any) -> Site:
    return site(
        "openpbs",
        images=[{"match": "mpi:*", "path": str(IMAGE)}],
        mpi=[{"name": "open-mpi", "launcher": "openmpi", **profile}],
        queue={"cpusPerNode": 8, "nodes": 2},
        runtimeOptions=list(options),
    )


def run(pod: Pod, text: str, *words: str, site: Site | None = None, **fields: Any) -> tuple[int, str]:
    """The exit code and the log of a Job whose text starts ranks; /out in it is ``out(pod)``."""
    command = ("bash", "-c", text, "bash", *words)
    main = container(*command, image="mpi:1", volumeMounts=[{"name": "out", "mountPath": "/out"}], **fields)
    made = workload(
        main,
        annotations={"batchgate.dev/ranks": str(PLACES), "batchgate.dev/nodes": "2"},
        volumes=[{"name": "out", "emptyDir": {}}],
    )
    return pod.run(text_of(made, site or where())), pod.log()


def out(pod: Pod) -> Path:
    return pod.path / "volumes" / "out"


SEEN = "which is not in the image: what a container writes outside volumes and /tmp is seen by itself alone; write it to one of them"
FAILED = """\
--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
"""

TABLE: dict[str, tuple[str, int, str]] = {
    "the text runs once, and its launcher starts ranks": (
        "export MODE=fast; cd /tmp && mpirun -np 3 sh -c 'echo $MODE $PWD of $OMPI_COMM_WORLD_SIZE' | tee log; wc -l <log",
        0,
        "fast /tmp of 3\n" * 3 + "3\n",
    ),
    "all places without a number": ("cd /tmp; mpirun echo a", 0, "a\n" * PLACES),
    "a loop": ("for i in 1 2; do mpiexec -n $i sh -c 'echo $OMPI_COMM_WORLD_SIZE'; done", 0, "1\n2\n2\n"),
    "so many on each node": ("mpirun -N 2 echo a; mpirun --map-by ppr:3:node echo b", 0, "a\n" * 2 + "b\n" * 3),
    "the code of a rank, seen by the text": (
        "mpirun -np 1 sh -c 'exit 3' 2>/tmp/err; echo $?; grep -c 'Exit code: *3' /tmp/err", 0, "3\n1\n",
    ),
    "the code of the text": ("mpirun -np 2 true; exit 9", 9, ""),
    "the code of the first rank that failed": (
        "mpirun -np 2 sh -c 'test $OMPI_COMM_WORLD_RANK = 1 && exit 4; sleep 60' 2>/dev/null; echo $?", 0, "4\n",
    ),
    "standard input": ("printf 'a\\nb\\n' | mpirun -np 2 cat", 0, "a\nb\n"),
    "input of one launch after another": ("printf 'a\\n' | mpirun -np 1 cat; echo b | mpirun -np 1 cat", 0, "a\nb\n"),
    "closed input": ("mpirun -np 2 cat <&-; echo $?", 0, "0\n"),
    "closed output": ("mpirun -np 1 true >&- 2>&-; echo $?", 0, "0\n"),
    "standard error apart": ("mpirun -np 1 sh -c 'echo out; echo err >&2' 2>/tmp/e; cat /tmp/e", 0, "out\nerr\n"),
    "a reader that has enough": ("mpirun -np 1 sh -c 'yes || :' 2>/dev/null | head -n 1", 0, "y\n"),
    "two at once": ("mpirun -np 2 echo a & mpirun -np 2 echo a & wait; echo end", 0, "a\n" * 4 + "end\n"),
    "too many": (
        "mpirun -np 9 true; echo $?", 0, "batchgate: the batch system gave places for 4 ranks, and 9 are to run\n1\n",
    ),
    "too many, as is wanted": ("cd /tmp; mpirun --oversubscribe -np 5 echo a", 0, "a\n" * 5),
    "limits and umask of the text": (
        "ulimit -S -s 4096; ulimit -S -n 333; umask 027; mpirun -np 1 sh -c 'ulimit -s; ulimit -n; umask'", 0,
        "4096\n333\n0027\n",
    ),
    "what the text installs": (
        "ln -s /bin/true /usr/local/bin/srun && srun && echo mine >/usr/bin/mpirun || mpirun -np 1 echo a", 0,
        "bash: line 1: /usr/bin/mpirun: Read-only file system\na\n",
    ),
    "too many, by the mapping": ("cd /tmp; mpirun --map-by slot:OVERSUBSCRIBE -np 5 echo a", 0, "a\n" * 5),
    "a login shell": ("exec bash -lc 'mpirun -np 2 echo a'", 0, "a\na\n"),
    "a path of one's own": ("cd /tmp; PATH=/opt/none /usr/bin/mpirun -np 2 /bin/echo a", 0, "a\na\n"),
    "hardly any environment": ("cd /tmp; A=1; env -i B=2 /usr/bin/mpirun -np 2 sh -c 'echo $A$B.'", 0, "2.\n2.\n"),
    "a launcher that the image lacks": ("srun -n 2 echo a && mpiexec.hydra -n 1 echo b", 0, "a\na\nb\n"),
    "python": ("python3 -c 'import subprocess; subprocess.run([\"mpirun\", \"-np\", \"2\", \"echo\", \"a\"])'", 0, "a\na\n"),
    "timeout": ("timeout -s TERM 2 mpirun -np 2 sleep 60 2>/dev/null; echo $?", 0, "124\n"),
    "timeout by INT": ("timeout -s INT 2 mpirun -np 2 sleep 60 2>/dev/null; echo $?", 0, "124\n"),
    "killed": ("mpirun -np 2 sleep 60 2>/dev/null & sleep 1; { kill -9 $!; wait $!; } 2>/dev/null; echo $?", 0, "137\n"),
    "an option's variables and directory": (
        "mkdir /tmp/w; mpirun -x A='x y' -x B=2 -wdir /tmp/w -np 1 sh -c 'echo $A $B $PWD'", 0, "x y 2 /tmp/w\n",
    ),
    "threads of a rank": ("echo $OMP_NUM_THREADS $(nproc); mpirun -np 1 sh -c 'echo $OMP_NUM_THREADS'", 0, "4 4\n1\n"),
    "threads that the text chooses": (
        "export OMP_NUM_THREADS=3; mpirun -np 1 sh -c 'echo $OMP_NUM_THREADS'", 0, "3\n",
    ),
    "a directory of the container's own": (
        "mkdir -p /w && cd /w && mpirun -np 2 true; echo $?", 0, f"batchgate: ranks cannot start in /w, {SEEN}\n1\n",
    ),
    "a program of the container's own": (
        "cp /bin/true /usr/local/bin/mine; mpirun -np 2 mine; echo $?", 0, f"batchgate: ranks have no mine, {SEEN}\n127\n",
    ),
    "words that are not understood": (
        "mpirun -np two true; echo $?", 0,
        "batchgate: mpirun has -np two, which is not a whole number from 1 to 1000000\n2\n",
    ),
    "several programs": (
        r"""export C=3; see='echo $OMPI_MCA_orte_app_num $A$B$C$D $PWD'; mkdir /tmp/w
        mpirun -genv D 4 -x A=1 -np 1 sh -c "$see" : -x B=2 -wdir /tmp/w -np 2 sh -c "$see" | sort""", 0,
        "0 134 /\n" + "1 234 /tmp/w\n" * 2,
    ),
    "several programs, one without its number": (
        "cd /tmp; mpirun -np 1 true : true; echo $?", 0,
        "batchgate: mpirun has several programs (':'), one of them without a number of ranks; write -np N before each\n2\n",
    ),
    "several programs, too many ranks": (
        "cd /tmp; mpirun -np 1 true : -np 4 true; echo $?", 0,
        "batchgate: the batch system gave places for 4 ranks, and 5 are to run\n1\n",
    ),
    "no program": ("mpirun -np 2; echo $?; mpirun -np 1 true", 0, "batchgate: mpirun is followed by no program\n2\n"),
    "the version": ("mpirun --version | head -n 1 | cut -d ' ' -f 1-3; mpirun -np 1 true", 0, "mpirun (Open MPI)\n"),
}  # fmt: skip
"""Text, exit code and log."""


@pytest.mark.parametrize("name", TABLE)
def test_a_text_that_starts_ranks(pod: Pod, name: str) -> None:
    text, code, log = TABLE[name]

    found = run(pod, text, resources={"requests": {"cpu": str(PLACES)}})

    assert found == (code, log)
    assert left(pod) == []


def test_two_at_once_share_no_directory(pod: Pod) -> None:
    """Open MPI 4 fails, some times in a thousand, where another launch has just removed the one that both have."""
    text = "for i in 1 2; do mpirun -np 1 printenv PMIX_SERVER_TMPDIR & done; wait"

    code, log = run(pod, text, resources={"requests": {"cpu": str(PLACES)}})

    places = {line.partition("/ompi.")[0] for line in log.splitlines()}
    assert (code, len(places), len(log.splitlines())) == (0, 2, 2), log


HYDRA_TABLE: dict[str, tuple[str, int, str]] = {
    "a pipe and a number": ("cd /tmp; mpirun -np 3 /bin/echo a | cat", 0, "a\n" * 3),
    "standard input": ("printf 'a\nb\n' | mpiexec.hydra -n 1 cat", 0, "a\nb\n"),
    "so many on each node": ("cd /tmp; mpiexec -ppn 2 /bin/echo a", 0, "a\n" * 2),
    "several programs": (
        "cd /tmp; mpirun -genv B 2 -np 1 -env A 1 printenv A B : -np 2 -env A 3 printenv A B | sort", 0, "1\n2\n2\n2\n3\n3\n",
    ),
    "the code of a rank": ("mpirun -np 1 false >/dev/null 2>&1; echo $?", 0, "1\n"),
    "timeout": ("timeout 2 mpirun -np 2 sleep 60 >/dev/null 2>&1; echo $?", 0, "124\n"),
}  # fmt: skip


@pytest.mark.skipif(HYDRA is None, reason="no mpiexec.hydra on this machine")
@pytest.mark.parametrize("name", HYDRA_TABLE)
def test_a_text_that_starts_ranks_under_hydra(pod: Pod, name: str) -> None:
    text, code, log = HYDRA_TABLE[name]

    assert run(pod, text, site=where(launcher="hydra", path=HYDRA)) == (code, log)
    assert left(pod) == []


def left(pod: Pod) -> list[str]:
    """What a launch has left in the Pod's directory and the job's own."""
    return [path.name for path in (*pod.path.glob("launches*"), *pod.work.glob("batchgate.*"))]


def test_ranks_have_the_environment_of_the_launcher(pod: Pod) -> None:
    env = [{"name": f"N{number}", "value": written(value)} for number, value in enumerate(NASTY)]
    text = (
        "hello() { echo hello; }; export -f hello; export HOME=/out; export LINES=$'a\\nb'\n"
        "env 'dotted.name=1 2' mpirun -np 2 bash -c 'env -0 >/out/env.$OMPI_COMM_WORLD_RANK; hello'"
    )

    assert run(pod, text, env=env) == (0, "hello\nhello\n")

    for rank in range(2):
        entries = (out(pod) / f"env.{rank}").read_bytes().split(b"\0")[:-1]
        found = dict(entry.split(b"=", 1) for entry in entries)
        assert [found[f"N{number}".encode()] for number in range(len(NASTY))] == [value.encode() for value in NASTY]
        assert [found[name] for name in (b"HOME", b"LINES", b"dotted.name")] == [b"/out", b"a\nb", b"1 2"]


def test_ranks_have_the_words_of_the_launcher(pod: Pod) -> None:
    words = [written(value) for value in NASTY]
    text = 'mpirun -np 2 sh -c \'printf "%s\\0" "$$@" >/out/argv.$OMPI_COMM_WORLD_RANK\' sh "$$@"'

    assert run(pod, text, *words) == (0, "")

    for rank in range(2):
        assert (out(pod) / f"argv.{rank}").read_bytes().split(b"\0")[:-1] == [value.encode() for value in NASTY]


def test_the_entrypoint_of_the_image_starts_ranks(pod: Pod) -> None:
    entry = pod.work / "entry"
    entry.write_text('#!/bin/sh\necho "entry $*"; cd /tmp && mpirun -np "$1" /bin/echo a | cat\n')
    entry.chmod(0o755)
    made = workload(
        container(image="mpi:1", args=["3"]),
        annotations={"batchgate.dev/ranks": str(PLACES), "batchgate.dev/nodes": "2"},
    )

    code = pod.run(text_of(made, where("--bind", f"{entry}:/.singularity.d/runscript")))

    assert (code, pod.log()) == (0, "entry 3\n" + "a\n" * 3)


def test_an_environment_of_300_kilobytes(pod: Pod) -> None:
    text = (
        "for i in 1 2 3; do export BIG$i=$(head -c 100000 /dev/zero | tr '\\0' x); done\n"
        "mpirun -np 2 sh -c 'echo ${#BIG1} ${#BIG2} ${#BIG3}'"
    )

    assert run(pod, text) == (0, "100000 100000 100000\n" * 2)


def test_input_and_output_of_50_megabytes(pod: Pod) -> None:
    text = (
        f"head -c {50 * MEBIBYTE} /dev/urandom >/out/in\n"
        "mpirun -np 1 cat </out/in >/out/out && cmp /out/in /out/out && echo same\n"
        "rm /out/in /out/out"
    )

    assert run(pod, text) == (0, "same\n")


def test_20_launches_at_once(pod: Pod) -> None:
    found = run(pod, "for i in $(seq 20); do mpirun -np 1 echo $i & done; wait; echo end")

    assert found[0] == 0
    assert Counter(found[1].split()) == Counter([*map(str, range(1, 21)), "end"])
    assert left(pod) == []


def test_200_launches_one_after_another(pod: Pod) -> None:
    text = "for i in $(seq 200); do mpirun -np 1 echo $i || exit; done; ls -d /run/batchgate/[0-9]* 2>/dev/null | wc -l"

    assert run(pod, text) == (0, "".join([f"{number}\n" for number in range(1, 201)]) + "0\n")
    assert left(pod) == []


def test_an_image_without_cat_says_so(pod: Pod) -> None:
    lacking = where("--bind", "/dev/null:/usr/bin/cat")

    assert run(pod, "mpirun -np 2 echo a; echo $?", site=lacking) == (
        0,
        "batchgate: mpirun cannot start ranks: the image has no cat, which hands on words and output\n127\n",
    )
