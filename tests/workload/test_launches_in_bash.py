"""What is found in shell text, held against bash: the launches are those that it makes, and it takes what is parsed."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from router.workload.launches import find_launches
from router.workload.model import Container, ContainerKind, EnvVar
from router.workload.shellbudget import ShellBudget
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
    # what sets variables in other ways
    "((N=16))",
    "((N++))",
    "let N=7",
    'let "N = 8"',
    "printf -v N 9",
    "declare N=4",
    "declare -i N=2+3",
    "declare -n M=N",
    "readonly M=3",
    "export N",
    "local M=5",
    "N=11 &\nwait",
    "N=12 | cat",
    "read N M <<< '13 14'",
    ": ${M:=15} $((N=17))",
    "[[ $((M = 4)) -gt 1 ]]",
    "case ${M:=4} in x) N=9;; esac",
    "cat <<E >/dev/null\n${M:=9}\nE",
    "A=(4 5)\nA[0]=6\nN=${A[0]}",
    "N+=1",
    "false && N=9",
    "true || N=9",
    "if false; then :; elif N=4; then :; else N=5; fi",
    "for i in 1 2 3; do [ $i = 2 ] && break; N=$i; done",
    "for i in 1 2; do [ $i = 1 ] && continue; N=5; mpirun -np $N @; done",
    "while [ ${N:-9} -lt 4 ] 2>/dev/null; do N=$((N + 2)); mpirun -np $N @; done",
    "i=0; while [ $((i += 1)) -lt 4 ]; do mpirun -np $N @; N=$i; done",
    "set_n() { N=6; }",
    "set_local() { local N=7; mpirun -np $N @; }",
    'early() { [ "$N" = 3 ] && return; N=8; }',
    "set_n",
    "set_local",
    "early",
    "grow() { mpirun -np ${1:-2} @; [ ${1:-2} -lt 5 ] && grow $((${1:-2} + 1)); }",
    "grow",
    "[ $# -gt 0 ] && while [ $# -gt 0 ]; do mpirun -np $1 @; shift; done",
    "set -- $N ${M:-3}",
    "set -e -- 6 5 && set +e",
    "shift 2",
    "N=5 bash -c 'mpirun -np $N @'",
    "N=5 eval 'mpirun -np $N @'",
    "bash -c 'mpirun -np ${M:-7} @'",
    "env N=6 bash -c 'mpirun -np $N @'",
    "env -u N bash -c 'mpirun -np ${N:-2} @'",
    # quoted, as another statement's IFS=2 would split the process ID into those of others
    "trap 'N=9' USR1; kill -USR1 \"$$\"",
    "IFS=2; x='-np 3'",
    "unset IFS",
    "mpirun -np ${PPID:-3} @",
    "RANDOM=5; mpirun -np $RANDOM @",
    "f1() { N=4; }; f1 | cat",
    "{ N=5; } > /dev/null",
    "if true; then N=4 & fi; wait",
    "x1() { shift; mpirun -np ${1:-2} @; }; x1 3 4",
    "f2() { set -- 5 6; }; f2",
    "for N in 1 2; do :; done",
    "for N in 1 2; do mpirun -np $N @; done",
    "while read N; do mpirun -np $N @; done <<< $'2\\n5'",
    "N=$(echo 5)",
    "mapfile -t M <<< 7",
    "unset -v N",
    "declare -x N=3",
    "export -n N",
    "N=4 true",
    "N=4 :",
    "N=4 set_n",
    "N=4 mpirun -np $N @",
    "command eval N=5",
    "builtin read N <<< 7",
    "command export N=9",
    '"declare" N=8',
    "builtin declare M=8",
    "N=",
    "mpirun -np ${N:+4} @",
    "mpirun -np ${#N} @",
    "mpirun -np ${N%1}5 @",
    "z=N; mpirun -np ${!z} @",
    'mpirun -np "$((N + 0))" @',
    "mpirun -np $N$M @",
    "(( N > 2 )) && N=9",
    "[[ $N =~ [0-9] ]]; mpirun -np ${BASH_REMATCH:-4} @",
    "a=5 b=$a; mpirun -np $b @",
    "mpirun -np ${1:-$N} @",
    "f3() { N=$1; mpirun -np $N @; }; f3 4; f3 2",
    "f4() { for j in 1 2; do N=$j; return; done; }; f4",
    "f5() { unset N; local N=9; }; f5",
    "f6() { local N=9; f7; }; f7() { mpirun -np $N @; N=4; }; f6",
    "f8() { declare -g N=6; }; f8",
    "case x in x) N=3;& y) N=4;; esac",
    "case x in x) N=3;;& *) M=4;; esac",
    "until [ 1 = 1 ]; do N=3; done",
    "N=2 && M=3 || N=7",
    "{ N=2; false; } && M=3 || N=7",
    "! N=6",
    "if N=5; then mpirun -np $N @; fi",
    "while N=6; do mpirun -np $N @; break; done",
    "x=$N; N=9; mpirun -np $x @",
    "exec 4>&1",
    "bash -c 'N=8; mpirun -np $N @'; mpirun -np $N @2",
    "bash -c 'mpirun -np $# @' a b c",
    "bash -c 'mpirun -np ${2:-$1} @' a 3 4",
    'eval "N=\\$((N+1))"',
    "eval 'for N in 2 3; do mpirun -np $N @; done'",
    "trap 'N=9' EXIT",
    "trap 'N=9' ERR; false; trap - ERR",
    "f9() { N=$((N+1)); mpirun -np $N @; }; f9; f9; f9",
    "N=4; readonly N",
    "set -a; M=7; bash -c 'mpirun -np ${M:-2} @'; set +a",
    "env -i N=3 bash -c 'mpirun -np $N @' 2>/dev/null",
    "let N++",
    "N=$[N+1]",
    "mpirun -np $[N+1] @",
    "mpirun -np $(( N > 1 ? 5 : 6 )) @",
    "mpirun -np $((N=5, N+1)) @",
    "mpirun -np $((N--)) @",
    "mpirun -np $((010)) @",
    "mpirun -np $((0x10)) @",
    "mpirun -np $((2**3)) @",
    "mpirun -np $((-N + 5)) @",
    "mpirun -np 1{0,1} @",
    "mpirun -np '4' @",
    "mpirun -np \\4 @",
    "mpirun -np $'5' @",
    "time N=5",
    "coproc N=5; wait",
    "wait -p N",
    "getopts ab N -a",
    "OPTIND=3; mpirun -np $OPTIND @",
    "declare N; mpirun -np ${N:-4} @",
    "f10() { declare N; mpirun -np ${N:-4} @; }; f10",
    "M=5; unset M; bash -c 'mpirun -np ${M:-3} @'",
    "N=5; bash -c 'mpirun -np ${N:-3} @'",
    "printf -vN 8",
    'printf -v "N" 8',
    "read -r -p x N <<< 5",
    "read -a M <<< '5 6'",
    "IFS=0; N=305; set -- $N; unset IFS",
    "set -- 3 -- 5",
    "set 7 8",
    "set - 9",
    "set -o pipefail 4",
    "shift; shift",
    "shift 9",
    "alias N=5",
    "shopt -s lastpipe; echo 8 | read N",
    "function f11 { N=3; return 1; N=4; }; f11",
    "f12() { N=7; exit; }; (f12)",
    'f13() { if [ "$1" = a ]; then N=8; return; fi; N=2; }; f13 a',
    "for i in 1 2 3; do for j in 1 2; do [ $j = 2 ] && continue 2; N=$i; done; N=9; done",
    "for i in 1 2; do f14() { N=$i; }; done; f14",
    "f15() { f15() { N=5; }; N=4; }; f15; f15",
    "(f16() { N=5; }); f16; mpirun -np $N @",
    "if false; then f17() { mpirun -np 9 @; }; else f17() { mpirun -np 3 @2; }; fi; f17",
    # launchers by other ways
    "mpirun > /dev/null -np 3 @ 2>&1",
    "bash -c -- 'mpirun -np 4 @'",
    "bash -c -e 'mpirun -np 4 @'",
    'eval "mpirun -np 4" @',
    'eval "$(echo mpirun -np 4 @)"',
    "echo mpirun -np 4 @ | bash",
    "echo 'mpirun -np 4 @' > $D/r; bash $D/r",
    "cat > $D/r <<'E'\nmpirun -np 4 @\nE\n. $D/r",
    "bash <<E\nmpirun -np $N @\nE",
    "$(echo mpirun) -np 4 @",
    "Y=mpirun; $Y -np 5 @",
    "IFS=:; Y=mpirun:-np:4:@; $Y; unset IFS",
    "shopt -s expand_aliases\nalias m='mpirun -np 4'\nm @",
    "mpirun() { command mpirun -np 6 @; }; mpirun -np 3 x; unset -f mpirun",
    'each() { "$@"; }; each mpirun -np 4 @',
    'set -- mpirun -np 3 @; "$@"',
    "trap 'mpirun -np 3 @' EXIT",
    "{ mpirun -np 3 @; } &\nwait",
    "time mpirun -np 3 @",
    "coproc mpirun -np 3 @; wait",
    "exec 3>&1; mpirun -np 4 @ >&3",
    "xargs mpirun -np 4 <<< @",
    "env -S 'mpirun -np 4 @'",
    "find / -maxdepth 0 -exec mpirun -np 4 @ ';'",
    "timeout 9 exec mpirun -np 4 @",
    "! mpirun -np 4 @",
    "[ -x mpirun ] || type mpirun >/dev/null",
]
OVER = ("while [ ${N:-9}", "[ $# -gt 0 ]", "run $N ||")
"""Statements of which more is followed than may run, so that more ranks than started may be found."""
LAUNCHER = '#!/bin/bash\nprintf \'%s\\n\' "$*" >>"$LOG"\n'


def started_by_bash(text: str, folder: Path) -> dict[str, int]:
    """The programs that bash starts by the launcher, each with its most ranks; 0 without a number."""
    (folder / "mpirun").write_text(LAUNCHER)
    (folder / "mpirun").chmod(0o755)
    log = folder / "log"
    log.touch()
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "LOG": str(log), "N": "1", "D": str(folder)}
    subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    started: dict[str, int] = {}
    for line in log.read_text().splitlines():
        words = line.split(" ")
        ranks = int(words[1]) if words[0] == "-np" and words[1].isdigit() else 0
        started[words[-1]] = max(ranks, started.get(words[-1], 0))
    return started


@given(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=10))
@settings(max_examples=250, deadline=None)
def test_launches_are_those_of_bash_or_unread_and_known_ranks_are_right(statements: list[str]) -> None:
    text = "\n".join(
        [one.replace("@2", f"./q{number}").replace("@", f"./p{number}") for number, one in enumerate(statements)]
    )
    with tempfile.TemporaryDirectory() as folder:
        started = started_by_bash(text, Path(folder))

    environment = (EnvVar("N", "1"), EnvVar("D", None))
    container = Container("main", ContainerKind.MAIN, "c", "i", ("bash", "-c", text), env=environment)
    found = find_launches(container, ShellBudget())
    known = {one.words[-1]: one.ranks.value for one in found.launches if one.words and one.ranks and not one.unknown}

    if not (found.unread or found.scripts):
        assert set(started) <= {one.words[-1] for one in found.launches if one.words}
    right = {name: ranks for name, ranks in started.items() if name in known}
    over = {
        f"./p{number}"
        for number, one in enumerate(statements)
        if one.startswith(OVER) or "()" in one or "function" in one or "while" in one
    }
    assert {name: known[name] for name in right if name not in over} == {
        name: ranks for name, ranks in right.items() if name not in over
    }
    assert all(known[name] >= ranks for name, ranks in right.items())


AROUND = [
    "if true; then @; fi",
    "if @; then :; fi",
    "if false; then :; elif @; then :; else @; fi",
    "for i in 1 2; do @; done",
    "for ((i = 0; i < 1; i++)); do @; done",
    "while @; do break; done",
    "until ! @; do break; done",
    "case a in a) @;; esac",
    "case $(@) in *) :;; esac",
    "(@)",
    "{ @; }",
    "f() { @; }; f",
    "function g { @; }; g",
    "h() (@); h; h",
    "{ @; } | cat",
    "true | { @; }",
    "! { @; }",
    "{ @; } &\nwait",
    "true && { @; } || false",
    "false || { @; }",
    "x=$(@)",
    "x=`true; @`",
    "x=($(@))",
    ": ${NOT:-$(@)}",
    ': "$(@)"',
    "cat <(@)",
    "echo a > >(@); sleep 0.1",
    "cat <<E\n$(@)\nE",
    "cat <<< $(@)",
    "[[ -z $(@) ]]",
    '[ -z "$(@)" ]',
    "((1 + $(@ >/dev/null; echo 1)))",
    "export X=$(@)",
    "local X=$(@)",
    "A=$(@) true",
    "true > $(@; echo /dev/null)",
    "time { @; }",
    "coproc { @; }; wait",
    "eval '@'",
    "bash -c '@'",
    "sh -c '@'",
    "env X=1 bash -ec '@' x y",
    "trap '@' EXIT",
    "{ @; } > $D/log2 2>&1",
    "{ @; } 2>&1 | tee $D/log2",
    "cat > $D/s <<'E'\n@\nE\nbash $D/s",
    "echo '@' > $D/s; . $D/s",
    "echo '@' | sh",
    "bash <<'E'\n@\nE",
    "x='@'; eval \"$x\"",
    "x='@'; $x",
    'set -- @; "$@"',
    'y() { "$@"; }; y @',
    "echo '@'",
    "# @",
    "printf '%s' '@' >&2",
    "find . -maxdepth 0 -exec @ ';'",
    "xargs -I{} @ <<< 1",
    "timeout 9 nice -n 1 @",
    "command @",
    "exec @",
]
INSIDE = ["mpirun -np 3 ./p", "$(echo mpirun) ./p", "mpirun > /dev/null ./p", "echo mpirun", "/usr/bin/env mpirun ./p"]


@given(st.lists(st.sampled_from(AROUND), max_size=3), st.sampled_from(INSIDE))
@settings(max_examples=250, deadline=None)
def test_no_launcher_that_bash_starts_is_passed_over(around: list[str], text: str) -> None:
    for one in around:
        text = one.replace("@", text)
    with tempfile.TemporaryDirectory() as folder:
        started = started_by_bash(text, Path(folder))

    container = Container("main", ContainerKind.MAIN, "c", "i", ("bash", "-c", text), env=(EnvVar("D", None),))

    assert find_launches(container, ShellBudget()) or "./p" not in started, text


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
