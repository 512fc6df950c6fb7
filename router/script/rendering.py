"""Renders a Workload and a Route into one bash script.

Pure; equal input gives equal text. Directives and the Job's own data come from Jinja templates. The runtime, which is
the same in every script, is only named by its parts (``router.script.completing``). All Pods of a Job share the script:
it reads everything that differs between them from the Pod's directory.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import Any, Final

from jinja2 import Environment, StrictUndefined, Template

from router.errors import ConfigError
from router.hpc.requests import Request, text_problem
from router.policy.decision import Route
from router.script import completing, lifecycle, mpi
from router.script.containers import Devices, Setting, block, devices_of, follows, says_threads, understands_no_eval
from router.script.quoting import quote, shown, words
from router.site.allocation import is_mpi
from router.site.credentials import uses_credentials
from router.site.resources import together
from router.site.schema import LauncherKind, Runtime, Site
from router.site.support import cautions, mpi_container
from router.site.systems import SYSTEMS
from router.values import unchanging
from router.workload.inside import started_by, starts_ranks
from router.workload.model import Container, ContainerKind, Workload

_BELOW: Final = "\n\t"
"""Between the lines of a function."""
_Function = tuple[str, str, str]
"""The name of a function, what it is about, and its lines."""


@unchanging
class Script:
    """The Job's own part, and warnings for the user about differences between the script and the Job."""

    own: str
    warnings: tuple[str, ...]

    @property
    def text(self) -> str:
        """The complete script, as this release submits it."""
        return completing.complete(self.own)


@unchanging
class _Ranks:
    """The container whose program is started once per rank.

    :param exports: whether its launcher must be told the variables to pass on
    :param time_limit: seconds after which the launcher is ended, 0 without a limit
    :param inside: whether its own command starts the ranks, any number of times
    :param covers: then, launchers that it surely starts, as it names them
    :param targets: then, the paths of its volumes
    :param threads: then, the cores of a rank; empty where the Job says how many threads it has
    """

    index: int
    count: int
    start: mpi.Start
    profile: str
    environment: str
    exports: bool
    time_limit: int
    inside: bool
    covers: str
    targets: str
    threads: str


def render(workload: Workload, route: Route) -> Script:
    """The script of a Job for a queue. Raises ConfigError for a text of the policy that a directive cannot hold."""
    site = route.site
    warnings = [*cautions(workload, site)]
    devices = devices_of(workload, route)
    ranks = _ranks(workload, route, warnings)
    modules = (*site.modules, *(route.profile.modules if ranks and route.profile else ()))
    system = SYSTEMS[site.system]
    request = request_of(route, exclusive=devices is not None and site.gpus == "exclusive")
    own = _template().render(
        _data(workload, route, modules, devices, ranks),
        directives="\n".join([f"{system.MARK} {option}" for option in system.directives(request)]),
        entry_lines="\n".join(system.entry_lines(route.allocation.cores_per_rank)),
        functions=[*_blocks(workload, route, devices, ranks, warnings), *_lifecycles(workload)],
        runtime_line=completing.runtime_line(_parts(workload, route, modules, devices, ranks)),
    )
    if request.project and not system.TRAITS.projects:
        warnings.append(f"Project {request.project} is left out: TORQUE has no projects.")
    return Script(own, tuple(warnings))


def request_of(route: Route, *, exclusive: bool) -> Request:
    """The request of a route. Of equal directives, the rule's wins over the account's, the node labels', the queue's and the site's."""
    extra: dict[str, str] = {}
    for given in (
        route.site.directives, route.queue.directives, dict(route.nodes.directives), route.identity.entry.directives,
        route.rule.directives,
    ):  # fmt: skip
        extra.update(given)
    extra = together(extra, route.allocation.directives)
    identity = route.identity
    for text in (identity.account, identity.project, *extra.values()):
        if text and (problem := text_problem(text)):
            raise ConfigError(f"a directive for queue {route.queue.name} of site {route.site.name}: {problem}")
    return Request(route.queue.name, route.allocation, identity.account, identity.project, extra, exclusive)


def _parts(
    workload: Workload, route: Route, modules: tuple[str, ...], devices: Devices | None, ranks: _Ranks | None
) -> tuple[str, ...]:
    """The files of the runtime that the script needs, in their order."""
    site, traits, several = route.site, SYSTEMS[route.site.system].TRAITS, route.allocation.nodes > 1
    loops = _loops(workload)
    return (
        "base",
        *(("endfile",) if traits.signals_one_host and several else ()),
        *(() if traits.lists_usage or several else ("usage",)),
        *loops,
        *(("modules",) if modules else ()),
        *(("host",) if site.runtime is Runtime.HOST else _container_parts(workload, site, ranks=bool(ranks))),
        *(("devices",) if devices else ()),
        *(("rankdevices",) if devices and ranks else ()),
        *(("pairs", "talk") if ranks and site.runtime is not Runtime.HOST else ()),
        "mpi" if ranks else "plain",
        *(("launches", "covers", "launchwords", "launcheroptions") if ranks and ranks.inside else ()),
        *(("timelimit",) if ranks and ranks.time_limit else ()),
        *lifecycle.parts(workload, host=site.runtime is Runtime.HOST, again=bool(loops)),
        *_credential_parts(workload, site),
    )


