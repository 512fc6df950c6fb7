"""Finds the agent's site in the policy, and checks that this agent can drive it.

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
    """The site of that name. Raises ConfigError if it is missing or this agent cannot drive it."""
    site = next((one for one in policy.sites if one.name == name), None)
    if site is None:
        known = ", ".join(one.name for one in policy.sites) or "none"
        raise ConfigError(f"the policy has no site {name!r}; its sites are: {known}")
    return site


def demand_user(site: Site, uid: int) -> None:
    """Raise ConfigError if the agent runs as root for a real batch system."""
    if uid == 0 and not SYSTEMS[site.system].TRAITS.embedded:
        raise ConfigError(
            f"site {site.name}: the agent does not run as root; start it as the user whose jobs it submits"
        )


def users_of(site: Site, accounts: Iterable[Account], own: str) -> frozenset[str]:
    """The HPC users whom accounts name for a site; for an embedded queue with access ``own``, the agent's own user.

    :param own: the name of the user who runs the agent
    """
    if SYSTEMS[site.system].TRAITS.embedded and site.access is Access.OWN:
        return frozenset({own})
    return frozenset(one.as_ for one in accounts if one.as_ is not None and fnmatchcase(site.name, one.site))


def demand_account(site: Site, user: str) -> None:
    """Raise ConfigError if jobs of a real batch system would run as root."""
    if user == "root" and not SYSTEMS[site.system].TRAITS.embedded:
        raise ConfigError(f"site {site.name}: nothing is run as root; see `as` in accounts")


def system_of(site: Site) -> BatchSystem:
    """The module of the site's batch system."""
    return SYSTEMS[site.system]


def commands_of(site: Site, state: Path | None, prefix: str) -> Commands:
    """The settings by which the site's commands are run.

    :param state: the directory of the embedded queue, for system ``local``
    :param prefix: words before the embedded queue's commands, as a shell splits them; empty for this program
    """
    if not SYSTEMS[site.system].TRAITS.embedded:
        return _outside(site, system_of(site).DEFAULT)
    if state is None:
        raise ConfigError(f"site {site.name}: name the directory of its embedded queue: --local-state DIR")
    return local.commands_of(str(state), prefix=_words(prefix) or (sys.executable, "-m", "router.local"))


def _outside(site: Site, usual: Commands) -> Commands:
    """The command settings of a real batch system, with the policy's search path and environment."""
    environment = dict(usual.environment) | {str(name): value for name, value in site.command_env.items()}
    environment["PATH"] = ":".join((*site.command_path, environment["PATH"]))
    return replace(usual, environment=tuple(environment.items()))


def paced(settings: AgentSettings, site: Site) -> AgentSettings:
    """The settings with the times between two looks at the batch system raised to the site's ``min_interval``."""
    least = site.min_interval
    return replace(
        settings,
        cycle_seconds=max(settings.cycle_seconds, least),
        quick_seconds=max(settings.quick_seconds, least),
    )


def terms_of(base: Terms, policy: Policy, rule: str) -> Terms:
    """The terms of Pods that a rule has sent: lost nodes and the like are excused as often as its ``retries`` say.

    If the policy has dropped the rule, ``base`` applies, as for a rule without ``retries``.
    """
    found = next((one.rule for one in policy.rules if one.name == rule), None)
    return base if found is None else replace(base, disruptions=found.retries.disruptions)


def _words(prefix: str) -> Sequence[str]:
    try:
        return tuple(shlex.split(prefix))
    except ValueError as error:
        raise ConfigError(f"--local-commands {prefix!r}: {error}") from None
