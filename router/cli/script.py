"""``batchgate script``: the batch script of a Job, as it would be submitted."""

from __future__ import annotations

import sys

import click

from router.cli.judging import Asked, Judged, complain, judge_all, judging_options, open_gate, say_if_none


@click.command()
@judging_options
@click.option("--own", is_flag=True, help="Print only the Job's own part, which the annotation holds.")
def script(asked: Asked, *, own: bool) -> None:
    """Print the complete batch script of each Job that goes to HPC, as it is submitted.

    Jobs that stay in the cloud are named on standard error with the reason.

    \b
    Example:  batchgate script -f job.yaml --policy policies | shellcheck -
    """
    refused = False
    written = jobs = 0
    for judged in judge_all(asked, open_gate(asked)):
        refused |= complain(judged)
        jobs += judged.judgement is not None or judged.error is not None
        if judged.judgement is None or judged.judgement.decision is None:
            continue
        if found := judged.judgement.script:
            click.echo("\n" * (written > 0) + (found.own if own else found.text), nl=False)
            written += 1
        elif judged.judgement.decision.target == "cloud" and not judged.judgement.decision.wanted:
            _say_why(judged)
    say_if_none(jobs)
    sys.exit(1 if refused else 0)


def _say_why(judged: Judged) -> None:
    assert judged.judgement is not None  # noqa: S101 - the caller looked
    decision = judged.judgement.decision
    assert decision is not None  # noqa: S101
    click.echo(f"{judged.name}: stays in the cloud by rule {decision.rule}: {decision.reason}", err=True)
