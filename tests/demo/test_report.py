"""What a demo says at its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.demo.examples import Example
from router.demo.outcome import NO_LAUNCHER, Expected, Outcome, PodOutcome
from router.demo.report import print_verdict

WANTED = Expected({"target": "hpc"}, "Succeeded", 0)
DONE = Outcome("02", "large", {"target": "hpc"}, "because", "Succeeded", (PodOutcome("build/pod", "0.demo", 0, {}),))
IDLE = Outcome("05", "ranks", {"target": "hpc"}, "because", NO_LAUNCHER)
ELSEWHERE = Outcome("05", "ranks", {"target": "cloud"}, "because", NO_LAUNCHER)


@pytest.mark.parametrize(
    ("outcomes", "launcher", "good", "verdict"),
    [
        ([DONE, DONE], True, True, "2 of 2 examples came out as expected.\n"),
        (
            [DONE, IDLE],
            False,
            True,
            "1 of 1 examples came out as expected; 1 could only be judged, not run: ranks (no MPI launcher here).\n",
        ),
        ([DONE, IDLE], True, False, "1 of 2 examples came out as expected.\n"),
        ([DONE, ELSEWHERE], False, False, "1 of 2 examples came out as expected.\n"),
    ],
)
def test_what_was_not_run_is_counted_apart(
    outcomes: list[Outcome], launcher: bool, good: bool, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [Example(one.name, Path(one.name), {}, WANTED) for one in outcomes]

    assert print_verdict(found, outcomes, launcher=launcher) is good
    assert capsys.readouterr().out == verdict
