"""Checks a site's images, Secrets and MPI profiles for settings that fail or are never used.

Pure. Yields problems and warnings; raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from router.errors import Problem
from router.policy.reading import Placed
from router.site.schema import LauncherKind, MpiProfile, Site
from router.site.systems import SYSTEMS


def check(placed: Placed[Site]) -> Iterator[Problem]:
    """Problems: settings that cannot work."""
    site, spot = placed.value, placed.spot
    for index, entry in enumerate(site.insecure_registries):
        if "/" in entry:
            host = entry.rpartition("://")[2].partition("/")[0] or "registry.example.org:5000"
            message = f"insecureRegistries: {entry!r} is not a host:port, so it matches no registry; write {host}"
            yield spot.problem(message, "insecureRegistries", index)
    for index, profile in enumerate(site.mpi):
        if profile.launcher is LauncherKind.SRUN and not SYSTEMS[site.system].TRAITS.tells_hosts:
            message = (
                f"MPI profile {profile.name}: launcher srun starts ranks only under Slurm, and the site's system is "
                f"{site.system}; write openmpi or hydra"
            )
            yield spot.problem(message, "mpi", index, "launcher")


def doubts(placed: Placed[Site]) -> Iterator[str]:
    """Warnings: settings that are never used."""
    site, here = placed.value, f"{placed.spot.line}: {placed.spot.where}"
    if site.secrets == "pull" and site.pull != "host":
        yield f"{here}: secrets: pull has an effect only with pull: host; with pull: {site.pull} no pull secret is read"
    for index, profile in enumerate(site.mpi):
        hiding = next((earlier for earlier in site.mpi[:index] if _hides(earlier, profile)), None)
        if hiding is not None:
            yield (
                f"{here}: MPI profile {profile.name} is never used, as images of {hiding.name} before it match every "
                "image; move it up"
            )


def _hides(earlier: MpiProfile, later: MpiProfile) -> bool:
    """Whether the earlier profile keeps the later from ever being used.

    Jobs without a launcher skip profiles that do not imply MPI.
    """
    every = any(set(pattern) == {"*"} for pattern in earlier.images)
    return every and (earlier.implies_mpi or not later.implies_mpi)
