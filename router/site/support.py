"""Finds the fields of a Job that the scripts of a particular site cannot honour.

Pure. Knows runtimes, volume maps and profiles; ``credentials`` knows Secrets and tokens. Sizing the Job finds the fields
that every site lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from router.site import credentials, globs
from router.site.allocation import is_mpi
from router.site.images import mapped
from router.site.schema import LauncherKind, MpiProfile, Runtime, Site
from router.site.systems import SYSTEMS
from router.site.volumes import EMPTY, STAGED, path_problem, place_of, sub_path_problem
from router.workload.model import Container, ContainerKind, Obstacle, Volume, Workload

_SHARED: Final = {
    "hostNetwork": ("the network of its node", {"--net", "-n"}),
    "hostIPC": ("the shared memory of its node", {"--ipc", "-i", "--contain", "-c", "--containall", "-C"}),
}


def unsupported(workload: Workload, site: Site, profile: MpiProfile | None) -> tuple[Obstacle, ...]:
    """The fields of a Job that this site's scripts cannot honour, each with its reason; empty if all can be."""
    return (
        *_runtime(workload, site),
        *_naming(workload, site),
        *[obstacle for volume in workload.volumes for obstacle in _volume(workload, volume, site)],
        *[obstacle for container in workload.containers for obstacle in _container(container, site)],
        *_isolation(workload, site),
        *_privileged(workload, site),
        *_scheduler(workload, site),
        *credentials.missing(workload, site),
        *_mpi(workload, site, profile),
    )


def _runtime(workload: Workload, site: Site) -> Iterator[Obstacle]:
    if site.runtime is Runtime.HOST and not SYSTEMS[site.system].TRAITS.embedded:
        yield Obstacle(
            workload.containers[0].path,
            f"would run without a container: runtime host of site {site.name} is for trying out",
        )


def _naming(workload: Workload, site: Site) -> Iterator[Obstacle]:
    """Files of the machine that only a container can have as its own."""
    if site.runtime is not Runtime.HOST or not workload.naming:
        return
    field = "hostAliases" if workload.naming.hosts else "dnsConfig"
    yield Obstacle(
        f"{workload.pod_path}.{field}",
        f"needs a container, and site {site.name} runs commands without one (runtime host)",
    )


def cautions(workload: Workload, site: Site) -> tuple[str, ...]:
    """What a Job does without on this site, by the site's own word."""
    found = [
        f"{path}: a container is never privileged on HPC; site {site.name} runs those of namespace "
        f"{workload.namespace} without (ignorePrivileged)"
        for path in workload.privileged
    ]
    if workload.scheduler:
        found.append(
            f"{workload.pod_path}.schedulerName: the batch system places the Job, and {workload.scheduler} does not, "
            f"with its gangs and queues; so says site {site.name} (ignoreSchedulers)"
        )
    return tuple(found)


def _scheduler(workload: Workload, site: Site) -> Iterator[Obstacle]:
    """A Pod on HPC is bound to its virtual node as it is made, so no scheduler has it; some give it more than a node."""
    if workload.scheduler and not globs.matches(site.ignore_schedulers, workload.scheduler):
        yield Obstacle(
            f"{workload.pod_path}.schedulerName",
            f"asks for the scheduler {workload.scheduler}, which has no part in HPC; ignoreSchedulers of site {site.name} "
            "lists those that a Job can do without",
        )


def _privileged(workload: Workload, site: Site) -> Iterator[Obstacle]:
    if globs.matches(site.ignore_privileged, workload.namespace):
        return
    for path in workload.privileged:
        yield Obstacle(
            path,
            f"needs privileges that an ordinary HPC user cannot have; ignorePrivileged of site {site.name} lists "
            "namespaces whose Jobs run without",
        )


