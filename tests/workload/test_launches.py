"""Which launchers a container's words start, where, and what they ask for."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from router.workload import workload_of
from router.workload.launches import find_launches
from router.workload.model import Container, ContainerKind, EnvVar, Figure, Known, Workload
from router.workload.shellbudget import MOST_BYTES, MOST_CHARACTERS, MOST_STEPS, ShellBudget
from router.workload.shelltree import LONGEST, MOST_DRAWN, MOST_OF_A_KIND, parse
from tests.workload.manifests import annotated, job
from tests.workload.manifests import container as manifest


def container(
    *words: str, env: dict[str, str | None] | None = None, cpu: int | None = None, **fields: Any
) -> Container:
    variables = tuple(EnvVar(name, value) for name, value in (env or {}).items())
    asked = None if cpu is None else Figure(cpu, "resources")
    return Container("main", ContainerKind.MAIN, "c", "image", words, env=variables, cpu=asked, **fields)


def found(text: str, **given_: Any) -> list[tuple[str, int, int, int | None]]:
    """Launcher, line, column and ranks of each launch of ``bash -c TEXT``."""
    launches = find_launches(container("bash", "-c", text, **given_), ShellBudget()).launches
    return [(one.name, one.line, one.column, one.ranks.value if one.ranks else None) for one in launches]


ENV: dict[str, str | None] = {"NP": "16", "ARGS": "-n 6 -x A", "EMPTY": "", "LATER": None}

TEXTS = [
    ("mpirun -np 8 ./a", [("mpirun", 1, 1, 8)]),
    ("set -e\ncd /w && mpirun -np 8 ./a | tee log\n", [("mpirun", 2, 10, 8)]),
    (". /opt/env.sh; mpiexec.hydra -n 4 a >out 2>&1 &\nwait", [("mpiexec.hydra", 1, 16, 4)]),
    ("/opt/ompi/bin/mpirun -np 2 a && srun -n 3 b || orterun -n 4 c", [("mpirun", 1, 1, 2), ("srun", 1, 33, 3), ("orterun", 1, 48, 4)]),
    ("if test -f in; then mpirun -np 2 a in; else mpirun -np 3 a; fi", [("mpirun", 1, 21, 2), ("mpirun", 1, 45, 3)]),
    ("(cd w; mpirun -np 5 a)", [("mpirun", 1, 8, 5)]),
    ("{ mpirun -np 5 a; }", [("mpirun", 1, 3, 5)]),
    ("! mpirun -np 5 a", [("mpirun", 1, 3, 5)]),
    ("x=$(mpirun -np 5 a)", [("mpirun", 1, 5, 5)]),
    ("echo `mpirun -np 5 a`", [("mpirun", 1, 7, 5)]),
    ("cat <(mpirun -np 5 a)", [("mpirun", 1, 7, 5)]),
    ("mpirun -np 4 a < in", [("mpirun", 1, 1, 4)]),
    ("mpirun -np 4 a <<< x", [("mpirun", 1, 1, 4)]),
    ("mpirun -np 4 lmp <<EOF\nrun 10\nEOF\n", [("mpirun", 1, 1, 4)]),
    ("é; mpirun -np 4 a", [("mpirun", 1, 4, 4)]),
    ("mpirun \\\n  -np \\\n  4 a", [("mpirun", 1, 1, 4)]),
    ("case $x in a) mpirun -n 1 a;; *) mpirun -n 2 a;; esac", [("mpirun", 1, 15, 1), ("mpirun", 1, 34, 2)]),
    # wrappers
    ("exec timeout -k 5 -s TERM 600 mpirun -np 4 a", [("mpirun", 1, 31, 4)]),
    ("A=1 env -u B C=2 nice -n 5 setsid -w stdbuf -oL time -p mpirun -np 4 a", [("mpirun", 1, 57, 4)]),
    ("tini -s -- taskset -c 0-3 numactl --interleave=all mpirun -np 4 a", [("mpirun", 1, 52, 4)]),
    ("sudo -u mpi OMP=1 mpirun -np 4 a; gosu mpi mpirun -np 2 b", [("mpirun", 1, 19, 4), ("mpirun", 1, 44, 2)]),
    # values
    ("mpirun -np $NP a", [("mpirun", 1, 1, 16)]),
    ('mpirun -np "${NP}" a', [("mpirun", 1, 1, 16)]),
    ("mpirun -np $(NP) a", [("mpirun", 1, 1, 16)]),
    ("mpirun -np $(nproc) a", [("mpirun", 1, 1, 3)]),
    ("mpirun -np `nproc` a", [("mpirun", 1, 1, 3)]),
    ("mpirun -np $(nproc --all) a", [("mpirun", 1, 1, None)]),
    ("mpirun -np ${N:-8} a", [("mpirun", 1, 1, 8)]),
    ("mpirun -np ${EMPTY:-8} a", [("mpirun", 1, 1, 8)]),
    ("mpirun -np ${NP:-8} a", [("mpirun", 1, 1, 16)]),
    ("mpirun -np ${N:-$NP} a", [("mpirun", 1, 1, 16)]),
    (": ${N:=8}; mpirun -np $N a", [("mpirun", 1, 12, 8)]),
    ("mpirun -np $((NP * 2 + 1)) a", [("mpirun", 1, 1, 33)]),
    ("mpirun -np $(( ($NP - 4) / 2 )) a", [("mpirun", 1, 1, 6)]),
    ("mpirun -np $N a", [("mpirun", 1, 1, None)]),
    ("mpirun -np $LATER a", [("mpirun", 1, 1, None)]),
    ("N=8; mpirun -np $N a", [("mpirun", 1, 6, 8)]),
    ("export N=8 M=$NP; mpirun -np $M a", [("mpirun", 1, 19, 16)]),
    ("N=8; unset N; mpirun -np ${N-2} a", [("mpirun", 1, 15, 2)]),
    ("read N; mpirun -np $N a", [("mpirun", 1, 9, None)]),
    ("(N=8); mpirun -np ${N:-2} a", [("mpirun", 1, 8, 2)]),
    ("if x; then N=2; else N=3; fi; mpirun -np $N a", [("mpirun", 1, 31, None)]),
    ("if x; then N=2; else N=2; fi; mpirun -np $N a", [("mpirun", 1, 31, None)]),
    ("x && N=2; mpirun -np $N a", [("mpirun", 1, 11, None)]),
    ("cd w && N=2 && mpirun -np $N a", [("mpirun", 1, 16, 2)]),
    ("N=1; x || N=2; mpirun -np $N a", [("mpirun", 1, 16, None)]),
    ("mpirun $ARGS ./a", [("mpirun", 1, 1, 6)]),
    ('mpirun "$ARGS" ./a', [("mpirun", 1, 1, None)]),
    ('RUN="mpirun -np 4"; $RUN ./a', [("mpirun", 1, 21, 4)]),
    ("eval mpirun -np 4 ./a", [("mpirun", 1, 6, 4)]),
    ("set -- 5 6; mpirun -np $2 a", [("mpirun", 1, 13, 6)]),
    ("echo $(LATER); mpirun -np 4 a", [("mpirun", 1, 16, 4)]),
    ("mpirun -np $$NP '$(NP)' a", [("mpirun", 1, 1, 16)]),
    ("mpirun $(ARGS) a", [("mpirun", 1, 1, 6)]),
    # loops
    ("for n in 1 2 16 4; do mpirun -np $n a; done", [("mpirun", 1, 23, 16)]),
    ("for n in $(seq 4); do mpirun -np $n a; done", [("mpirun", 1, 23, None)]),
    ("N=1; for i in a b c; do N=$((N * 2)); mpirun -np $N x; done", [("mpirun", 1, 39, 8)]),
    ("N=1; while x; do mpirun -np $N a; N=$((N + 1)); done", [("mpirun", 1, 18, None)]),
    ("while read f; do mpirun -np 2 a $f; done", [("mpirun", 1, 18, 2)]),
    ("for ((n=1; n<9; n++)); do mpirun -np $n a; done", [("mpirun", 1, 27, None)]),
    # functions
    ("run() { mpirun -np $1 a; }\nrun 4\nrun 8\n", [("mpirun", 1, 9, 8)]),
    ("run() { mpirun -np 4 a; }\ntrap run EXIT", [("mpirun", 1, 9, 4)]),
    ("f() { f; mpirun -np 4 a; }; f", [("mpirun", 1, 10, 4)]),
    # shells in shells
    ("sh -ec 'x; mpirun -np 3 a'", [("mpirun", 1, 12, 3)]),
    ('bash -lc "mpirun -np $NP a"', [("mpirun", 1, 10, 16)]),
    ("bash -c 'mpirun -np $1 a' run 7", [("mpirun", 1, 10, 7)]),
    ("eval 'N=3; mpirun -np 3 a'; mpirun -np $N b", [("mpirun", 1, 12, 3), ("mpirun", 1, 29, 3)]),
    ('bash -c "x; mpirun -np 4 $A; N=3; mpirun -np $N b"', [("mpirun", 1, 13, 4), ("mpirun", 1, 35, None)]),
    # several programs
    ("mpirun -np 2 a : -np 3 b", [("mpirun", 1, 1, 5)]),
    ("mpirun -np 2 a : b", [("mpirun", 1, 1, None)]),
    # redirections between the words
    ("mpirun > log -np 4 ./a", [("mpirun", 1, 1, 4)]),
    ("mpirun 2>&1 -np 4 ./a", [("mpirun", 1, 1, 4)]),
    ("mpirun > log -np 4 2> err ./a < in x", [("mpirun", 1, 1, 4)]),
    ("> log mpirun -np 4 ./a", [("mpirun", 1, 7, 4)]),
    ("mpirun -np 4 <<E > out ./a\nx\nE\n", [("mpirun", 1, 1, 4)]),
    ("until ! mpirun > log -np 4 ./a; do x; done", [("mpirun", 1, 9, 4)]),
    ("x && mpirun > log -np 4 ./a", [("mpirun", 1, 6, 4)]),
    # options between a shell and its text
    ("bash -c -- 'mpirun -np 4 a'", [("mpirun", 1, 13, 4)]),
    ("bash -c -e 'mpirun -np 4 a'", [("mpirun", 1, 13, 4)]),
    ("bash -ceo pipefail +x 'mpirun -np 4 a'", [("mpirun", 1, 24, 4)]),
    ("sh -c - 'mpirun -np 4 a'", [("mpirun", 1, 10, 4)]),
    # texts that are made of words
    ('eval "mpirun -np 4" ./a', [("mpirun", 1, 6, 4)]),
    ("time eval mpirun -np 4 ./a", [("mpirun", 1, 11, 4)]),
    ("trap 'mpirun -np 4 a' EXIT", [("mpirun", 1, 7, 4)]),
    # names through variables and parameters
    ('M=mpirun; RUN="$M -np 4"; $RUN ./a', [("mpirun", 1, 27, 4)]),
    ('set -- mpirun -np 4; "$@" ./a', [("mpirun", 1, 22, 4)]),
    ('run() { "$@"; }; run mpirun -np 4 ./a', [("mpirun", 1, 9, 4)]),
    ("for m in mpirun mpiexec; do $m -n 4 a; done", [("mpirun", 1, 29, 4)]),
    ("export M=mpirun; bash -c '$M -np 3 a'", [("mpirun", 1, 27, 3)]),
    # what sets variables
    ("((N=16)); mpirun -np $N a", [("mpirun", 1, 11, None)]),
    ("let N=16; mpirun -np $N a", [("mpirun", 1, 11, None)]),
    ("printf -v N 16; mpirun -np $N a", [("mpirun", 1, 17, None)]),
    ("N=2; read N <<<16; mpirun -np $N a", [("mpirun", 1, 20, None)]),
    ("N=2; f() { local N=5; }; f; mpirun -np $N a", [("mpirun", 1, 29, None)]),
    ("N=2; f() { N=5; }; f; mpirun -np $N a", [("mpirun", 1, 23, 5)]),
    ("f() { local N=5; mpirun -np $N a; }; f", [("mpirun", 1, 18, 5)]),
    ("declare N=5; mpirun -np $N a", [("mpirun", 1, 14, 5)]),
    ("declare -i N=2+3; mpirun -np $N a", [("mpirun", 1, 19, None)]),
    ("declare -n R=N; N=2; R=5; mpirun -np $N a", [("mpirun", 1, 27, None)]),
    ("readonly N=2; mpirun -np $N a; N=3; mpirun -np $N b", [("mpirun", 1, 15, 2), ("mpirun", 1, 37, None)]),
    ("N=2; N=5 & mpirun -np $N a", [("mpirun", 1, 12, 2)]),
    ("N=2; echo 5 | read N; mpirun -np $N a", [("mpirun", 1, 23, None)]),
    ("N=2; mpirun -np $((N=5)) a; mpirun -np $N b", [("mpirun", 1, 6, None), ("mpirun", 1, 29, None)]),
    ("A=(4 5); A[0]=3; mpirun -np ${A[0]} a; mpirun -np $A b", [("mpirun", 1, 18, None), ("mpirun", 1, 40, None)]),
    ("N=2; [ ${M:=5} ]; mpirun -np ${M:-3} a", [("mpirun", 1, 19, None)]),
    ("N=2; f() { if x; then return; fi; N=5; }; f; mpirun -np $N a", [("mpirun", 1, 46, None)]),
    ("N=2; for i in a b; do x && break; N=5; done; mpirun -np $N a", [("mpirun", 1, 46, None)]),
    ("N=1; f() { N=8; }; while x; do mpirun -np $N a; f; done", [("mpirun", 1, 32, None)]),
    ("set -- 2 8; while [ $# -gt 0 ]; do mpirun -np $1 a; shift; done", [("mpirun", 1, 36, None)]),
    ("f() { mpirun -np $1 a; x && f $(($1 * 2)); }; f 1", [("mpirun", 1, 7, 1)]),
    ("N=3; N=5 bash -c 'mpirun -np $N a'", [("mpirun", 1, 19, 5)]),
    ("N=3; bash -c 'mpirun -np ${N:-8} a'", [("mpirun", 1, 15, None)]),
    ("env NP=5 sh -c 'mpirun -np $NP a'; env -u NP sh -c 'mpirun -np ${NP:-2} b'", [("mpirun", 1, 17, 5), ("mpirun", 1, 53, None)]),
    ("zsh -c 'A=\"-np 4\"; mpirun $A a'", [("mpirun", 1, 20, None)]),
    ("mpirun -np ${SLURM_NTASKS:-4} a; mpirun -np ${PPID:-4} b", [("mpirun", 1, 1, None), ("mpirun", 1, 34, None)]),
    ("set -- $X 5; mpirun -np ${2:-4} a", [("mpirun", 1, 14, None)]),
    ("OMP_NUM_THREADS=2; mpirun -np $(nproc) a", [("mpirun", 1, 20, None)]),
    # no launches
    ("# mpirun -np 4 a", []),
    ("echo mpirun -np 4 a; which mpirun; command -v mpirun; type mpirun", []),
    ("cat <<EOF\nmpirun -np 4 a\nEOF\n", []),
    ("echo mpirun && b > f", []),
    ("echo mpirun >&2; which mpirun >/dev/null 2>&1 || exit 1", []),
    ("[ -x /usr/bin/mpirun ] && [[ -x /usr/bin/mpirun ]] && test -x mpirun", []),
    ("mpirun --version; mpirun -V; mpirun", []),
    ("ls mpirun.log ./mpirun-x /opt/mpirun/lib", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TEXTS, ids=range(len(TEXTS)))
def test_launches_of_shell_text(text: str, expected: list[tuple[str, int, int, int | None]]) -> None:
    assert found(text, env=ENV, cpu=2500) == expected
    started = find_launches(container("bash", "-c", text, env=ENV, cpu=2500), ShellBudget())
    assert (started.scripts, started.unread) == ((), ())


OPEN = [
    # what is made when it runs
    ("cat > run.sh <<EOF\nmpirun -np 4 a\nEOF\n", (2, 1)),
    ("cat > run.sh <<EOF\nmpirun -np 4 a\nEOF\nbash run.sh", (2, 1)),
    ("bash <<EOF\nmpirun -np 4 a\nEOF\n", (2, 1)),
    ("cat <<EOF | bash\nmpirun -np 4 a\nEOF\n", (2, 1)),
    ("printf 'mpirun -np 4 a' | sh", (1, 9)),
    ("echo 'mpirun -np 4 a' > f; . ./f", (1, 7)),
    ("{ echo mpirun -np 4 a; } > f", (1, 8)),
    ("exec > f\necho mpirun", (2, 6)),
    ("b && echo mpirun > f", (1, 11)),
    ("b && { echo mpirun; } > f", (1, 13)),
    ("x=$(which mpirun); $x -np 4 a", (1, 11)),
    ("$(echo mpirun) -np 4 a", (1, 8)),
    ("nice $(echo mpirun) -np 4 a", (1, 13)),
    ("for m in $(echo mpirun); do $m a; done", (1, 17)),
    ("time { $(echo mpirun) a; }", (1, 15)),
    ("printf -v X mpirun; $X -np 4 a", (1, 13)),
    ("hash -p /usr/bin/mpirun m; m -np 4 a", (1, 18)),
    # variables, functions, aliases
    ("x='mpirun -np 4'", (1, 4)),
    ("IFS=:; X=mpirun:-np:4:a; $X", (1, 10)),
    ("alias m='mpirun -np 4'; m a", (1, 10)),
    ("mpirun() { echo no; }; a", (1, 1)),
    ("log() { echo x; }; log mpirun", (1, 24)),
    ("M=mpirun; bash -c '$M -np 3 a'", (1, 3)),
    # commands that may start it
    ("ssh node mpirun a", (1, 10)),
    ("su mpi -c 'mpirun -np 4 a'", (1, 12)),
    ("env -S 'mpirun a'", (1, 9)),
    ("time -p { mpirun a; }", (1, 11)),
    ("$X mpirun a", (1, 4)),
    ("for p in echo strace; do $p mpirun a; done", (1, 29)),
    ('bash -c "$X mpirun $Y"x', (1, 13)),
    ('eval "$X mpirun"', (1, 10)),
    ("case mpirun in x) y;; esac", (1, 6)),
    ("a > mpirun", (1, 5)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place"), OPEN, ids=range(len(OPEN)))
def test_a_launcher_that_may_run_makes_the_text_unread(text: str, place: tuple[int, int]) -> None:
    started = find_launches(container("bash", "-c", text), ShellBudget())
    assert started.launches == ()
    assert [(one.what, one.line, one.column) for one in started.unread] == [
        ("names mpirun where it is open whether it runs", *place)
    ]


def test_a_function_that_takes_a_launchers_place_is_followed_and_told() -> None:
    started = find_launches(
        container("bash", "-c", 'mpirun() { command mpirun -np 64 "$@"; }; mpirun ./a'), ShellBudget()
    )
    assert [(one.column, one.ranks and one.ranks.value) for one in started.launches] == [(20, 64)]
    assert [(one.line, one.column) for one in started.unread] == [(1, 1), (1, 43)]


def test_a_launcher_in_a_variable_is_found_or_unread() -> None:
    env: dict[str, str | None] = {"M": "mpirun -np 4", "RUN": "$(M) ./a", "T": "x; mpirun -np 3 ./b | cat"}

    def seen(*words: str) -> tuple[list[object], list[object]]:
        started = find_launches(container(*words, env=env), ShellBudget())
        return [(a.name, a.field, a.line, a.column, a.ranks and a.ranks.value) for a in started.launches], [
            one.place for one in started.unread
        ]

    assert seen("sh", "-c", "$RUN") == ([("mpirun", "c.command[2]", 1, 1, 4)], [])
    assert seen("sh", "-c", "$(RUN)") == ([("mpirun", "c.command[2]", 1, 1, 4)], [])
    assert seen("sh", "-c", "$(T)") == ([("mpirun", "c.command[2]", 1, 4, 3)], [])
    assert seen("sh", "-c", "echo $M") == ([], ["c.env[0].value, line 1, column 1"])
    assert seen("sh", "-c", "echo") == ([], [])


WAYS = [
    ("mpirun -np 4 a $X", Known.WRITTEN, 4),
    ("N=4; mpirun -np $N a", Known.VALUES, 4),
    ("mpirun -np $(nproc) a", Known.VALUES, 3),
    ("mpirun a", Known.NOT_GIVEN, None),
    ("mpirun -np $X a", Known.UNKNOWN, None),
    ("for n in 2 $X; do mpirun -np $n a; done", Known.UNKNOWN, None),
    ("mpirun --app file | tee x", Known.UNKNOWN, None),
    ("mpiexec -configfile file", Known.UNKNOWN, None),
    ("mpirun -np 2 --app=file", Known.UNKNOWN, 2),
    ("mpirun --app $X", Known.UNKNOWN, None),
    ("f() { mpirun $* a; }; f", Known.UNKNOWN, None),
    ('f() { mpirun "$@" a; }; f; f -np 3', Known.UNKNOWN, 3),
]


@pytest.mark.parametrize(("text", "known", "ranks"), WAYS, ids=range(len(WAYS)))
def test_in_which_way_ranks_are_known(text: str, known: Known, ranks: int | None) -> None:
    (launch,) = find_launches(container("bash", "-c", text, cpu=2500), ShellBudget()).launches
    assert (launch.known, launch.ranks and launch.ranks.value) == (known, ranks)


@pytest.mark.parametrize(("text", "expected"), TEXTS, ids=range(len(TEXTS)))
def test_every_text_of_the_table_is_one_that_bash_takes(text: str, expected: object) -> None:
    done = subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")


OTHERS = [
    (("mpirun", "-np", "4", "./a"), [("mpirun", "c.command[0]", 1, 1)]),
    (("timeout", "60", "tini", "--", "mpirun", "-np", "4", "./a"), [("mpirun", "c.command[4]", 1, 1)]),
    (("env", "A=b", "sh", "-ec", "x\nmpirun a"), [("mpirun", "c.command[4]", 2, 1)]),
    (("sh", "-o", "pipefail", "-c", "mpirun a"), [("mpirun", "c.command[4]", 1, 1)]),
    (("sh", "-c", '"$@"', "x", "mpirun", "a"), [("mpirun", "c.command[2]", 1, 1)]),
    (("sh", "-c", "exec $0 $1", "mpirun", "a"), [("mpirun", "c.command[2]", 1, 6)]),
    (("mpirun", "--app", "file"), [("mpirun", "c.command[0]", 1, 1)]),
    (("mpirun", "--app"), []),
    (("mpirun", "--version"), []),
    (("python3", "-c", "import os; os.system('mpirun a')"), []),
    (("echo", "mpirun", "a"), []),
]
OPEN_WORDS = [
    (("python3", "-c", "import os; os.system('mpirun a')"), "c.command[2], line 1, column 23"),
    (("/entrypoint.sh", "mpirun", "a"), "c.command[1], line 1, column 1"),
    (("sh", "-c", 'ssh n "$@"', "x", "mpirun", "a"), "c.command[4], line 1, column 1"),
    (("sh", "-c", "x", "y", "z mpirun a"), "c.command[4], line 1, column 3"),
    (("sh", "/cfg/run", "mpirun", "a"), "c.command[2], line 1, column 1"),
]


@pytest.mark.parametrize(("words", "place"), OPEN_WORDS, ids=range(len(OPEN_WORDS)))
def test_a_word_that_may_start_a_launcher_is_unread(words: tuple[str, ...], place: str) -> None:
    started = find_launches(container(*words), ShellBudget())
    assert (started.launches, [one.place for one in started.unread]) == ((), [place])


@pytest.mark.parametrize(("words", "expected"), OTHERS, ids=range(len(OTHERS)))
def test_launches_of_words(words: tuple[str, ...], expected: list[tuple[str, str, int, int]]) -> None:
    launches = find_launches(container(*words), ShellBudget()).launches
    assert [(one.name, one.field, one.line, one.column) for one in launches] == expected


OUT_OF_SIGHT = [
    ("bash run.sh 4", ("bash run.sh 4",)),
    ("cat run | sh -s", ("sh -s",)),
    ("curl x | bash", ("bash",)),
    ('bash -c "$X"', ("bash -c …",)),
    ('eval "$(cat /cfg/run)"', ("eval …",)),
    ("bash -c", ("bash -c",)),
    ("./run.sh 4; ./run 4; /cfg/run.bash", ()),
    (". ./env.sh; ./solver; python3 run.py", ()),
    ("cd /w; export A=1; . /cfg/run.sh", (". /cfg/run.sh",)),
    ("source /cfg/run.sh 4; exit", ("source /cfg/run.sh 4",)),
    ("mkdir -p /w; . /cfg/run.sh; ./solver", ()),
    ("./solver; . /cfg/after.sh", ()),
    ("csh -f /cfg/run.csh", ("csh -f /cfg/run.csh",)),
]


@pytest.mark.parametrize(("text", "scripts"), OUT_OF_SIGHT, ids=range(len(OUT_OF_SIGHT)))
def test_what_is_not_looked_into(text: str, scripts: tuple[str, ...]) -> None:
    found = find_launches(container("bash", "-c", text), ShellBudget())
    assert (found.launches, tuple([one.what for one in found.scripts]), found.unread) == ((), scripts, ())


def test_every_figure_with_its_place() -> None:
    text = "x\nsrun -N 2 --ntasks-per-node=4 -c 2 -n 8 ./a\nmpirun -np $N --map-by ppr:2:node:pe=3 b\n"
    one, other = find_launches(container("sh", "-c", text), ShellBudget()).launches
    where = "in c.command[2], line 2"
    assert (one.ranks, one.ranks_per_node, one.nodes, one.cores_per_rank, one.unknown) == (
        Figure(8, f"srun -n 8 {where}"),
        Figure(4, f"srun --ntasks-per-node 4 {where}"),
        Figure(2, f"srun -N 2 {where}"),
        Figure(2, f"srun -c 2 {where}"),
        "",
    )
    assert (other.ranks, other.ranks_per_node and other.ranks_per_node.value, other.cores_per_rank and other.cores_per_rank.value) == (None, 2, 3)  # fmt: skip
    assert other.unknown == "has -np with a value that is known only when it runs"
    assert other.words == ("-np", None, "--map-by", "ppr:2:node:pe=3", "b")
    assert (one.known, other.known) == (Known.WRITTEN, Known.UNKNOWN)


UNREAD = [
    ("mpirun a " + "x" * LONGEST, f"has more than {LONGEST} bytes"),
    ("mpirun a " + "|" * (MOST_OF_A_KIND + 1), f"has more than {MOST_OF_A_KIND} of the character '|'"),
    ("mpirun a " + "#" * (MOST_DRAWN + 1), f"has more than {MOST_DRAWN} of the character '#'"),
    ("mpirun a " + "-" * (MOST_DRAWN + 1), f"has more than {MOST_DRAWN} of the character '-'"),
    ("mpirun a; if", "has syntax that the parser does not know"),
    ("mpirun a \0", "has characters that no process takes"),
    ("( " * 200 + "mpirun a" + ")" * 200, "is nested too deeply"),
    ("x | if a; then " * 80 + "mpirun a" + "; fi" * 80, "is nested too deeply"),
    (
        "eval '" + "x;" * 100 + "mpirun a '" + "a" * (LONGEST - 300),
        f"brings the shell texts of the Job to more than {MOST_BYTES} bytes",
    ),
    ("mpirun a; " + "b\n" * 8000, f"takes more than {MOST_STEPS} steps to follow"),
    (
        "for a in 1 2 3 4 5 6 7 8; do " * 40 + "x; " + "done; " * 40 + "mpirun a",
        f"takes more than {MOST_STEPS} steps to follow",
    ),
    ("set -- a b; " + 'set -- "$@" "$@"; ' * 30 + "mpirun a", f"takes more than {MOST_STEPS} steps to follow"),
    (
        "x=" + "a" * 1000 + "; for i in 1 2 3 4 5 6 7 8 9; do " + "echo $x; " * 240 + "done; mpirun a",
        f"makes words of more than {MOST_CHARACTERS} characters",
    ),
    ("echo $((1" + "-1" * 300 + ")); mpirun a", "is nested too deeply"),
    ("echo " + "${a:-" * 200 + "}" * 200 + "; mpirun a", "is nested too deeply"),
]


@pytest.mark.parametrize(("text", "unread"), UNREAD, ids=range(len(UNREAD)))
def test_why_a_text_is_not_looked_into(text: str, unread: str) -> None:
    (one,) = find_launches(container("sh", "-c", text), ShellBudget()).unread
    assert one.what == unread


BANNERS = [
    ("#" * 80 + "\n") * 4,
    "#" * 1000 + "\n",
    ("# " + "*" * 76 + " #\n") * 20,
    ("echo '" + "*" * 70 + "'\n") * 5,
    ("# " + "─" * 100 + "\n") * 9,
    ("echo '" + "═" * 100 + "'\n") * 9,
    ("echo '" + "=" * 70 + "'\n# " + "-" * 90 + "\n") * 9,
]


@pytest.mark.parametrize("banner", BANNERS, ids=range(len(BANNERS)))
def test_a_text_with_banners_is_read(banner: str) -> None:
    assert found(f"{banner}mpirun -np 4 ./a | tee log\n{banner}") == [("mpirun", banner.count("\n") + 1, 1, 4)]


@pytest.mark.parametrize("character", ["#", "*"])
def test_single_characters_of_banners_are_counted(character: str) -> None:
    text = f"mpirun a {character} " + f"{character} " * MOST_OF_A_KIND
    assert parse(text) == f"has more than {MOST_OF_A_KIND} of the character {character!r}"


def test_one_budget_holds_for_all_texts_of_a_job() -> None:
    budget = ShellBudget()
    text = "mpirun -np 2 a\n" + "# " + "x" * (LONGEST * 2 // 3)
    first, again, other = [find_launches(container("sh", "-c", one), budget) for one in (text, text, text + "x")]
    assert (len(first.launches), first.unread) == (1, ())
    assert again == first  # the same text is parsed once
    assert other.launches == ()
    assert [one.what for one in other.unread] == [f"brings the shell texts of the Job to more than {MOST_BYTES} bytes"]


def test_the_parser_gets_ascii_as_its_scanner_reads_beyond_a_table_otherwise() -> None:
    text = "[[ -\U00106da5 ]]; mpirun -np 4 ./\u00e9 \U00026365"
    root = parse(text)
    assert not isinstance(root, str)
    assert root.text == b"[[ -.... ]]; mpirun -np 4 ./.. ...."
    assert found(text) == [("mpirun", 1, 11, 4)]


def test_half_of_a_character_is_not_parsed() -> None:
    assert parse("mpirun a \ud800") == "has characters that no process takes"


def test_a_job_without_shell_text_loads_no_parser() -> None:
    program = (
        "import sys; from router.workload import workload_of; from tests.workload.manifests import mpi; "
        "workload_of(mpi('mpirun', '-np', '2', './a'), namespace='n'); workload_of(mpi('sh', '-c', 'x'), namespace='n'); "
        "print([name for name in sys.modules if name.startswith('tree_sitter')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


PIECES = [
    ("mpirun -np 4 ./a {end}", "mpirun", 4),
    ("A=1 timeout 60 mpiexec -n 3 ./b {end}", "mpiexec", 3),
    ("srun --ntasks=7 ./c | tee log {end}", "srun", 7),
    ("if x; then orterun -np 2 d; fi {end}", "orterun", 2),
    ("for i in 1 2; do prterun -n $i e; done {end}", "prterun", 2),
    ("(cd /w && mpirun -n 9 f) > out {end}", "mpirun", 9),
    ("bash -c 'mpirun -np 6 g' {end}", "mpirun", 6),
    ("echo mpirun -np 4 {end}", "", 0),
    ("# mpirun -np 5 x {end}\n", "", 0),
    ("cat <<EOF {end}\nmpirun -np 5 x\nEOF\n", "", 0),
]
ENDS = [";", "\n", "&"]


@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(ENDS)), max_size=12))
@settings(max_examples=150, deadline=None)
def test_a_text_of_known_pieces_gives_their_launches(parts: list[tuple[tuple[str, str, int], str]]) -> None:
    text = ""
    for (piece, _, _), end in parts:
        text += piece.format(end="" if piece.startswith(("#", "cat")) else end) + "\n" * (end != "\n")
    expected = [(program, ranks) for (_, program, ranks), _ in parts if program]
    assert [(one[0], one[3]) for one in found(text)] == expected


TOKENS = ["$(", "(", ")", "{", "}", "[[", "]]", "`", '"', "'", "|", "&&", ";", "\n", "a ", "$a ", "${a:-", "}", "<<E\n", "E\n",
          "if ", "then ", "fi ", "for x in ", "do ", "done ", "case ", "esac ", "f() ", "mpirun -np ", "timeout ", "eval ", "sh -c ", "$((", "))", "=", "N=", "é",
          "set -- ", '"$@" ', "$@ ", "f ", "> l ", "2>&1 ", "trap ", "local ", "unset f ", "& "]  # fmt: skip
WHOLE = [
    "for a in 1 2 3 4 5 6 7 8; do", "done;", 'set -- "$@" "$@" a b;', 'for b in "$@"; do', "f() { g; g; };", "g() { h; h; };", "h() { f; mpirun $@; };", "f;",
    'x="$x$x$x$x";', "while read a; do", "mpirun -np $x $@;", 'eval "$@";', 'bash -c "$x" "$@";', "if f; then", "fi;", "(", ")", "{", "}", "x=aaaaaaaa;", "f &", "h a b c;",
]  # fmt: skip


def cost(text: str) -> tuple[int, int]:
    """Steps and characters that a text of ``bash -c`` took. It must end in launches or in a reason, without an error."""
    budget = ShellBudget()
    find_launches(container("bash", "-c", text, env=ENV, cpu=1000), budget)
    return MOST_STEPS - budget.steps, MOST_CHARACTERS - budget.characters


@given(st.one_of(st.text(max_size=200), st.lists(st.sampled_from(TOKENS), max_size=120).map("".join)))
@example("$(" * 8000)
@example("timeout")
@example("eval env " * 1000 + "mpirun a")
@example("mpirun " + "$(" * 256)
@example("srun -A A $(V) -A")
@settings(max_examples=400, deadline=None)
def test_no_text_is_too_strange(text: str) -> None:
    cost(text)


WORDS = ["", "''", "-", "--", "---", "-=", "=", "-n", "-n4", "-n=", "-np", "-N", "-c", "-A", "-A=", "A", "4", "x=1", ":", "-x", "-xA", "-H", "-host", "--host=",
         "--map-by", "ppr:2:node", "--bind-to", "$(V)", "$V", '"$V"', "$@", "-$V", "--mpi=pmix", "--app", "--multi-prog", "-w", "-l", "-lN2", "é"]  # fmt: skip


@given(
    st.sampled_from(["mpirun", "mpiexec", "mpiexec.hydra", "srun", "prterun"]),
    st.lists(st.sampled_from(WORDS), max_size=6),
)
@settings(max_examples=400, deadline=None)
def test_no_words_of_a_launcher_are_too_strange(program: str, words: list[str]) -> None:
    cost(f"cd /x; {' '.join([program, *words])}")


@given(st.lists(st.sampled_from(WHOLE), max_size=250).map(" ".join))
@settings(max_examples=300, deadline=None)
def test_the_work_on_a_text_is_bounded(text: str) -> None:
    steps, characters = cost(text)
    assert steps <= MOST_STEPS + 4 * LONGEST  # the last node is counted before its children are looked at
    assert characters <= MOST_CHARACTERS + LONGEST


NASTY = [
    *[piece * (MOST_OF_A_KIND // piece.count(piece[0])) for piece in ("$(", "a|", "`", "a=(", "(", "<<E ", "{ ", "[[ ", ")", "<", "a}|", "@1", "${a:-")],
    ("${a:-" * MOST_OF_A_KIND + "a\n" * LONGEST)[:LONGEST],
    ("& " * 8 + "!(? " * 128 + "*" * LONGEST)[:LONGEST],
    ("|" * 64 + "#" * LONGEST)[:LONGEST],
    ("if ${#" + "-" * LONGEST)[:LONGEST],
    ("a " + "*" * 60 + "#" * 60 + "\n") * (LONGEST // 123),
    ("_" * 60 + "\u2500" * 60 + "$(( ") * (LONGEST // 244),
    "for a in 1 2 3 4 5 6 7 8; do " * 60 + "mpirun -np $a x; " + "done; " * 60,
    "for a in 1 2 3 4 5 6 7 8; do " * 60 + "done; " * 60,
    "for a in 1 2 3 4 5 6 7 8; do " * 60 + ":; " + "done; " * 60 + "mpirun a",
    "x=aaaaaaaa; " + 'x="$x$x$x$x"; ' * 100 + "mpirun -np $x a",
    "f() { g; g; }; g() { h; h; }; h() { i; i; i; i; }; i() { mpirun a; }; " + "f; " * 200,
    "a\n" * (LONGEST // 2),
    "a " * (LONGEST // 2),
    "a=1 " * (LONGEST // 4),
    "select " * 1170 + "-" * 8192,
    "set -- a b; " + 'set -- "$@" "$@"; ' * 100 + 'mpirun "$@"',
    "set -- " + "a " * 500 + "; " + 'for a in "$@"; do ' * 20 + 'mpirun "$@"; ' + "done; " * 20,
    "set -- " + "a " * 500 + '; mpirun "$@" ' + '"$@" ' * 120,
    "a=1; " + "".join([f"a{number}=1\n" for number in range(1400)]) + "(a)\n" * 100,
    "while a; do " * 80 + "b=1\n" * 1000 + "done; " * 80,
    "mpirun " * 2300,
    "for a in 1 2 3 4 5 6 7 8; do " * 4 + "x " + "mpirun " * 2000 + "; done" * 4,
    "for a in 1 2 3 4 5 6 7 8 9; do for b in 1 2 3 4 5 6 7 8 9; do for c in 1 2 3 4 5 6 7 8 9; do " + 'eval "x$a$b$c=mpirun"; ' * 2 + "done; done; done",
    "x=mpirun\n" * 1800,
    "true && " * 120 + "mpirun a",
    "echo $((1" + "-1" * 8000 + "))",
    "echo " + "${a:-" * 250 + "}" * 250,
    "echo " + "$(" * 120 + "a" + ")" * 120,
    "a " * 4000 + "> b " + "c " * 4000,
    "".join([f"f{number}() {{ f{number + 1} > a; }}\n" for number in range(110)]) + "f0; mpirun a",
    "".join([f"e{number}='eval \"$e{number + 1}\"'\n" for number in range(60)]) + 'eval "$e0"; mpirun a',
    "".join([f"export e{number}='bash -c \"$e{number + 1}\"'\n" for number in range(60)]) + 'bash -c "$e0"; mpirun a',
]  # fmt: skip
LINES = [
    (head + drawn * (MOST_DRAWN - head.count(drawn)) + "a" * LONGEST)[:LONGEST]
    for head in ("|" * 64, "if ${#", "a=(" * 100)
    for drawn in "#-"
]


def spent(work: Callable[[], object]) -> float:
    """The processor time of some work, in that of a million squares: so a busy or slow machine changes little."""
    times = [time.process_time()]
    for one in (squares, work, squares):
        one()
        times.append(time.process_time())
    before, taken, after = (end - begin for begin, end in pairwise(times))
    return taken / max(before, after)


def squares() -> int:
    """Some 50 ms."""
    return sum(number * number for number in range(1_000_000))


@pytest.mark.parametrize("text", [*NASTY, *LINES], ids=range(len(NASTY) + len(LINES)))
def test_hostile_texts_take_bounded_work_and_little_time(text: str) -> None:
    parse("a")  # loads the parser
    found: list[tuple[int, int]] = []
    # 1.5 s where a unit is 50 ms: a review may take 1 s. Other processes slow one measurement, but hardly each.
    assert any(spent(lambda: found.append(cost(text))) < 30 for _ in range(5))
    steps, characters = found[0]
    assert steps <= MOST_STEPS + 4 * LONGEST
    assert characters <= MOST_CHARACTERS + LONGEST


def test_a_job_of_many_hostile_texts_takes_the_time_of_one() -> None:
    parse("a")
    texts = [text + f"\nmpirun {number}" for number, text in enumerate(NASTY * 3)]
    made = job(*[manifest(f"c{number}", command=["bash", "-c", text]) for number, text in enumerate(texts)])
    found: list[Workload] = []
    asked = annotated(made, {"batchgate.dev/ranks": "4"})
    assert spent(lambda: found.append(workload_of(asked, namespace="n"))) < 20
    (sized,) = found
    assert sized.obstacles
    assert all(one.started and one.started.unread for one in sized.containers[-10:])
