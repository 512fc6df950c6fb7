"""Which launchers a container's words start, where, and what they ask for."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from router.workload.launches import find_launches, most
from router.workload.model import Container, ContainerKind, EnvVar, Figure
from router.workload.shelltree import LONGEST, MOST_OF_A_KIND, parse


def container(
    *words: str, env: dict[str, str | None] | None = None, cpu: int | None = None, **fields: Any
) -> Container:
    variables = tuple(EnvVar(name, value) for name, value in (env or {}).items())
    asked = None if cpu is None else Figure(cpu, "resources")
    return Container("main", ContainerKind.MAIN, "c", "image", words, env=variables, cpu=asked, **fields)


def found(text: str, **given_: Any) -> list[tuple[str, int, int, int | None]]:
    """Launcher, line, column and ranks of each launch of ``bash -c TEXT``."""
    launches = find_launches(container("bash", "-c", text, **given_)).launches
    return [(one.program, one.line, one.column, one.ranks.value if one.ranks else None) for one in launches]


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
    ("x && N=2; mpirun -np $N a", [("mpirun", 1, 11, 2)]),
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
    # no launches
    ("# mpirun -np 4 a", []),
    ("echo mpirun -np 4 a; which mpirun; command -v mpirun; type mpirun", []),
    ("cat > run.sh <<EOF\nmpirun -np 4 a\nEOF\n", []),
    ("bash <<EOF\nmpirun -np 4 a\nEOF\n", []),
    ("mpirun --version; mpirun -V; mpirun", []),
    ("x='mpirun -np 4'; ls mpirun.log ./mpirun-x", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TEXTS, ids=range(len(TEXTS)))
def test_launches_of_shell_text(text: str, expected: list[tuple[str, int, int, int | None]]) -> None:
    assert found(text, env=ENV, cpu=2500) == expected


@pytest.mark.parametrize(("text", "expected"), TEXTS, ids=range(len(TEXTS)))
def test_every_text_of_the_table_is_one_that_bash_takes(text: str, expected: object) -> None:
    done = subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False, timeout=20)
    assert (done.returncode, done.stderr) == (0, b"")


OTHERS = [
    (("mpirun", "-np", "4", "./a"), [("mpirun", "c.command[0]", 1, 1)]),
    (("timeout", "60", "tini", "--", "mpirun", "-np", "4", "./a"), [("mpirun", "c.command[4]", 1, 1)]),
    (("env", "A=b", "sh", "-ec", "x\nmpirun a"), [("mpirun", "c.command[4]", 2, 1)]),
    (("sh", "-o", "pipefail", "-c", "mpirun a"), [("mpirun", "c.command[4]", 1, 1)]),
    (("sh", "-c", '"$@"', "x", "mpirun", "a"), [("mpirun", "c.command[2]", 1, 1)]),
    (("sh", "-c", "exec $0 $1", "mpirun", "a"), [("mpirun", "c.command[2]", 1, 6)]),
    (("python3", "-c", "import os; os.system('mpirun a')"), []),
    (("echo", "mpirun", "a"), []),
]


@pytest.mark.parametrize(("words", "expected"), OTHERS, ids=range(len(OTHERS)))
def test_launches_of_words(words: tuple[str, ...], expected: list[tuple[str, str, int, int]]) -> None:
    launches = find_launches(container(*words)).launches
    assert [(one.program, one.field, one.line, one.column) for one in launches] == expected


OUT_OF_SIGHT = [
    ("bash run.sh 4", ("bash run.sh 4",)),
    ("./run.sh", ("./run.sh",)),
    ("bash <<EOF\nmpirun -np 4 a\nEOF\n", ("bash",)),
    ("cat run | sh -s", ("sh -s",)),
    ("ssh node mpirun a", ("ssh node mpirun a",)),
    ("su mpi -c 'mpirun -np 4 a'", ("su mpi -c mpirun -np 4 a",)),
    ("env -S 'mpirun a'", ("env -S mpirun a",)),
    ("trap 'mpirun a' EXIT", ("trap mpirun a EXIT",)),
    ('bash -c "$X"', ("bash -c …",)),
    (". ./env.sh; ./solver; python3 run.py", ()),
]


@pytest.mark.parametrize(("text", "scripts"), OUT_OF_SIGHT, ids=range(len(OUT_OF_SIGHT)))
def test_what_is_not_looked_into(text: str, scripts: tuple[str, ...]) -> None:
    found = find_launches(container("bash", "-c", text))
    assert (found.launches, found.scripts, found.unread) == ((), scripts, "")


def test_every_figure_with_its_place() -> None:
    text = "x\nsrun -N 2 --ntasks-per-node=4 -c 2 -n 8 ./a\nmpirun -np $N --map-by ppr:2:node:pe=3 b\n"
    one, other = find_launches(container("sh", "-c", text)).launches
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
    assert most([one, other], "ranks") == one.ranks
    assert most([], "ranks") is None


UNREAD = [
    ("mpirun a " + "x" * LONGEST, f"has more than {LONGEST} bytes"),
    ("mpirun a " + "|" * (MOST_OF_A_KIND + 1), f"has more than {MOST_OF_A_KIND} of the character '|'"),
    ("mpirun a; if", "has syntax that the parser does not know"),
    ("mpirun a \0", "has characters that no process takes"),
    ("( " * 200 + "mpirun a" + ")" * 200, "is nested too deeply"),
    ("x | if a; then " * 80 + "mpirun a" + "; fi" * 80, "is nested too deeply"),
    ("sh -c x;" * 9, "starts more than 8 shells"),
]


@pytest.mark.parametrize(("text", "unread"), UNREAD, ids=range(len(UNREAD)))
def test_why_a_text_is_not_looked_into(text: str, unread: str) -> None:
    assert find_launches(container("sh", "-c", text)).unread == unread


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
    ("x='mpirun -np 5 y' {end}", "", 0),
]
ENDS = [";", "\n", "&"]


@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(ENDS)), max_size=12))
@settings(max_examples=150, deadline=None)
def test_a_text_of_known_pieces_gives_their_launches(parts: list[tuple[tuple[str, str, int], str]]) -> None:
    text = ""
    for (piece, _, _), end in parts:
        text += piece.format(end="" if piece.startswith(("#", "cat")) else end) + "\n" * (end != "\n")
    expected = [(program, ranks) for (_, program, ranks), _ in parts if program]
    shells = sum(piece.startswith("bash") for (piece, _, _), _ in parts)
    assert [(one[0], one[3]) for one in found(text)] == expected or shells >= 8


TOKENS = ["$(", "(", ")", "{", "}", "[[", "]]", "`", '"', "'", "|", "&&", ";", "\n", "a ", "$a ", "${a:-", "}", "<<E\n", "E\n",
          "if ", "then ", "fi ", "for x in ", "do ", "done ", "case ", "esac ", "f() ", "mpirun -np ", "timeout ", "eval ", "sh -c ", "$((", "))", "=", "N=", "é"]  # fmt: skip


@given(st.one_of(st.text(max_size=200), st.lists(st.sampled_from(TOKENS), max_size=120).map("".join)))
@example("$(" * 8000)
@example("timeout")
@example("eval env " * 1000 + "mpirun a")
@example("mpirun " + "$(" * 256)
@settings(max_examples=400, deadline=None)
def test_no_text_is_too_strange(text: str) -> None:
    find_launches(container("bash", "-c", text, env=ENV, cpu=1000))


NASTY = [
    *[piece * (MOST_OF_A_KIND // piece.count(piece[0])) for piece in ("$(", "a|", "`", "a=(", "(", "<<E ", "{ ", "[[ ", ")", "<", "a}|", "@1", "${a:-")],
    ("${a:-" * MOST_OF_A_KIND + "a\n" * LONGEST)[:LONGEST],
    ("for a in 1 2 3 4 5 6 7 8; do " * 60 + "mpirun -np $a x; " + "done; " * 60),
    "x=aaaaaaaa; " + 'x="$x$x$x$x"; ' * 100 + "mpirun -np $x a",
    "f() { g; g; }; g() { h; h; }; h() { i; i; i; i; }; i() { mpirun a; }; " + "f; " * 250,
    "a\n" * (LONGEST // 2),
    "select " * 1170 + "-" * 8192,
]  # fmt: skip


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_hostile_texts_take_little_time(text: str) -> None:
    parse("a")  # loads the parser
    began = time.process_time()
    find_launches(container("bash", "-c", text))
    assert time.process_time() - began < 1.5  # a review may take 1 s; this machine may be slower than another
