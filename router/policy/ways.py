"""Checks that a site's host, access, observer, knownHosts, keys and commands fit together.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from router.errors import Problem
from router.policy.reading import Placed
from router.site import addresses
from router.site.schema import EACH_USER, Access, Site
from router.site.systems import SYSTEMS


def check(placed: Placed[Site]) -> Iterator[Problem]:
    """Problems for settings that do not fit together."""
    yield from _observer(placed)
    yield from _commands(placed)
    site, spot = placed.value, placed.spot
    if SYSTEMS[site.system].TRAITS.embedded and site.host != addresses.LOCAL:
        yield spot.problem("the embedded queue (system local) is on this machine: write host: local", "host")
    elif SYSTEMS[site.system].TRAITS.embedded and site.access is not Access.OWN:
        yield spot.problem("the embedded queue (system local) runs everything as one user: write access: own", "access")
    elif site.host == addresses.LOCAL:
        yield from _here(placed)
    elif (address := addresses.address_of(site.host)) is None:
        yield spot.problem(f"host is {site.host!r}; write local or {addresses.FORM}", "host")
    else:
        yield from _by_ssh(placed, address)


def _commands(placed: Placed[Site]) -> Iterator[Problem]:
    site, spot = placed.value, placed.spot
    for key, value in (("commandPath", site.command_path), ("commandEnv", site.command_env)):
        if value and SYSTEMS[site.system].TRAITS.embedded:
            yield spot.key_problem(f"{key}: the commands of the embedded queue are the agent's own; remove it", key)


def _observer(placed: Placed[Site]) -> Iterator[Problem]:
    site, spot = placed.value, placed.spot
    if site.observer == EACH_USER:
        return
    if site.access is Access.OWN:
        message = f"observer {site.observer} is for sites of several users; write access own-keys or sudo, or remove it"
        yield spot.key_problem(message, "observer")
    if site.observer == "root":
        yield spot.key_problem("observer is root; give an account that may see all jobs and little more", "observer")


def _here(placed: Placed[Site]) -> Iterator[Problem]:
    site, spot = placed.value, placed.spot
    if site.access is Access.OWN_KEYS:
        yield spot.problem("access own-keys is for a host that is reached by ssh; write own or sudo", "access")
    for key, value in (("knownHosts", site.known_hosts), ("keys", site.keys)):
        if value is not None:
            yield spot.key_problem(f"{key} is for a host that is reached by ssh; remove it, or write that host", key)


def _by_ssh(placed: Placed[Site], address: addresses.Address) -> Iterator[Problem]:
    site, spot = placed.value, placed.spot
    if site.known_hosts is None:
        message = (
            "knownHosts is missing: give the file with the login node's host keys, as unknown hosts are not trusted"
        )
        yield spot.problem(message, "host")
    if site.access is not Access.OWN_KEYS:
        if not address.user:
            yield spot.problem(f"access {site.access}: host names no user to log in as; write ssh://USER@HOST", "host")
        return
    if address.user:
        yield spot.problem(
            f"access own-keys: every HPC user logs in as themselves; remove {address.user}@ from host", "host"
        )
    if site.keys is None:
        yield spot.problem(
            "access own-keys: keys is missing: give the directory of one private key per HPC user", "access"
        )
