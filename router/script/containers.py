"""Writes one container as the lines of a bash function: what it runs, in which environment, with which paths.

Pure. Each line calls a function of the templates or sets a variable; every value in it is quoted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from router.pod import layout
from router.pod.accounttoken import MOUNTED_AT
from router.policy.decision import Route
from router.script.quoting import quote, words
from router.site import images, sharing
from router.site.allocation import is_mpi
from router.site.credentials import brings_token
from router.site.schema import Runtime, Site
from router.site.volumes import EMPTY, STAGED, SitePath, path_problem, place_of
from router.values import unchanging
from router.workload import expand
from router.workload.inside import starts_ranks
from router.workload.launchernames import mention
from router.workload.model import MESSAGE_PATH, Container, ContainerKind, GpuVendor, Mount, Volume, Workload
from router.workload.naming import Naming

_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - a path inside containers
_TMP: Final = ("/tmp", "/var/tmp")  # noqa: S108
_DEV: Final = "/dev/"
# A launcher that stays in its container would bind its ranks to the node's first cores, as that of the next Job does.
_UNBOUND: Final = {
    "OMPI_MCA_hwloc_base_binding_policy": "none",  # Open MPI 4
    "PRTE_MCA_hwloc_default_binding_policy": "none",  # and 5
    "I_MPI_PIN": "0",
}


@unchanging
class Devices:
    """The GPUs of a node.

    :param variable: the environment variable that lists them
    :param files: a glob of their device files
    :param per_node: how many must be visible on each node
    :param per_rank: how many each rank gets for itself; 0 if all ranks see all
    :param ranks_per_share: how many ranks share the same GPUs
    """

    variable: str
    files: str
    per_node: int
    per_rank: int = 0
    ranks_per_share: int = 0


_VENDORS: Final = {
    GpuVendor.NVIDIA: ("CUDA_VISIBLE_DEVICES", "/dev/nvidia[0-9]*", "--nv"),
    GpuVendor.AMD: ("ROCR_VISIBLE_DEVICES", "/dev/dri/renderD*", "--rocm"),
}


@unchanging
class Setting:
    """What a container's function needs beside the container.

    :param own: variables that the user's launcher set; None for other containers than the MPI program's
    :param first_gpu: index of its first device in the node's list
    :param volumes: the Pod's volumes by name, made once for all containers
    """

    workload: Workload
    route: Route
    devices: Devices | None
    own: Sequence[str] | None
    first_gpu: int
    volumes: Mapping[str, Volume]


def vendor_of(workload: Workload, route: Route) -> GpuVendor:
    """The vendor of a Job's GPUs: the Job's choice, else the queue's."""
    return workload.gpu_vendor or route.queue.gpu_vendor or GpuVendor.NVIDIA


def devices_of(workload: Workload, route: Route) -> Devices | None:
    """The GPUs that a Job gets on each node; None without GPUs."""
    per_node = max([chunk.gpus for chunk in route.allocation.chunks])
    if not per_node:
        return None
    variable, files, _ = _VENDORS[vendor_of(workload, route)]
    if not sharing.is_bound(route.profile) or not is_mpi(workload, route.profile):
        return Devices(variable, files, per_node)
    ranks = max([chunk.ranks for chunk in route.allocation.chunks])
    return Devices(variable, files, per_node, *sharing.share(per_node, ranks))


def block(container: Container, setting: Setting, warnings: list[str]) -> list[str]:
    """The lines of the function that sets a container's values. Sentences for the user are added to ``warnings``."""
    site, ranks = setting.route.site, setting.own is not None
    lines = list(_program(container, ranks=ranks))
    lines += _environment(container, setting)
    if gpus := _gpus(container, setting):
        lines.append(f"gpus={gpus} first_gpu={setting.first_gpu}")
    if site.runtime is Runtime.HOST:
        if container.message_path != MESSAGE_PATH:
            warnings.append(
                f"{container.path}.terminationMessagePath: {container.message_path} is a file of the machine, so it is not read: "
                f"site {site.name} runs commands without a container"
            )
        return lines
    if ranks and (nodes := setting.route.allocation.nodes) > 1 and _asks_for_hostname(container):
        warnings.append(
            f"{container.path}: it starts ranks on {nodes} nodes, so its hostname is the first node's, not the Pod's"
        )
    lines.append(f"image={quote(images.reference(site, container.image))}")
    lines.append(f"options=({_options(container, setting, gpus)})")
    lines += _binds(container, setting, warnings)
    lines += _message(container, warnings)
    lines += _naming(setting.workload.naming)
    return lines


