"""The script reads a launcher's words as the decision does: bash and Python, side by side, on the same lines."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.script.completing import FORMAT, part_text
from router.workload.launcherline import StaysError, read_options
from router.workload.launcheroptions import MPIRUN, SRUN
from router.workload.shellwords import Word
from tests.script.nasty import NASTY

REFUSED = "refused"
UNKNOWN = "after which it cannot be told where the program starts; write it before another option, or leave it out"

READER = """
LC_ALL=C
cannot_start() { printf '%s\\0' refused "$2" end; exit 0; }
reading() {
	local said=$1 given=("$@") ranks='' per_node='' nodes='' cores='' mapping='' binding='' crowded='' workdir='' settings=() everywhere=() argv=()
	take_words
	printf '%s\\0' "$ranks" "$per_node" "$nodes" "$cores" "$mapping" "$binding" "$workdir" "${#settings[@]}" \\
		"${settings[@]}" "${argv[@]}" end
}
while IFS= read -r -d '' count; do
	all=()
	while ((count--)) && IFS= read -r -d '' word; do all+=("$word"); done
	(reading "${all[@]}")
done
"""
"""Reads counted words from its standard input, each ended by a zero byte, and prints what it has read of them."""


@dataclass(frozen=True)
class Read:
    """The reading of a launcher's words: figures as texts, empty where there are none."""

    ranks: str
    per_node: str
    nodes: str
    cores: str
    mapping: str
    binding: str
    directory: str
    variables: tuple[str, ...]
    program: tuple[str, ...]

    @classmethod
    def of(cls, plain: Sequence[str], variables: Sequence[str], program: Sequence[str]) -> Read:
        """The reading whose other fields are given as one sequence."""
        ranks, per_node, nodes, cores, mapping, binding, directory = plain
        return cls(ranks, per_node, nodes, cores, mapping, binding, directory, tuple(variables), tuple(program))


class Bash:
    """One process of bash that reads line after line."""

    def __init__(self) -> None:
        parts = "".join([part_text(FORMAT, name) for name in ("launchwords", "launcheroptions")])
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", f"{parts}\n{READER}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def read(self, words: Sequence[str]) -> Read | str:
        """What ``take_words`` makes of a launcher's name and words, or the sentence with which it refuses them."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"".join([f"{word}\0".encode() for word in (str(len(words)), *words)]))
        self._process.stdin.flush()
        answer = self._answer()
        if answer[0] == REFUSED:
            return answer[1]
        count = int(answer[7])
        return Read.of(answer[:7], answer[8 : 8 + count], answer[8 + count :])

    def _answer(self) -> list[str]:
        assert self._process.stdout is not None

        found = b""
        while not found.endswith(b"\0end\0"):
            found += os.read(self._process.stdout.fileno(), 1 << 16)
        return found.decode().split("\0")[:-2]

    def close(self) -> None:
        """End it."""
        self._process.communicate()


@pytest.fixture(scope="module")
def bash() -> Iterator[Bash]:
    found = Bash()
    yield found
    found.close()


def python(words: Sequence[str]) -> Read | str:
    """The same by the decision's reading."""
    try:
        found = read_options(words[0], [Word(word) for word in words[1:]], lambda word: word.text, "")
    except StaysError as error:
        return f"{words[0]} {error}"
    figures = (found.ranks, found.ranks_per_node, found.nodes, found.cores_per_rank)
    return Read.of(
        [
            *["" if figure is None else str(figure.value) for figure in figures],
            *(found.mapping, found.binding, found.working_dir),
        ],
        [f"{name}={value}" for name, value in found.environment if value is not None],
        [word.text for word in found.program],
    )


