"""``batchgate policy conditions``: the match condition of a policy, as values of the chart.

Shell: reads files and prints, without a cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from router import names
from router import policy as policies
from router.cli.output import as_folded_yaml, as_json
from router.policy.matchcondition import EVERY_JOB, PREFIX, MatchCondition
from router.startup.policyfiles import read_directory

_LOST: Final = f"""\
# The API server sends a Job to the webhook only if this holds, or if the Job has a key under {names.PREFIX} or names a
# virtual node. Every other Job stays in the cloud by this policy. It runs there without the label and the reason that
# the webhook writes on a Job, and without a line in the webhook's log, metrics and audit annotations.
# Make this anew for every change of the policy; batchgate policy apply refuses a policy that it does not fit.
"""


@click.command()
@click.argument("directory", default="policies", envvar="BATCHGATE_POLICY")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def conditions(directory: str, output: str) -> None:
    """Print which Jobs the API server must send to the webhook, as values of the chart.

    The rest would stay in the cloud: they can be left out, at the price of the label and the reason that the webhook
    writes on them. If no Job can be left out, the list is empty, and standard error says why.

    \b
    Example:  batchgate policy conditions policies > conditions.yaml
              helm upgrade batchgate charts/batchgate --reuse-values --values conditions.yaml
    """
    checked = policies.load(read_directory(Path(directory)))
    for warning in checked.warnings:
        click.echo(f"Warning: {warning}", err=True)
    found = policies.match_condition(checked)
    for reason in found.reasons:
        click.echo(f"No Job can be left out: {reason}", err=True)
    values = _values(found)
    if output == "json":
        click.echo(as_json(values))
        return
    if found.expression != EVERY_JOB:
        click.echo(f"# From the {_named(found.rules)} of policy {found.name.removeprefix(PREFIX)}.\n{_LOST}", nl=False)
    click.echo(as_folded_yaml(values), nl=False)


def _values(found: MatchCondition) -> dict[str, Any]:
    one = {"name": found.name, "expression": found.expression}
    return {"registration": {"matchConditions": [] if found.expression == EVERY_JOB else [one]}}


def _named(rules: tuple[str, ...]) -> str:
    if not rules:
        return "rules, which keep every Job in the cloud,"
    return f"rule{'s' * (len(rules) > 1)} {', '.join(rules)}"
