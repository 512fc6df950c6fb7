"""What the demo calls expected, and what it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.demo.outcome import NO_LAUNCHER, Expected, Outcome, PodOutcome, differences, read_expected
from router.errors import ConfigError

POD = PodOutcome("build/pod", "0.demo", 0, {"init": "ready\n", "main": "one\ntwo\n"})
DONE = Outcome("02", "large", {"target": "hpc", "rule": "large", "fields": ["a", "b"]}, "because", "Succeeded", (POD,))
WANTED = Expected({"target": "hpc", "rule": "large"}, "Succeeded", 0, 1, {"main": "two"})


def test_what_meets_all() -> None:
    assert differences(WANTED, DONE, launcher=True) == []


@pytest.mark.parametrize(
    ("expected", "outcome", "words"),
    [
        (replace(WANTED, decision={"rule": "small"}), DONE, "rule is 'large', expected 'small'"),
        (replace(WANTED, decision={"fields": ["c"]}), DONE, "fields is ['a', 'b'], expected ['c']"),
        (WANTED, replace(DONE, state="Failed"), "state is 'Failed', expected 'Succeeded'"),
        (WANTED, replace(DONE, pods=(replace(POD, exit_code=3),)), "exit code is 3, expected 0"),
        (WANTED, replace(DONE, pods=(replace(POD, exit_code=None),)), "exit code is None, expected 0"),
        (WANTED, replace(DONE, pods=(POD, POD)), "2 Pods, expected 1"),
        (WANTED, replace(DONE, pods=(replace(POD, logs={}),)), "the log of container main lacks 'two' (build/pod)"),
    ],
)
def test_what_does_not(expected: Expected, outcome: Outcome, words: str) -> None:
    assert [words] == differences(expected, outcome, launcher=True)


def test_what_is_read() -> None:
    outcome = {"program": "ring", "state": "Succeeded", "exitCode": 0, "pods": 2, "logs": {"ring": "rank"}}

    assert read_expected({"decision": {"target": "hpc"}, "outcome": outcome}, "expected.yaml") == Expected(
        {"target": "hpc"}, "Succeeded", 0, 2, {"ring": "rank"}, "ring"
    )


def test_without_a_launcher_an_mpi_job_is_expected_not_to_run() -> None:
    outcome = replace(DONE, state=NO_LAUNCHER, pods=())

    assert differences(WANTED, outcome, launcher=False) == []
    assert differences(WANTED, outcome, launcher=True) != []


def test_the_exit_code_is_the_first_that_is_not_0() -> None:
    pods = (POD, replace(POD, exit_code=7), replace(POD, exit_code=9))

    assert replace(DONE, pods=pods).exit_code == 7


def test_the_log_line_is_the_last_that_was_written() -> None:
    assert DONE.log_line == "two"


def test_a_file_of_another_form_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"02/expected\.yaml: needs a mapping `decision`"):
        read_expected(["x"], "02/expected.yaml")
