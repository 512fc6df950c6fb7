"""Prints a demo's results: a table of all examples, and the differences from the expected outcomes.

Shell (prints).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from router.cli.table import print_table
from router.demo.examples import Example
from router.demo.outcome import NO_LAUNCHER, Outcome, differences


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """Print one row per example."""
    click.echo()
    head = ("JOB", "DECISION", "RULE", "STATE", "EXIT", "LOG", "REASON")
    print_table(head, [_row(outcome) for outcome in outcomes])
    click.echo()


def print_verdict(found: Sequence[Example], outcomes: Sequence[Outcome], *, launcher: bool) -> bool:
    """Print every difference from the expected outcomes; returns whether there was none.

    :param launcher: whether the machine has an MPI launcher
    """
    wrong = [
        (outcome.job, words)
        for example, outcome in zip(found, outcomes, strict=True)
        for words in differences(example.expected, outcome, launcher=launcher)
    ]
    for job, words in wrong:
        click.echo(f"Error: {job}: {words}", err=True)
    differ = {job for job, _ in wrong}
    idle = [one.job for one in outcomes if one.state == NO_LAUNCHER and one.job not in differ]
    tried = len(found) - len(idle)
    left = f"; {len(idle)} could only be judged, not run: {', '.join(idle)} (no MPI launcher here)" if idle else ""
    click.echo(f"{tried - len(differ)} of {tried} examples came out as expected{left}.")
    return not wrong


def near(path: Path) -> str:
    """A path relative to the working directory if it is below it, else unchanged."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _row(outcome: Outcome) -> tuple[str, ...]:
    target = str(outcome.decision["target"])
    where = f"{target}: {outcome.decision['queue']}" if "queue" in outcome.decision else target
    code = "" if outcome.exit_code is None else str(outcome.exit_code)
    return (outcome.job, where, str(outcome.decision["rule"]), outcome.state, code, outcome.log_line, outcome.reason)