def _naming(naming: Naming) -> Iterator[str]:
    """The lines that add to what ``/etc/hosts`` and ``/etc/resolv.conf`` say."""
    if naming.hosts:
        yield f"host_aliases {words(naming.hosts)}"
    if naming.resolves:
        given = [" ".join(one) for one in (naming.servers, naming.searches, naming.options)]
        yield f"resolving {words(('1' if naming.alone else '', *given))}"


def _asks_for_hostname(container: Container) -> bool:
    return any("hostname" in word.lower() for word in (*(container.command or ()), *(container.args or ())))


def _program(container: Container, *, ranks: bool) -> Iterator[str]:
    if container.command or container.launcher or (ranks and not starts_ranks(container)):
        yield "command=1"
    argv = expand.argv(container)
    yield "needs_argv=1" if argv is None else f"argv=({words(argv)})"
    directory = (container.launcher.working_dir if container.launcher else "") or container.working_dir
    if directory:
        yield f"workdir={quote(directory)}"


def _environment(container: Container, setting: Setting) -> Iterator[str]:
    literal = expand.literal_env(container)
    given = []
    if not says_threads(container):
        given.append(f"OMP_NUM_THREADS={_threads(container, setting)}")
    if setting.own is None and mention((*(container.command or ()), *(container.args or ()))):
        given += [f"{name}={value}" for name, value in _UNBOUND.items() if name not in literal]
    given += [f"{name}={value}" for name, value in literal.items() if "=" not in name]
    yield f"env=({words(given)})"
    if setting.own:
        yield f"own=({words(setting.own)})"


def says_threads(container: Container) -> bool:
    """Whether a container's own environment says how many threads its processes have."""
    return any(variable.name == "OMP_NUM_THREADS" for variable in container.env)


