"""``batchgate policy test``: runs the tests of a policy and tells the results, for people and for machines.

Shell: reads files, prints, sets the exit code. ``router.policy`` runs the tests; ``testreports`` words the results.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from router import policy as policies
from router.cli import testreports
from router.cli.manifests import read_text
from router.cli.testreports import Report
from router.errors import ConfigError, PolicyError
from router.policy.coverage import Coverage, coverage
from router.policy.model import Policy
from router.startup.options import Number
from router.startup.policyfiles import read_directory
from router.workload.cluster import UNKNOWN_CLUSTER
from router.workload.clusterfile import read_cluster


@dataclass(frozen=True, slots=True)
class _Asked:
    """The values of the command's options. ``least``: percent of the branches, or None for any."""

    directory: str
    cluster: str | None
    output: str
    only: tuple[str, ...]
    require_tests: bool
    covered: bool
    least: float | None


@click.command()
@click.argument("directory", default="policies", envvar="BATCHGATE_POLICY")
@click.option(
    "--cluster", metavar="FILE", envvar="BATCHGATE_CLUSTER", help="LimitRanges and others for the tests' Jobs."
)
@click.option("-o", "--output", type=click.Choice(list(testreports.FORMATS)), default="text", show_default=True)
@click.option("--run", "only", multiple=True, metavar="GLOB", help="Only tests of such a name; repeatable.")
@click.option(
    "--require-tests/--no-require-tests", default=True, show_default=True, help="Whether a policy must have tests."
)
@click.option("--coverage", "covered", is_flag=True, help="Also say what the tests have shown of each rule.")
@click.option(
    "--require-coverage",
    "least",
    type=Number(0, 100),
    metavar="PERCENT",
    help="Fail if the tests take less of the rules' branches.",
)
def test(**values: Any) -> None:
    """Run the tests of the policy files. Exit code 1 if one fails, if there are none, or if they show too little.

    \b
    Example:  batchgate policy test policies
              batchgate policy test policies -o junit --require-coverage 90 > policy.xml
    """
    asked = _Asked(**values)
    checked = load_or_tell(asked.directory, asked.output)
    _demand_matches(checked, asked.only)
    known = read_cluster(read_text(asked.cluster), asked.cluster) if asked.cluster else UNKNOWN_CLUSTER
    results = policies.run_tests(checked, known, asked.only)
    shown = coverage(checked, results)
    tell = asked.covered or asked.least is not None
    report = Report(asked.directory, checked.digest, tuple(results), shown, tell_coverage=tell)
    missing = not results and asked.require_tests
    if missing:
        why = "has no test, so nothing was shown; write some under tests: (docs/policies.md)"
        click.echo(testreports.without_tests(asked.output, report, why))
        click.echo(f"Error: {asked.directory} {why}", err=True)
    else:
        click.echo(testreports.FORMATS[asked.output](report))
    little = asked.least is not None and _say_too_little(shown, asked.least)
    sys.exit(1 if missing or little or report.failed else 0)


def load_or_tell(directory: str, output: str) -> Policy:
    """The policy of a directory. Raises PolicyError, and prints what the format has for a policy with problems."""
    try:
        return policies.load(read_directory(Path(directory)))
    except PolicyError as error:
        if told := testreports.broken(output, directory, error.problems):
            click.echo(told)
        raise


def _demand_matches(checked: Policy, only: Sequence[str]) -> None:
    """Raise ConfigError for globs that match no test, such as a misspelt one."""
    idle = [glob for glob in only if not any(fnmatchcase(one.test.name, glob) for one in checked.tests)]
    if idle:
        known = "\n".join(f"  {one.test.name}" for one in checked.tests) or "  none"
        raise ConfigError(f"no test has a name like {', '.join(map(repr, idle))} (--run); the tests are:\n{known}")


def _say_too_little(shown: Coverage, least: float) -> bool:
    """Whether the tests take less than ``least`` percent of the branches, which is then said."""
    if shown.share >= least:
        return False
    click.echo(
        f"Error: the tests take {testreports.percent(shown)} of the rules' branches ({shown.taken} of {shown.counted}), "
        f"and --require-coverage asks for {least:g} %. Not taken:",
        err=True,
    )
    for rule in shown.rules:
        for branch in rule.missing:
            click.echo(f"  {rule.place}: rule {rule.rule}: {branch}", err=True)
    return True
