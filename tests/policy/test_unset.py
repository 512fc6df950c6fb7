"""Figures that nobody knows read 0: which conditions hold for that alone."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.policy import unset
from tests.policy.given import UNHURRIED, loaded

QUEUES = loaded("").queues
WAIT = "queues['big'].waitSeconds"
STATE = "nothing is known of the queue"

DOUBTFUL = [
    (f"{WAIT} < 60", 0, f"'{WAIT} < 60' also holds if {STATE}, as the figure then reads 0"),
    (f"60 > {WAIT}", 5, f"'60 > {WAIT}' also holds if {STATE}"),
    (f"{WAIT} == 0", 0, f"'{WAIT} == 0' also holds if {STATE}"),
    ("queues['pbs/big'].queuedJobs <= 3", 0, f"'queues['pbs/big'].queuedJobs <= 3' also holds if {STATE}"),
    ("queues['big'].runningJobs < 3", 0, f"'queues['big'].runningJobs < 3' also holds if {STATE}"),
    ("!queues['big'].up", 1, f"'!queues['big'].up' also holds if {STATE}, as the figure then reads false"),
    ("!(queues['big'].freeNodes > 0)", 2, f"'queues['big'].freeNodes > 0' is false, too, if {STATE}"),
    (f"job.gpus > 0 && (job.mpi || {WAIT} <= seconds('1h'))", 28, f"'{WAIT} <= seconds('1h')' also holds if {STATE}"),
    (f"{WAIT} < queues['small'].waitSeconds", 0, f"'{WAIT} < queues['small'].waitSeconds' also holds if {STATE}"),
    (f"{WAIT} < job.walltime", 0, f"'{WAIT} < job.walltime' also holds if {STATE}"),
    ("queues['gpu'].walltimeMax < 60", 0, "'queues['gpu'].walltimeMax < 60' also holds if the policy declares no"),
    ("job.cpus < 2", 0, "'job.cpus < 2' also holds if the Job asks for no CPUs"),
    ("(job.totalMemory + 1) < 2", 1, "'(job.totalMemory + 1) < 2' also holds if the Job asks for no memory"),
    ("job.images.exists(i, i == 'a' && job.walltime < 3)", 33, "'job.walltime < 3' also holds if the Job asks for no"),
    ("job.mpi ? job.ranks < 4 : job.mpi", 10, "'job.ranks < 4' also holds if the Job does not say how many ranks"),
    ("!(job.mpi || !(job.nodes < 3))", 15, "'job.nodes < 3' also holds if no hint asks for nodes"),
    ("job.completions <= 4 // few", 0, "'job.completions <= 4 // few' also holds if the Job is a work queue"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "offset", "words"), DOUBTFUL)
def test_a_part_that_holds_for_what_is_not_known_is_doubtful(source: str, offset: int, words: str) -> None:
    (found,) = unset.doubts(source, QUEUES)

    assert (found.offset, found.message[: len(words)]) == (offset, words)


PLAIN = [
    f"has({WAIT}) && {WAIT} < 60",
    f"!has( {WAIT} ) || {WAIT} < 60",
    "queues['big'].up",
    "queues['big'].freeNodes > 0",
    f"!({WAIT} < 60)",
    f"{WAIT} >= 60 || job.mpi",
    "queues['big'].nodes < 9",
    "queues['big'].walltimeMax < 60",  # declared, so known
    "job.gpus == 0",  # none asked for is none
    "job.pods <= 10 && job.parallelism < 3",
    "job.cpus > 2 && job.walltime >= 60",
    "'job.cpus < 2' != request.user // job.cpus < 2",
    "request.time.getHours(queues['big'].timeZone) < 6",
]


@pytest.mark.parametrize("source", PLAIN)
def test_what_cannot_hold_by_it_or_asks_first_is_not(source: str) -> None:
    assert list(unset.doubts(source, QUEUES)) == []


OPERATORS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@UNHURRIED
@given(
    sign=st.sampled_from(sorted(OPERATORS)),
    number=st.integers(-3, 3),
    turns=st.lists(st.booleans(), max_size=4),
    beside=st.sampled_from(["", "job.mpi && ", "(job.mpi) || ", "job.name == ')(' && "]),
)
def test_a_comparison_is_doubtful_if_it_holds_for_0(sign: str, number: int, turns: list[bool], beside: str) -> None:
    source = f"{beside}{WAIT} {sign} {number}"
    for turned in turns:
        source = f"{'!' if turned else ''}({source})"

    assert bool(list(unset.doubts(source, QUEUES))) == (OPERATORS[sign](0, number) is (sum(turns) % 2 == 0))


def test_the_warning_stands_at_the_figure_with_a_caret() -> None:
    rule = (
        "  - name: r\n    when: >-\n      job.mpi &&\n      queues['gpu'].waitSeconds < 60\n    hpc: [{queue: gpu}]\n"
    )

    (said,) = loaded(rule).warnings

    assert said.split("; write")[0] == (
        "c.yaml:5:7: rule r: when: 'queues['gpu'].waitSeconds < 60' also holds if nothing is known of the queue, as "
        "the figure then reads 0"
    )
    assert said.splitlines()[1:] == ["  |       queues['gpu'].waitSeconds < 60", "  |       ^"]