def _threads(container: Container, setting: Setting) -> int:
    """Cores for the threads of one process, which would otherwise use all cores of the node.

    ``nproc`` prints the same number, by which a text may say how many ranks it starts.
    """
    once = setting.own is None or starts_ranks(container)
    if once and container.cpu is not None and container.cpu.value:
        return -(-container.cpu.value // 1000)
    return setting.route.allocation.cores_per_rank


def _gpus(container: Container, setting: Setting) -> int:
    if setting.devices is None:
        return 0
    if setting.own is not None:
        return setting.devices.per_node
    if container.gpus is not None:
        return container.gpus.value
    # The Pod as a whole asks for the GPUs.
    asked = any(other.gpus for other in setting.workload.containers)
    return 0 if asked or container.kind is ContainerKind.INIT else setting.devices.per_node


def _options(container: Container, setting: Setting, gpus: int) -> str:
    site = setting.route.site
    options = [_site_options(site)]
    if setting.own is None:
        # A container's remaining processes end with it, as in Kubernetes. Ranks of one node must see each other.
        options.append("--pid")
    if not container.read_only_root and site.writable != "none":
        # Only one process can write an overlay, so ranks write to memory.
        overlay = site.writable == "overlay" and setting.own is None
        options.append('--overlay "$(overlay)"' if overlay else "--writable-tmpfs")
    if gpus:
        options.append(_VENDORS[vendor_of(setting.workload, setting.route)][2])
    if images.is_insecure(site, container.image):
        options.append("--no-https")
    return " ".join(options)


@lru_cache(maxsize=256)
def _fixed_options(runtime: Runtime, version: str | None, options: tuple[str, ...]) -> str:
    # Never --contain: a private /dev/shm ends the shared memory of ranks.
    no_eval = " --no-eval" if understands_no_eval(runtime, version) else ""
    return f"--cleanenv --no-home{no_eval}" + "".join([f" {quote(option)}" for option in options])


def _site_options(site: Site) -> str:
    return _fixed_options(site.runtime, site.runtime_version, site.runtime_options)


@lru_cache(maxsize=64)
def understands_no_eval(runtime: Runtime, version: str | None) -> bool:
    """Whether the runtime can be told to take environment values as they are (``--no-eval``).

    Apptainer since 1.1, SingularityCE since 3.10; a site that declares no version has a current one.
    """
    if version is None or runtime is Runtime.HOST:
        return True
    numbers = tuple(int(part) for part in version.split("."))
    return numbers >= (3, 10) or (1, 1) <= numbers < (2,)


def _binds(container: Container, setting: Setting, warnings: list[str]) -> Iterator[str]:
    ranks = setting.own is not None
    targets = [mount.path.rstrip("/") or "/" for mount in container.mounts]
    if not any(target in _TMP for target in targets):
        yield "shared_tmp" if ranks and setting.route.allocation.nodes > 1 else "own_tmp"
    if brings_token(setting.workload, setting.route.site) and MOUNTED_AT not in targets:
        yield f'[[ ! -d $dir/{layout.FILES}/{layout.ACCOUNT_VOLUME} ]] || mount "$dir"/{layout.FILES}/{layout.ACCOUNT_VOLUME} {MOUNTED_AT} ro'
    profile = setting.route.profile
    for bind in profile.binds if ranks and profile else ():
        yield f"binds+=(--bind {quote(bind)})"
    # A mount below another one comes after it.
    for mount in sorted(container.mounts, key=lambda mount: mount.path):
        volume = setting.volumes[mount.volume]
        if node_s_own(volume, mount):
            warnings.append(
                f"{volume.path}: at {mount.path} container {container.name} gets the node's own {mount.path}, not an empty directory"
            )
        else:
            yield from _bind(volume, mount, setting)


def _message(container: Container, warnings: list[str]) -> Iterator[str]:
    """The line for the container's termination message, if its file can be bound."""
    path = container.message_path
    if problem := _message_problem(container):
        warnings.append(f"{container.path}.terminationMessagePath: {path} {problem}, so no termination message is read")
        return
    if path.startswith(_DEV) and path != MESSAGE_PATH:
        warnings.append(f"{container.path}.terminationMessagePath: {path} is read only on nodes that have such a file")
    yield f"message {quote(path)}"


def _message_problem(container: Container) -> str | None:
    path = container.message_path
    if not path.startswith("/") or ".." in path.split("/") or path_problem(path):
        return "is not a plain absolute path"
    if any(f"{path}/".startswith(f"{mount.path.rstrip('/')}/") for mount in container.mounts):
        return "lies in a volume"
    return None


def node_s_own(volume: Volume, mount: Mount) -> bool:
    """Whether the node's directory replaces an emptyDir: for /dev/shm, as ranks may meet there."""
    return volume.kind in EMPTY and mount.path.rstrip("/") == _SHARED_MEMORY


def follows(volume: Volume, mount: Mount) -> bool:
    """Whether links must be followed to the mounted path: always, except for whole volumes in the Pod's directory."""
    return bool(mount.sub_path) or volume.kind not in EMPTY | STAGED


_READ_ONLY: Final = {(False, False): "", (False, True): "", (True, False): " ro", (True, True): " ro made"}
"""By whether a mount is read-only, and whether directories of its subPath are made all the same, as by a kubelet."""


def _bind(volume: Volume, mount: Mount, setting: Setting) -> Iterator[str]:
    name = quote(volume.name)
    call, path = "volume" if follows(volume, mount) else "mount", quote(mount.path)
    below = f"'' {quote(mount.sub_path)} {path}" if call == "volume" else path
    rest = f"{below}{_READ_ONLY[mount.read_only, call == 'volume']}"
    if volume.kind in EMPTY:
        yield f'mkdir -p "$dir"/{layout.VOLUMES}/{name}'
        yield f'{call} "$dir"/{layout.VOLUMES}/{name} {rest}'
    elif volume.kind in STAGED:
        yield f'{call} "$dir"/{layout.FILES}/{name} {below} ro'
    else:
        place = place_of(setting.workload, volume, setting.route.site)
        if not isinstance(place, SitePath):
            raise TypeError(f"{volume.path}: {place}; unsupported() says so before a script is rendered")
        read_only = mount.read_only or place.read_only
        words = (place.path, place.below, mount.sub_path, mount.path)
        made = bool(mount.sub_path) and not place.read_only
        yield f"volume {' '.join([quote(word) for word in words])}{_READ_ONLY[read_only, made]}"
