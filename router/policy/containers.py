"""Checks a site's images, Secrets and MPI profiles for settings that fail or are never used.

Pure. Yields problems and warnings; raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from router.errors import Problem
from router.policy.reading import Placed
from router.policy.schema import Account
from router.site import globs
from router.site.schema import LauncherKind, MpiProfile, Runtime, Site
from router.site.systems import SYSTEMS


def check(placed: Placed[Site]) -> Iterator[Problem]:
    """Problems: settings that cannot work."""
    site, spot = placed.value, placed.spot
    for index, entry in enumerate(site.insecure_registries):
        if "/" in entry:
            host = entry.rpartition("://")[2].partition("/")[0] or "registry.example.org:5000"
            message = f"insecureRegistries: {entry!r} is not a host:port, so it matches no registry; write {host}"
            yield spot.problem(message, "insecureRegistries", index)
    if site.tokens == "stage" and site.api_server is None:
        message = (
            "tokens: stage needs apiServer, the cluster's API server as nodes reach it, e.g. "
            "https://kubernetes.example.org:6443"
        )
        yield spot.problem(message, "tokens")
    if site.exec == "ssh" and SYSTEMS[site.system].over_ssh("1", "node/0", ()) is None:
        message = f"exec: ssh is for OpenPBS and TORQUE; system: {site.system} has a way of its own: write exec: true"
        yield spot.problem(message, "exec")
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
    if site.tokens == "stage" and site.need_tokens:
        yield f"{here}: needTokens has no effect with tokens: stage: every Job gets the token that it asks for"
    if site.tokens == "stage" and site.runtime is Runtime.HOST:
        yield f"{here}: tokens: stage has no effect with runtime: host, which has no containers to mount a token in"
    if site.exec is True and SYSTEMS[site.system].within_argv("1", ()) is None:
        yield (
            f"{here}: exec: true has no effect with system: {site.system}, which has no way of its own into a running "
            "job; write exec: ssh where users may log in to the nodes of their jobs"
        )
    for index, profile in enumerate(site.mpi):
        hiding = next((earlier for earlier in site.mpi[:index] if _hides(earlier, profile)), None)
        if hiding is not None:
            yield (
                f"{here}: MPI profile {profile.name} is never used, as images of {hiding.name} before it match every "
                "image; move it up"
            )


def shared_users(placed: Placed[Site], accounts: Sequence[Placed[Account]]) -> Iterator[str]:
    """A warning for each HPC user who runs Jobs of several people or namespaces, if credentials come to the site.

    Whoever runs as that user can read what is staged for the others, while their Jobs wait and run.
    """
    site, here = placed.value, f"{placed.spot.line}: {placed.spot.where}"
    brought = [word for word in ("secrets", "tokens") if getattr(site, word) == "stage"]
    served: dict[str, dict[str, None]] = {}
    for one in accounts if brought else ():
        entry = one.value
        if entry.as_ is not None and globs.matches((entry.site,), site.name):
            served.setdefault(entry.as_, {}).update(dict.fromkeys(_served(entry)))
    for user, whom in served.items():
        if len(whom) > 1 or not all(map(globs.is_literal, whom)) or min(whom).startswith("group"):
            yield (
                f"{here}: {' and '.join(brought)}: stage, and HPC user {user} runs Jobs of {', '.join(whom)}: what is "
                "staged for one of them, Jobs of the others can read"
            )


def _served(entry: Account) -> Iterator[str]:
    """Whose Jobs an entry of accounts is for."""
    kinds = (("user", entry.users), ("group", entry.groups), ("service account", entry.service_accounts))
    people = [f"{kind} {name}" for kind, names in kinds for name in names]
    yield from people or [f"namespace {name}" for name in entry.namespaces]


def _hides(earlier: MpiProfile, later: MpiProfile) -> bool:
    """Whether the earlier profile keeps the later from ever being used.

    Jobs without a launcher skip profiles that do not imply MPI.
    """
    every = any(set(pattern) == {"*"} for pattern in earlier.images)
    return every and (earlier.implies_mpi or not later.implies_mpi)