def _isolation(workload: Workload, site: Site) -> Iterator[Obstacle]:
    """Namespaces of the node that containers have anyway, unless the site's options of the runtime take them away."""
    if not site.runtime_options:
        return
    given = [option.partition("=")[0] for option in site.runtime_options]
    for container in workload.containers:
        asked = container.lifecycle is not None and any(one.port for one in container.lifecycle.handlers)
        if asked and (found := next((option for option in given if option in _SHARED["hostNetwork"][1]), None)):
            reason = "is asked over the network of its node by a hook or probe, and runtimeOptions of site"
            yield Obstacle(container.path, f"{reason} {site.name} have {found}")
    for path in workload.shared:
        what, options = _SHARED[path.rpartition(".")[2]]
        if found := next((option for option in given if option in options), None):
            yield Obstacle(path, f"asks for {what}, and runtimeOptions of site {site.name} have {found}")


def _volume(workload: Workload, volume: Volume, site: Site) -> Iterator[Obstacle]:
    path = f"{volume.path}.{volume.kind}" if volume.kind else volume.path
    if volume.kind in EMPTY:
        return
    if volume.kind not in STAGED:
        place = place_of(workload, volume, site)
        if isinstance(place, str):
            yield Obstacle(path, place)
        elif problem := path_problem(f"{place.path}/{place.below}"):
            yield Obstacle(path, problem)


def _container(container: Container, site: Site) -> Iterator[Obstacle]:
    for index, mount in enumerate(container.mounts):
        here = f"{container.path}.volumeMounts[{index}]"
        if site.runtime is Runtime.HOST:
            yield Obstacle(here, f"needs a container, and site {site.name} runs commands without one (runtime host)")
        elif problem := sub_path_problem(mount.sub_path) or path_problem(mount.sub_path):
            yield Obstacle(f"{here}.subPath", problem)
        elif not mount.path.startswith("/"):
            yield Obstacle(f"{here}.mountPath", "is not absolute")
        elif problem := path_problem(mount.path):
            yield Obstacle(f"{here}.mountPath", problem)
    if site.runtime is Runtime.HOST:
        if not container.command:
            yield Obstacle(
                f"{container.path}.command",
                f"is not set, and site {site.name} has no image to take an entrypoint from (runtime host)",
            )
    else:
        yield from _image(container, site)
    yield from _names(container)


def _image(container: Container, site: Site) -> Iterator[Obstacle]:
    here = f"{container.path}.image"
    if path_problem(container.image):
        yield Obstacle(here, "has a control character")
    elif not container.image:
        yield Obstacle(here, "is empty")
    elif site.pull == "never" and mapped(site, container.image) is None:
        yield Obstacle(here, f"{container.image} is not among the images of site {site.name}, which pulls none")


def _names(container: Container) -> Iterator[Obstacle]:
    for index, variable in enumerate(container.env):
        if not variable.name or "=" in variable.name:
            yield Obstacle(
                f"{container.path}.env[{index}].name", f"{variable.name!r} is not a valid name of a variable"
            )


def _mpi(workload: Workload, site: Site, profile: MpiProfile | None) -> Iterator[Obstacle]:
    if profile is None and not workload.mpi:
        return
    if not is_mpi(workload, profile):
        return
    container = mpi_container(workload)
    here = container.launcher.source if container.launcher else f"{container.path}.command"
    if profile is None:
        yield Obstacle(here, f"starts an MPI program, and site {site.name} has no MPI profile for {container.image}")
    elif profile.launcher is LauncherKind.SRUN and not SYSTEMS[site.system].TRAITS.tells_hosts:
        yield Obstacle(
            here, f"would be started by srun (MPI profile {profile.name}), and site {site.name} has no Slurm"
        )


def mpi_container(workload: Workload) -> Container:
    """The container of an MPI workload, whose program is started once per rank or starts its ranks itself."""
    if workload.mpi:
        return workload.container(workload.mpi)
    return next(container for container in workload.containers if container.kind is ContainerKind.MAIN)
