"""``batchgate policy check | schema``; the modules ``policyNAME`` have the rest.

Shell: reads files, prints, sets the exit code, without a cluster or webhook. ``router.policy`` finds and words the
problems of a policy.
"""

from __future__ import annotations

import click

from router import policy as policies
from router.cli.output import as_json
from router.cli.policyapply import apply
from router.cli.policyconditions import conditions
from router.cli.policydiff import diff
from router.cli.policyreport import report
from router.cli.policysimulate import simulate
from router.cli.policytest import load_or_tell, test


@click.group()
def policy() -> None:
    """Check, test, compare, simulate, report and apply policy files; print their schema.

    \b
    Example:  batchgate policy check policies
    """


@policy.command()
@click.argument("directory", default="policies", envvar="BATCHGATE_POLICY")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "github"]),
    default="text",
    show_default=True,
    help="github: also annotate the lines of a change there.",
)
def check(directory: str, output: str) -> None:
    """Check all files of a directory together, as the webhook does before it uses them.

    Every problem is printed with its file, line and column; the exit code is then 2.

    \b
    Example:  batchgate policy check policies
    """
    checked = load_or_tell(directory, output)
    for warning in checked.warnings:
        click.echo(f"Warning: {warning}", err=True)
    queues = sum(len(site.queues) for site in checked.sites)
    click.echo(
        f"{directory}: {len(checked.sites)} sites, {queues} queues, {len(checked.accounts)} accounts, "
        f"{len(checked.rules)} rules, {len(checked.tests)} tests: no problem found"
    )


policy.add_command(apply)
policy.add_command(conditions)
policy.add_command(diff)
policy.add_command(report)
policy.add_command(simulate)
policy.add_command(test)


@policy.command()
def schema() -> None:
    """Print a JSON Schema of policy files, for editors.

    \b
    Example:  batchgate policy schema > policy.schema.json
    """
    click.echo(as_json(policies.json_schema()))
