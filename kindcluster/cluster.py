"""Makes a cluster and takes it away.

Shell: the order of the steps; every one may be repeated. What differs between providers is in ``provider``, as values.
"""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bed import packages as debian
from kindcluster import commands, configuration, mounts, nodeimage, packages, programs, provider
from kindcluster.commands import KindError, Tell, step
from kindcluster.layout import Layout
from kindcluster.provider import Provider
from router.controlplane import building
from router.controlplane import programs as plane

_ENGINE_SECONDS: Final = 60.0
"""Time limit of a question to Docker or podman."""
_KERNEL_MODULES: Final = Path("/lib/modules")


def choose() -> Provider:
    """The provider for this machine.

    :raises KindError: it can have no cluster
    """
    root = os.geteuid() == 0
    return provider.choose(docker_problem(), root=root, release=debian.codename(), machine=debian.architecture())


def ensure_packages(layout: Layout, chosen: Provider, tell: Tell) -> None:
    """Install the Debian packages that a provider needs; Docker needs none. Raises bed.commands.BedError."""
    if chosen is Provider.PODMAN:
        packages.ensure(layout, tell)


def docker_problem() -> str:
    """Why Docker cannot be used, in Docker's words; empty if its engine answers."""
    if shutil.which("docker") is None:
        return "there is no docker on PATH"
    try:
        done = commands.attempt(["docker", "info", "--format", "{{.ServerVersion}}"], seconds=_ENGINE_SECONDS)
    except KindError as error:
        return str(error)
    said = done.stderr.strip().splitlines()
    return (said[-1] if said else f"docker info: exit code {done.returncode}") if done.returncode else ""


def up(layout: Layout, tell: Tell) -> Provider:
    """Make the cluster unless it runs, and write what its user needs into ``layout.files``.

    :return: what runs it
    :raises KindError: a step failed; also the errors of builds (router.errors) and of apt and mmdebstrap (bed)
    """
    chosen = choose()
    layout.files.mkdir(parents=True, exist_ok=True)
    with building.locked(layout.files, tell):
        # The variables are written last.
        if states(layout, chosen) == ["running"] and layout.variables.exists():
            tell(f"The cluster {layout.name} runs already.")
            return chosen
        kind = programs.kind(tell)
        # With Docker kind takes the node image that its release publishes.
        node_image = _prepare(layout, tell) if chosen is Provider.PODMAN else ""
        _create(layout, chosen, kind, node_image, tell)
    return chosen


def load(layout: Layout, chosen: Provider, archives: Sequence[Path], tell: Tell) -> None:
    """Bring archives of images to the cluster's node. Raises KindError if kind refuses."""
    argv = provider.load(layout, chosen, programs.kind(tell), archives)
    commands.run(argv, extra=provider.environment(layout, chosen))


def states(layout: Layout, chosen: Provider) -> list[str]:
    """The states of the nodes' containers, such as ``running``; empty without a cluster."""
    containers = _nodes(layout, chosen)
    return _ask(layout, chosen, provider.states(chosen, containers)) if containers else []


def kubectl(layout: Layout, chosen: Provider, words: Sequence[str]) -> list[str]:
    """The words of a kubectl command on the cluster."""
    return provider.kubectl(layout, chosen, plane.find_kubectl(), words)


def down(layout: Layout, tell: Tell) -> None:
    """Take the cluster away, whatever of it there is. Packages and the cache stay.

    :raises KindError: a container or a mount of it is in use
    """
    layout.files.mkdir(parents=True, exist_ok=True)
    with building.locked(layout.files, tell), step(tell, f"Removing the cluster {layout.name}."):
        for engine in (one for one in Provider if shutil.which(one)):
            _remove_nodes(layout, engine)
        if layout.namespace.exists():
            commands.run(["ip", "netns", "delete", layout.own])
        for folder in (layout.state, layout.running, layout.leases, layout.files):
            mounts.discard(folder)
        layout.variables.unlink(missing_ok=True)


def _remove_nodes(layout: Layout, engine: Provider) -> bool:
    """End and remove the nodes' containers; returns whether there were any."""
    containers = _nodes(layout, engine)
    if containers:
        if engine is Provider.PODMAN:
            # After the machine has started anew there is none, and podman would look for its network in the machine's.
            _add_namespace(layout)
        commands.run(provider.remove(layout, engine, containers), extra=provider.environment(layout, engine))
    return bool(containers)


def _nodes(layout: Layout, engine: Provider) -> list[str]:
    """The ids of the nodes' containers; empty if the engine does not answer."""
    if engine is Provider.PODMAN and not layout.storage_conf.exists():
        return []
    return _ask(layout, engine, provider.nodes(layout, engine))


def _ask(layout: Layout, engine: Provider, argv: Sequence[str]) -> list[str]:
    done = commands.attempt(argv, extra=provider.environment(layout, engine), seconds=_ENGINE_SECONDS)
    return done.stdout.split() if done.returncode == 0 else []


def _prepare(layout: Layout, tell: Tell) -> str:
    """Get all that podman needs here; returns the name of the node image."""
    ensure_packages(layout, Provider.PODMAN, tell)
    kept = nodeimage.ensure(tell)
    layout.state.mkdir(parents=True, exist_ok=True)
    files, processes = (resource.getrlimit(kind)[1] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
    layout.containers_conf.write_text(configuration.containers_conf(layout, files=files, processes=processes))
    layout.storage_conf.write_text(configuration.storage_conf(layout, kept.store))
    # kind mounts it into its nodes, and a machine whose kernel has no modules may lack it.
    _KERNEL_MODULES.mkdir(exist_ok=True)
    _add_namespace(layout)
    return kept.name


def _add_namespace(layout: Layout) -> None:
    if not layout.namespace.exists():
        commands.run(["ip", "netns", "add", layout.own])
    for words in provider.FIRST_IN_NAMESPACE:
        commands.run([*provider.inside(layout, Provider.PODMAN), *words])


def _create(layout: Layout, chosen: Provider, kind: Path, node_image: str, tell: Tell) -> None:
    extra = provider.environment(layout, chosen)
    if _remove_nodes(layout, chosen):
        tell(f"Removed what was left of a cluster {layout.name} that was half-made or stopped.")
    layout.configuration.write_text(configuration.cluster(node_image))
    with step(tell, f"Creating the cluster {layout.name} with kind {programs.version('kind')} and {chosen}."):
        done = commands.attempt(provider.create(layout, chosen, kind), extra=extra)
        layout.log.write_text(done.stdout + done.stderr)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise KindError(f"kind made no cluster: {' '.join(said) or 'see its log'} ({layout.log})")
    layout.programs.mkdir(exist_ok=True)
    script = layout.programs / "kubectl"
    script.write_text(configuration.kubectl_script(kubectl(layout, chosen, [])))
    script.chmod(0o755)
    layout.variables.write_text(configuration.variables(layout))
