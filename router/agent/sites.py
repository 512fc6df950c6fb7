"""The agent's site: found in the policy, held to what this agent can drive.

Pure.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from router.agent.settings import AgentSettings
from router.errors import ConfigError
from router.hpc import BatchSystem, Commands, local
from router.policy.model import Policy
from router.policy.schema import Account
from router.reconcile.model import Terms
from router.site.schema import Access, Site
from router.site.systems import SYSTEMS

LOCAL: Final = "local"
"""The host of a site that is this machine."""


def site_of(policy: Policy, name: str) -> Site:
    """The site of that name. ConfigError where there is none, or it is one that this agent cannot drive."""
    site = next((one for one in policy.sites if one.name == name), None)
    if site is None:
        known = ", ".join(one.name for one in policy.sites) or "none"
        raise ConfigError(f"the policy has no site {name!r}; its sites are: {known}")
    for kind, way in (("secrets", site.secrets), ("tokens", site.tokens)):
        if way == "stage":
            raise ConfigError(f"site {name}: {kind}: stage cannot be done yet; write {kind}: cloud")
    return site


def demand_user(site: Site, uid: int) -> None:
    """ConfigError where the agent runs as root though the batch system is a real one."""
    if uid == 0 and not SYSTEMS[site.system].TRAITS.embedded:
        raise ConfigError(
            f"site {site.name}: the agent does not run as root; start it as the user whose jobs it submits"
        )


def users_of(site: Site, accounts: Iterable[Account], own: str) -> frozenset[str]:
    """The HPC users whom accounts name for a site; of an embedded queue its one user, the agent's own.

    :param own: the name of the user that the agent is
    """
    if SYSTEMS[site.system].TRAITS.embedded and site.access is Access.OWN:
        return frozenset({own})
    return frozenset(one.as_ for one in accounts if one.as_ is not None and fnmatchcase(site.name, one.site))


def demand_account(site: Site, user: str) -> None:
    """ConfigError where jobs of a real batch system would be root's."""
    if user == "root" and not SYSTEMS[site.system].TRAITS.embedded:
        raise ConfigError(f"site {site.name}: nothing is run as root; see `as` in accounts")


def system_of(site: Site) -> BatchSystem:
    """The module of the site's batch system."""
    return SYSTEMS[site.system]


def commands_of(site: Site, state: Path | None, prefix: str) -> Commands:
    """How the site's commands are reached.

    :param state: the directory of the embedded queue, for system ``local``
    :param prefix: words before the embedded queue's commands, as a shell splits them; empty for this very program
    """
    if not SYSTEMS[site.system].TRAITS.embedded:
        return _outside(site, system_of(site).DEFAULT)
    if state is None:
        raise ConfigError(f"site {site.name}: name the directory of its embedded queue: --local-state DIR")
    return local.commands_of(str(state), prefix=_words(prefix) or (sys.executable, "-m", "router.local"))


def _outside(site: Site, usual: Commands) -> Commands:
    """The commands of a real batch system, found and told as the policy says."""
    environment = dict(usual.environment) | {str(name): value for name, value in site.command_env.items()}
    environment["PATH"] = ":".join((*site.command_path, environment["PATH"]))
    return replace(usual, environment=tuple(environment.items()))


def paced(settings: AgentSettings, site: Site) -> AgentSettings:
    """The settings with no shorter time between two looks at the batch system than the site's admin allows."""
    least = site.min_interval
    return replace(
        settings,
        cycle_seconds=max(settings.cycle_seconds, least),
        quick_seconds=max(settings.quick_seconds, least),
    )


def terms_of(base: Terms, policy: Policy, rule: str) -> Terms:
    """What holds for the Pods that this rule has sent: lost nodes are excused as often as its ``retries`` say.

    A rule that the policy has no more leaves ``base``, which is as a rule that says nothing of it.
    """
    found = next((one.rule for one in policy.rules if one.name == rule), None)
    return base if found is None else replace(base, disruptions=found.retries.disruptions)


def _words(prefix: str) -> Sequence[str]:
    try:
        return tuple(shlex.split(prefix))
    except ValueError as error:
        raise ConfigError(f"--local-commands {prefix!r}: {error}") from None
