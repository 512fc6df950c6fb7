"""What of an installation needs somebody, for ``batchgate status``: the part that asks the cluster, and that prints.

Shell (the API). ``router.operating.troubles`` decides what is trouble.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from router import names
from router import policy as policies
from router.cli.cluster import Cluster
from router.cli.table import print_table
from router.errors import ConfigError, InputError, PolicyError
from router.operating.troubles import PolicyFiles, SiteCheck, Trouble
from router.policy.configmap import texts_of
from router.preflight.record import Kept, kept_of, sentence, sentence_on_profiles

if TYPE_CHECKING:
    from router.policy import Policy

WELL: Final = 0
TROUBLE: Final = 1
UNSEEN: Final = 3
"""Exit codes of ``--exit-code``; 2 is that of errors, as everywhere."""


def look_at_policy(cluster: Cluster) -> tuple[PolicyFiles | None, Policy | str]:
    """What is wrong with the policy in the cluster's ConfigMap, and the policy, or a sentence why there is none.

    The first part is None if the ConfigMap is missing or unseen.
    """
    place = f"ConfigMap {cluster.system}/{names.POLICIES_CONFIG_MAP}"
    path = f"/api/v1/namespaces/{cluster.system}/configmaps/{names.POLICIES_CONFIG_MAP}"
    found = cluster.one("the policy", path)
    if found is None:
        return None, f"{place} is not to be seen"
    try:
        policy = policies.load(texts_of(found, place))
        return PolicyFiles(place, (), policy.digest), policy
    except PolicyError as error:
        problems = tuple(map(str, error.problems))
    except ConfigError as error:
        problems = (str(error),)
    return PolicyFiles(place, problems), f"{place} does not check"


def look_at_checks(cluster: Cluster, known: Sequence[str], site: str = "") -> tuple[SiteCheck, ...]:
    """What the last check of each site has left, or of one; behind them the known sites that were never checked."""
    missed = len(cluster.missed)
    path = f"/api/v1/namespaces/{cluster.system}/configmaps/{names.CHECKS_CONFIG_MAP}"
    found = (cluster.one("the checks of sites", path) or {}).get("data") or {}
    chosen = [key for key in sorted(found) if not site or key == names.site_key(site)]
    never = [one for one in known if site in ("", one) and names.site_key(one) not in found]
    return (
        *(_check(key.removesuffix(".json"), str(found[key])) for key in chosen),
        *(SiteCheck(one, "", "") for one in (never if len(cluster.missed) == missed else ())),
    )


def _check(site: str, text: str) -> SiteCheck:
    try:
        kept = kept_of(text)
    except InputError as error:
        return SiteCheck(site, "", f"its record {error}")
    return SiteCheck(site, max(kept.times.values(), default=""), _problem(kept))


def _problem(kept: Kept) -> str:
    return sentence(kept) or sentence_on_profiles(kept)


def print_checks(checks: Sequence[SiteCheck]) -> None:
    """Print the last check of each site, without its problem, which is among the troubles."""
    if checks:
        click.echo("\nChecks of sites")
        print_table(("SITE", "CHECKED", "RESULT"), [_row(one) for one in checks])


def _row(one: SiteCheck) -> tuple[str, str, str]:
    if one.problem:
        return one.site, one.time or "-", "problems"
    return (one.site, one.time, "good") if one.time else (one.site, "never", "-")


def print_troubles(found: Sequence[Trouble], *, whole: bool) -> None:
    """Print what needs somebody, each with its caret if it has one.

    :param whole: whether everything could be looked at
    """
    if not found:
        click.echo("\nAll is well." if whole else "\nNothing that could be looked at is wrong.")
        return
    click.echo("\nNeeds somebody")
    for one in found:
        first, *others = one.says.splitlines() or [""]
        click.echo(f"  {' '.join(part for part in (one.about, one.name) if part)}: {first}")
        for line in others:
            click.echo(f"    {line}")


def exit_code(found: Sequence[Trouble], *, whole: bool) -> int:
    """The exit code for monitors."""
    if found:
        return TROUBLE
    return WELL if whole else UNSEEN
