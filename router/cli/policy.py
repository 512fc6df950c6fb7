"""``batchgate policy check | test | schema``; ``policyapply``, ``policyconditions``, ``policydiff`` have the others.

Shell: reads files, prints, sets the exit code, without a cluster or webhook. ``router.policy`` finds and words the
problems of a policy.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from router import policy as policies
from router.cli.manifests import read_text
from router.cli.output import as_json
from router.cli.policyapply import apply
from router.cli.policyconditions import conditions
from router.cli.policydiff import diff
from router.startup.policyfiles import read_directory
from router.workload.cluster import UNKNOWN_CLUSTER
from router.workload.clusterfile import read_cluster

_DIRECTORY = click.argument("directory", default="policies", envvar="BATCHGATE_POLICY")


@click.group()
def policy() -> None:
    """Check, test, compare and apply policy files; print their schema.

    \b
    Example:  batchgate policy check policies
    """


@policy.command()
@_DIRECTORY
def check(directory: str) -> None:
    """Check all files of a directory together, as the webhook does before it uses them.

    Every problem is printed with its file, line and column; the exit code is then 2.

    \b
    Example:  batchgate policy check policies
    """
    checked = policies.load(read_directory(Path(directory)))
    for warning in checked.warnings:
        click.echo(f"Warning: {warning}", err=True)
    queues = sum(len(site.queues) for site in checked.sites)
    click.echo(
        f"{directory}: {len(checked.sites)} sites, {queues} queues, {len(checked.accounts)} accounts, "
        f"{len(checked.rules)} rules, {len(checked.tests)} tests: no problem found"
    )


@policy.command()
@_DIRECTORY
@click.option(
    "--cluster", metavar="FILE", envvar="BATCHGATE_CLUSTER", help="LimitRanges and others for the tests' Jobs."
)
def test(directory: str, cluster: str | None) -> None:
    """Run the tests of the policy files. Exit code 1 if one fails or there are none.

    \b
    Example:  batchgate policy test policies
    """
    checked = policies.load(read_directory(Path(directory)))
    known = read_cluster(read_text(cluster), cluster) if cluster else UNKNOWN_CLUSTER
    results = policies.run_tests(checked, known)
    for result in results:
        click.echo(f"{'pass' if result.passed else 'FAIL'}  {result.name}")
        if not result.passed:
            click.echo(f"      {result.place}\n      expected {result.expected}\n      got      {result.got}")
    failed = sum(not result.passed for result in results)
    click.echo(f"{len(results) - failed} passed, {failed} failed")
    if not results:
        click.echo(
            f"Error: {directory} has no test, so nothing was shown; write some under tests: (docs/policies.md)",
            err=True,
        )
    sys.exit(0 if results and not failed else 1)


policy.add_command(apply)
policy.add_command(conditions)
policy.add_command(diff)


@policy.command()
def schema() -> None:
    """Print a JSON Schema of policy files, for editors.

    \b
    Example:  batchgate policy schema > policy.schema.json
    """
    click.echo(as_json(policies.json_schema()))
