"""Every option of every launcher, written in every way and with too few or too many values: understood, or left alone."""

from __future__ import annotations

import contextlib
import itertools
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import JobError
from router.gate.judging import judge
from router.policy.decision import Requester
from router.workload.launcher import NotLifted, find_launcher
from router.workload.launcheroptions import MPIRUN, SRUN, Meaning, Option
from router.workload.model import Container, ContainerKind, Launcher
from router.workload.shellbudget import ShellBudget
from tests.gates import gate
from tests.placement.given import job_of

PROGRAMS: Final = {"mpirun": MPIRUN, "mpiexec.hydra": MPIRUN, "orterun": MPIRUN, "srun": SRUN}
LONG: Final = "0000000001" + "9" * 4990  # more digits than Python reads as a number
VALUES: Final = ("", "A", "2", "A=1", "=", "1,2", LONG, "ppr:2:node:pe=3", "²", "$(V)", "-")
ADA: Final = Requester("ada", (), "default")


def _spellings(name: str, value: str) -> tuple[tuple[str, ...], ...]:
    """An option with a value: apart, with an equals sign, in one word; with one dash and with two."""
    dashed = (f"-{name}", f"--{name}")
    return tuple(
        words for option in dashed for words in ((option,), (option, value), (f"{option}={value}",), (option + value,))
    )


def _found(words: tuple[str, ...]) -> Launcher | NotLifted | None:
    return find_launcher(Container("c", ContainerKind.MAIN, "p", "image", words), "the command", ShellBudget())


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_option_with_none_one_and_too_many_values_is_read_or_left_alone(program: str) -> None:
    for name, value in itertools.product(PROGRAMS[program], VALUES):
        for words in _spellings(name, value):
            for behind in ((), ("./a",), (value, "./a"), (value, value, "./a")):
                assert isinstance(_found((program, *words, *behind)), Launcher | NotLifted)


INCOMPLETE: Final = [
    (("mpiexec", "-genv=A", "./a"), "has -genv without its value"),
    (("mpiexec", "-env=A", "./a"), "has -env without its value"),
    (("mpiexec", "--genv=A", "1", "./a"), "has --genv without its value"),
    (("mpiexec", "-genv", "A"), "has -genv without its value"),
    (("mpiexec", "-genv"), "has -genv without its value"),
    (("mpirun", "--mca=btl", "self", "./a"), "has --mca without its value"),
    (("mpirun", "-np"), "has -np without its value"),
    (("mpirun", "-np=", "./a"), "has -np , which is not a whole number from 1 to 1000000"),
    (("mpirun", "--pernode=2", "./a"), "has --pernode=2, and --pernode takes no value"),
    (("mpirun", "--bind-to-core=2", "./a"), "has --bind-to-core=2, and --bind-to-core takes no value"),
    (("mpirun", "-np", LONG, "./a"), f"has -np {LONG[:40]}, which is not a whole number from 1 to 1000000"),
    (("mpirun", "-x", "=1", "./a"), "sets a variable without a name"),
    (("mpiexec", "-genv", "", "1", "./a"), "sets a variable without a name"),
    (("srun", "--export=ALL,=1", "./a"), "sets a variable without a name"),
]


@pytest.mark.parametrize(("words", "why"), INCOMPLETE)
def test_what_cannot_be_understood_stays_with_the_reason(words: tuple[str, ...], why: str) -> None:
    assert _found(words) == NotLifted(words[0], why)


COMPLETE: Final = [
    (("mpiexec", "-genv=A=1", "./a"), (("A", "1"),)),
    (("mpiexec", "-genv", "A=1", "./a"), (("A", "1"),)),
    (("mpiexec", "-genv", "A", "1", "./a"), (("A", "1"),)),
    (("mpiexec", "-env", "A", "", "./a"), (("A", ""),)),
    (("mpirun", "-x", "A", "-x", "B=", "./a"), (("A", None), ("B", ""))),
]


@pytest.mark.parametrize(("words", "environment"), COMPLETE)
def test_variables_are_read_in_all_their_spellings(
    words: tuple[str, ...], environment: tuple[tuple[str, str | None], ...]
) -> None:
    found = _found(words)

    assert isinstance(found, Launcher)
    assert (found.environment, found.argv) == (environment, ("./a",))


OPTIONS: Final[st.SearchStrategy[tuple[str, str]]] = st.sampled_from(
    [(program, name) for program, table in PROGRAMS.items() for name in table]
)
TEXTS: Final = st.sampled_from(VALUES) | st.text(max_size=12)


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    """A launcher with a few of its options in any spelling, and perhaps a program."""
    program, _ = draw(OPTIONS)
    words = [program]
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(PROGRAMS[program])))
        words += draw(st.sampled_from(_spellings(name, draw(TEXTS))))
        words += draw(st.lists(TEXTS, max_size=2))
    return [*words, *draw(st.sampled_from(([], ["./a"], ["./a", ":", "./b"])))]


@given(words=lines(), in_shell=st.booleans())
def test_a_job_with_any_of_them_is_judged_or_refused_with_its_field(words: list[str], in_shell: bool) -> None:
    command = ["sh", "-c", " ".join(words)] if in_shell else words
    container = {"name": "c", "image": "i", "command": command, "resources": {"requests": {"cpu": "4"}}}

    with contextlib.suppress(JobError):
        assert judge(job_of(pod={"containers": [container]}), requester=ADA, gate=gate()).decision is not None


def test_every_meaning_with_values_has_an_option() -> None:
    options: list[Option] = [*MPIRUN.values(), *SRUN.values()]

    assert {meaning for meaning, _ in options} == set(Meaning)
