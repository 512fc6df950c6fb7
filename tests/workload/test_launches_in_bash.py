"""What is found in shell text, held against bash: the launches are those that it makes, and it takes what is parsed."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from router.workload.launches import find_launches
from router.workload.model import Container, ContainerKind, EnvVar
from router.workload.shelltree import parse

STATEMENTS = [
    "N=3",
    "N=$((N + 1))",
    "export M=$N",
    "unset M",
    "set -- 8 2",
    "shift",
    "read N <<< 6",
    "eval N=5",
    "eval 'N=4; M=2'",
    'x="-np 2 -x A"',
    "if true; then N=4; fi",
    "if false; then N=9; else M=3; fi",
    "true && N=2",
    "false || N=7",
    "while false; do N=8; done",
    "(N=9)",
    "run() { mpirun -np $1 @; }",
    "run 7",
    "run $N || :",
    "mpirun -np $N @",
    'mpirun -np "${M:-5}" @',
    "mpirun -np ${M:=6} @",
    "mpirun -np $((N * 2)) @ | cat",
    "mpirun $x @",
    "mpirun -np $1 @",
    "A=1 timeout 9 env B=2 mpirun -np 3 @ >/dev/null",
    "for i in 1 2; do N=$((N + i)); mpirun -np $N @; done",
    "for i in 3 $N; do mpirun -np $i @; done",
    "(N=9; mpirun -np $N @)",
    "{ N=2; mpirun -np $N @; }",
    "case $N in 3) mpirun -np 3 @;; *) N=1;; esac",
    "y=$(mpirun -np 2 @)",
    "bash -c 'mpirun -np $1 @' x 6",
    'bash -c "mpirun -np $N @"',
    "cat <<E\nmpirun -np 99 @\nE",
    "echo mpirun -np 99 @",
    "# mpirun -np 99 @",
]
LAUNCHER = '#!/bin/bash\nprintf \'%s\\n\' "$*" >>"$LOG"\n'


@given(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=10))
@settings(max_examples=120, deadline=None)
def test_known_ranks_are_those_with_which_bash_starts_the_launcher(statements: list[str]) -> None:
    text = "\n".join([one.replace("@", f"./p{number}") for number, one in enumerate(statements)])
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mpirun").write_text(LAUNCHER)
        (Path(folder) / "mpirun").chmod(0o755)
        log = Path(folder) / "log"
        log.touch()
        environment = {"PATH": f"{folder}:/usr/bin:/bin", "LOG": str(log), "N": "1"}
        subprocess.run(["bash", "-c", text], env=environment, capture_output=True, check=False, timeout=60)
        calls = [line.split(" ") for line in log.read_text().splitlines()]
    started: dict[str, int] = {}
    for words in calls:
        ranks = int(words[1]) if words[0] == "-np" and words[1].isdigit() else 0
        started[words[-1]] = max(ranks, started.get(words[-1], 0))

    container = Container("main", ContainerKind.MAIN, "c", "i", ("bash", "-c", text), env=(EnvVar("N", "1"),))
    launches = find_launches(container).launches
    found = {one.words[-1]: one.ranks.value for one in launches if one.ranks and not one.unknown}

    assert set(started) <= {one.words[-1] for one in launches}
    assert {name: ranks for name, ranks in found.items() if name in started} == {
        name: ranks for name, ranks in started.items() if name in found
    }


ORDINARY = [
    'echo "x $Y ${Z:-1}"', "cd /w && ls *.dat || exit 1", 'export A=1 B="$C"', ". /opt/env.sh", "x=$(date +%s)",
    "[ -f a ] && b", "[[ $a == b* ]]", "((i++))", "cat a | grep -v '#' | sort -u", "a > out 2> err", "a &> log",
    "a >> log 2>&1 &", "wait $!", 'printf "%s\\n" "${arr[@]}"', "arr=(a b c)", "trap 'rm -f x' EXIT", "set -euxo pipefail",
    "ulimit -s unlimited", "echo ${x%%.*} ${y#a} ${#z} ${x/a/b} ${x^^}", "python3 - <<'EOF'\nprint(1)\nEOF",
    "cat > f <<EOF\na $B\nEOF", "diff <(a) <(b)", 'eval "$(conda shell.bash hook)"', "module load openmpi/4.1", "declare -A m=([a]=1)",
    "exec 3>&1", "! grep -q x y", "HOSTS=`cat /h | tr '\\n' ','`", "echo {1..4} {a,b}", "a \\\n  -b \\\n  -c", "a # $( \" '",
    "awk '{print $1}' f", "echo \"a\\\"b\" 'c'\\''d'", 'echo "$(echo "$(echo x)")"', "kill -0 $! 2>/dev/null",
]  # fmt: skip
FRAMES = [
    "{}",
    "if [ -f a ]; then\n{}\nelse\nb\nfi",
    "for i in 1 2 $X; do\n{}\ndone",
    "while read l; do\n{}\ndone < f",
    "f() {{\n{}\n}}",
    "(\n{}\n)",
    "case $x in\na|b) c;;\n*)\n{}\n;;\nesac",
]


@given(st.lists(st.tuples(st.sampled_from(FRAMES), st.sampled_from(FRAMES), st.sampled_from(ORDINARY)), max_size=6))
@settings(max_examples=150, deadline=None)
def test_the_parser_knows_what_people_write(parts: list[tuple[str, str, str]]) -> None:
    text = "\n".join([outer.format(inner.format(one)) for outer, inner, one in parts])

    assert not isinstance(parse(text), str), text