def _credential_parts(workload: Workload, site: Site) -> tuple[str, ...]:
    """The files for a Job with Secrets or tokens. They redefine what comes before."""
    if not uses_credentials(workload, site):
        return ()
    return ("hostsecrets", "credentials") if site.runtime is Runtime.HOST else ("credentials",)


def _container_parts(workload: Workload, site: Site, *, ranks: bool) -> tuple[str, ...]:
    """The files that containers need; those for pulls, volumes and overlays only if the script uses them."""
    return (
        "apptainer",
        *(() if understands_no_eval(site.runtime, site.runtime_version) else ("evaluating",)),
        *(("volumes",) if _follows_links(workload) else ()),
        *(("images",) if ranks or site.pull == "job" else ()),
        *(("overlay",) if site.writable == "overlay" else ()),
        *(("hostaliases",) if workload.naming.hosts else ()),
        *(("resolving",) if workload.naming.resolves else ()),
    )


def _follows_links(workload: Workload) -> bool:
    if not workload.volumes:
        return False
    volumes = {volume.name: volume for volume in workload.volumes}
    return any(follows(volumes[mount.volume], mount) for one in workload.containers for mount in one.mounts)


def _loops(workload: Workload) -> tuple[str, ...]:
    """The files for containers that restart, or that end last."""
    sidecars = any(one.kind is ContainerKind.SIDECAR for one in workload.containers)
    own = any(one.restarts for one in workload.containers)
    restarts = sidecars or own or workload.restart_policy == "OnFailure"
    return (*(("restarts",) if restarts else ()), *(("sidecars",) if sidecars else ()))


def _data(
    workload: Workload, route: Route, modules: tuple[str, ...], devices: Devices | None, ranks: _Ranks | None
) -> dict[str, Any]:
    """The values that templates read: the Job's, and the site's shell lines."""
    site = route.site
    return {
        "title": shown(f"{workload.namespace}/{workload.name}"),
        "kinds": " ".join([container.kind for container in workload.containers]),
        "names": words([container.name for container in workload.containers]),
        "deadline": max(1, route.allocation.deadline),
        "grace": route.allocation.grace,
        "restart_policy": quote(workload.restart_policy or "Never"),
        "log_limit": site.log_limit,
        "runtime": "" if site.runtime is Runtime.HOST else quote(site.runtime_path or site.runtime),
        "prefix": "SINGULARITYENV_" if site.runtime is Runtime.SINGULARITY else "APPTAINERENV_",
        "evaluates": "" if understands_no_eval(site.runtime, site.runtime_version) else "1",
        "from_log": words([container.name for container in workload.containers if container.message_from_log]),
        "modules": words(modules),
        "devices": devices,
        "mpi": ranks,
        "pre": "\n".join(site.pre),
        "post": "\n".join(site.post),
    }


def _blocks(
    workload: Workload, route: Route, devices: Devices | None, ranks: _Ranks | None, warnings: list[str]
) -> list[_Function]:
    """The function of each container."""
    blocks = []
    first = 0
    volumes = {volume.name: volume for volume in workload.volumes}
    for index, container in enumerate(workload.containers):
        own = ranks.start.own if ranks and ranks.index == index else None
        setting = Setting(workload, route, devices, own, first, volumes)
        lines = _BELOW.join(block(container, setting, warnings))
        blocks.append((f"container_{index}", container.kind.value, lines))
        if container.gpus and own is None and container.kind is not ContainerKind.INIT:
            first += container.gpus.value
    return blocks


def _lifecycles(workload: Workload) -> list[_Function]:
    return [(name, what, _BELOW.join(lines)) for name, what, lines in lifecycle.blocks(workload)]


def _ranks(workload: Workload, route: Route, warnings: list[str]) -> _Ranks | None:
    if route.profile is None or not is_mpi(workload, route.profile):
        return None
    container = mpi_container(workload)
    inside = starts_ranks(container)
    if inside and route.allocation.nodes == 1:
        return None  # its own launcher starts them in the same container, and all see the same files
    start = mpi.start_of(container, route, route.profile, inside=inside)
    warnings += start.warnings
    return _Ranks(
        index=_index(workload, container),
        count=route.allocation.ranks,
        start=start,
        profile=quote(route.profile.name),
        environment=words(start.environment),
        exports=route.profile.launcher is LauncherKind.OPENMPI,
        time_limit=container.launcher.time_limit if container.launcher else 0,
        inside=inside,
        covers=words(sorted({launch.program for launch in started_by(container).launches} or {"mpirun", "mpiexec"})),
        targets=words([mount.path for mount in container.mounts]),
        threads="" if says_threads(container) else str(route.allocation.cores_per_rank),
    )


def _index(workload: Workload, container: Container) -> int:
    return next(index for index, other in enumerate(workload.containers) if other is container)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    # A script is not HTML; router.script.quoting does the quoting.
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)  # noqa: S701
    environment.trim_blocks = environment.lstrip_blocks = True
    # The templates do not use Jinja's own functions, which would be copied for every script.
    environment.globals.clear()
    return environment


@lru_cache(maxsize=1)
def _template() -> Template:
    return _environment().from_string((resources.files("router.script") / "templates" / "own.j2").read_text("utf-8"))