TABLE = {
    "plain": (("mpirun", "-np", "4", "ring", "-np", "2"), Read("4", "", "", "", "", "", "", (), ("ring", "-np", "2"))),
    "no figures": (("mpiexec", "ring"), Read("", "", "", "", "", "", "", (), ("ring",))),
    "leading zeros": (("mpirun", "-np", "08", "a"), Read("8", "", "", "", "", "", "", (), ("a",))),
    "after --": (("mpirun", "-n", "2", "--", "-a"), Read("2", "", "", "", "", "", "", (), ("-a",))),
    "variables": (
        ("mpirun", "-x", "A=1 2", "-x", "B", "-genv", "C", "3", "-env", "D=4", "-genvlist", "E,F", "a"),
        Read("", "", "", "", "", "", "", ("A=1 2", "C=3", "D=4"), ("a",)),
    ),
    "placement": (
        ("mpirun", "--map-by", "ppr:2:node:pe=3", "--bind-to", "core", "-wdir", "/data dir", "a"),
        Read("", "2", "", "3", "ppr:2:node:pe=3", "core", "/data dir", (), ("a",)),
    ),
    "hydra": (("mpiexec.hydra", "-ppn", "2", "-n", "4", "a"), Read("4", "2", "", "", "", "", "", (), ("a",))),
    "srun": (
        ("srun", "-N2", "-n4", "-c=2", "--export=ALL,A=1", "-D", "/w", "--cpu-bind=cores", "a"),
        Read("4", "", "2", "2", "", "cores", "/w", ("A=1",), ("a",)),
    ),
    "a value with a line break": (
        ("srun", "--export=A=1\n2,B=", "a"),
        Read("", "", "", "", "", "", "", ("A=1\n2", "B="), ("a",)),
    ),
    "no program": (("mpirun", "-np", "4"), "mpirun is followed by no program"),
    "no value": (("mpirun", "-np"), "mpirun has -np without its value"),
    "not a number": (
        ("mpirun", "-np", "x" * 50, "a"),
        f"mpirun has -np {'x' * 40}, which is not a whole number from 1 to 1000000",
    ),
    "nodes from to": (
        ("srun", "-N", "0-2", "a"),
        "srun has -N 0-2, where 0 is not a whole number from 1 to 1000000",
    ),
    "an unknown option": (
        ("mpirun", "--frob", "1", "a"),
        f"mpirun has the unknown option --frob, {UNKNOWN}",
    ),
    "several options in one": (("srun", "-ln4", "a"), "srun has -ln4, several options in one; write them apart"),
    "a value for a flag": (("srun", "--exclusive=user", "a"), Read("", "", "", "", "", "", "", (), ("a",))),
    "a file of programs": (("mpirun", "--app", "f"), "mpirun has --app, which is not one program on many ranks"),
    "a variable without a name": (("mpirun", "-x", "=1", "a"), "mpirun sets a variable without a name"),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_line_is_read(bash: Bash, name: str) -> None:
    words, expected = TABLE[name]

    assert bash.read(words) == expected
    assert python(words) == expected


COUNTS = st.sampled_from(["1", "4", "08", "0", "-1", "", "1000000", "1000001", "4x", "１", "2-4", "9" * 30])
VALUES = st.one_of(
    COUNTS,
    st.sampled_from(["ppr:2:node", "PPR:3:Node:PE=2", "ppr:x:node", "slot:pe=4", "A=1", "A", "=", "A=1,B=2", "NONE", ","]),
    st.sampled_from([one for one in NASTY if len(one) < 100]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6),
)  # fmt: skip


def options_of(table: Iterable[str]) -> st.SearchStrategy[list[str]]:
    """An option of a table, or nearly one, with a value in the next word, in the same one, or none."""
    name = st.one_of(st.sampled_from(sorted(table)), st.text("abnpxNZ:=-", max_size=3))
    dashed = st.tuples(st.sampled_from(["-", "--", "---"]), name).map("".join)
    return st.one_of(
        st.tuples(dashed, VALUES).map(list),
        st.tuples(dashed, VALUES).map(lambda both: ["=".join(both)]),
        st.tuples(dashed, VALUES).map(lambda both: ["".join(both)]),
        dashed.map(lambda one: [one]),
    )


def lines_of(programs: Sequence[str], table: Iterable[str]) -> st.SearchStrategy[list[str]]:
    """A launcher with options, then words of a program."""
    options = st.lists(options_of(table), max_size=5).map(lambda parts: [word for part in parts for word in part])
    program = st.lists(st.one_of(st.sampled_from(["ring", "--", "-np", "a:b"]), VALUES), max_size=3)
    line = st.tuples(st.sampled_from(programs), options, program).map(lambda parts: [parts[0], *parts[1], *parts[2]])
    return line.filter(lambda words: ":" not in words)  # several programs: each is read by itself


LINES = st.one_of(
    lines_of(("mpirun", "mpiexec", "mpiexec.hydra", "orterun"), MPIRUN),
    lines_of(("srun",), SRUN),
)


@given(line=LINES)
@settings(max_examples=500, deadline=None)
def test_bash_reads_as_python_does(bash: Bash, line: list[str]) -> None:
    assert bash.read(line) == python(line)
