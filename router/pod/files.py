"""Makes the files of a Pod's directory whose content depends on the Pod: argv, environment, staged volumes.

Pure. Turns Pod, ConfigMaps and Secrets into contents by relative path (names: ``router.pod.layout``);
``router.host.writing`` writes them. The rules are the kubelet's (makeEnvironmentVariables; the configMap, secret,
downwardAPI and projected volumes of Kubernetes' API reference).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from router.errors import JobError
from router.names import ENV_TRACEPARENT
from router.pod import image as ociimage
from router.pod import layout
from router.pod.env import Sources, environment, keys_of_secrets
from router.pod.image import Used
from router.pod.volumes import Contents, check_amount, entries, volume_files
from router.workload import expand, limits
from router.workload.exposure import exposed_by
from router.workload.model import Container, Workload

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
SUBDIRECTORIES: Final = (layout.ARGV, layout.ENV, layout.FILES, layout.LOG, layout.EXIT)
"""Subdirectories that every Pod's directory has, even if empty."""
FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700


@dataclass(frozen=True, slots=True)
class Staged:
    """The files of one Pod.

    :param files: contents by path relative to the Pod's directory; a path that ends in ``/`` is an empty directory
    :param modes: the owner's permission bits of files whose mode differs from 0600
    :param warnings: sentences for an Event
    """

    files: Mapping[str, bytes] = field(repr=False)
    modes: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def add(self, path: str, content: bytes) -> Staged:
        """A copy with one more file, e.g. the script."""
        return replace(self, files={**self.files, path: content})


def stage(  # noqa: PLR0913 - all that a Pod's files are made from
    pod: Mapping[str, Any],
    workload: Workload,
    *,
    config_maps: Mapping[str, Mapping[str, Any]] = _NOTHING,
    secrets: Mapping[str, Mapping[str, Any]] = _NOTHING,
    allocatable: Mapping[str, str] = _NOTHING,
    tokens: Mapping[str, str] = _NOTHING,
    services: Mapping[str, str] = _NOTHING,
    images: Mapping[str, Used] = _NOTHING,
    traceparent: str = "",
) -> Staged:
    """The files of one Pod.

    Only contents that the script lacks are staged: values that the manifest gives literally stand in the script. Like a
    kubelet, this leaves out volumes that no container mounts.

    :param config_maps: of the Pod's namespace, by name, as the API serves them
    :param secrets: of the Pod's namespace, by name, as the API serves them
    :param allocatable: amounts that a limit reads as if it is not set: the ``cpu``, ``memory``, ``ephemeral-storage``
        quantities of the queue's node
    :param tokens: service account tokens by ``<volume>/<path>``, if the site stages them
    :param services: variables by which Services are found
    :param images: the known images, by container name
    :param traceparent: the place of the Pod's run in a trace, for its containers; empty without one
    :raises JobError: names the field (TooLarge does so too), before anything is written
    """
    sources = Sources(pod, config_maps, secrets, allocatable, tokens, services)
    files, warnings = _of_containers(workload, sources, images)
    if traceparent:
        _add_place(traceparent, workload, sources, files)
    modes = _add_volumes(workload, sources, files)
    return Staged(files, modes, tuple(warnings))


def _of_containers(
    workload: Workload, sources: Sources, images: Mapping[str, Used]
) -> tuple[dict[str, bytes], list[str]]:
    """The files of all containers, and warnings."""
    files: dict[str, bytes] = {}
    warnings: list[str] = []
    size = 0
    for container in workload.containers:
        _check_exposure(container, sources)
        values, notes = environment(container.name, sources)
        warnings += notes
        own = _container_files(container, values, sources)
        if (image := images.get(container.name)) is not None:
            own |= _image_files(container, values, sources, image)
        _check_limits(container, values, own, sources)
        size += sum(map(len, own.values()))
        files.update(own)
        check_amount(sources.path(container.name), size, len(files))
    return files, warnings


def _add_place(traceparent: str, workload: Workload, sources: Sources, files: dict[str, bytes]) -> None:
    """Add the place in a trace, for the batch job and for each container that has no such variable of its own."""
    files[layout.TRACEPARENT] = f"{traceparent}\n".encode()
    own = f"{ENV_TRACEPARENT}="
    for container in workload.containers:
        name = f"{layout.ENV}/{container.name}"
        image = _split(files.get(f"{layout.IMAGE_ENV}/{container.name}", b""))
        values, _ = environment(container.name, sources)
        if ENV_TRACEPARENT not in values and not any(entry.startswith(own) for entry in image):
            files[name] = files.get(name, b"") + f"{own}{traceparent}\0".encode()


def _add_volumes(workload: Workload, sources: Sources, files: dict[str, bytes]) -> dict[str, int]:
    """Add the files of the volumes that containers mount; returns the modes."""
    modes: dict[str, int] = {}
    size, count = sum(map(len, files.values())), len(files)
    mounted = {layout.ACCOUNT_VOLUME} | {
        mount.volume for container in workload.containers for mount in container.mounts
    }
    for volume in sources.pod["spec"].get("volumes") or ():
        if volume.get("name") not in mounted:
            continue
        contents = volume_files(volume, sources)
        size, count = size + sum([len(content) for content, _ in contents.values()]), count + entries(contents)
        check_amount(f"spec.volumes[{volume['name']}]", size, count)
        _lay_out(contents, f"{layout.FILES}/{volume['name']}", files, modes)
    return modes


def _check_exposure(container: Container, sources: Sources) -> None:
    """Raise JobError if a value of a Secret would stand in a command line."""
    for found in exposed_by(container, keys_of_secrets(container.name, sources)):
        raise JobError(found.path, found.reason)


def _lay_out(contents: Contents, below: str, files: dict[str, bytes], modes: dict[str, int]) -> None:
    for path, (content, mode) in contents.items():
        name = f"{below}/{path}"
        files[name] = content
        if mode & DIRECTORY_MODE != FILE_MODE and not name.endswith("/"):
            modes[name] = mode & DIRECTORY_MODE


def _container_files(container: Container, values: Mapping[str, str], sources: Sources) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    path = sources.path(container.name)
    literal = expand.literal_env(container)
    later = {name: value for name, value in values.items() if literal.get(name) != value}
    if later:
        words = [f"{name}={value}" for name, value in later.items()]
        files[f"{layout.ENV}/{container.name}"] = _terminated(words, f"{path}.env")
    if expand.argv(container) is None:
        where = f"{path}.{'command' if container.command else 'args'}"
        room = expand.MOST_STRINGS - sum([len(name) + len(value) + 2 for name, value in values.items()])
        argv = expand.resolve_argv(container, values, where, room)
        files[f"{layout.ARGV}/{container.name}"] = _terminated(argv, where)
    return files


def _image_files(container: Container, values: Mapping[str, str], sources: Sources, used: Used) -> dict[str, bytes]:
    """The files about an image: what the script needs to know, its environment, and the argv if the image gives it."""
    config, name, path = used.answer.config, container.name, f"{sources.path(container.name)}.image"
    complete = config is not None and not container.command and container.launcher is None
    files = {f"{layout.IMAGE}/{name}": _terminated(ociimage.staged(used, complete=complete), path)}
    if config is None:
        return files
    if environment := ociimage.environment(config):
        files[f"{layout.IMAGE_ENV}/{name}"] = _terminated(environment, path)
    if complete:
        room = expand.MOST_STRINGS - sum([len(word) + 1 for word in environment])
        args = expand.resolve_argv(container, values, f"{path.removesuffix('.image')}.args", room)
        files[f"{layout.ARGV}/{name}"] = _terminated(ociimage.words(config, None, args), path)
    return files


def _check_limits(
    container: Container, values: Mapping[str, str], files: Mapping[str, bytes], sources: Sources
) -> None:
    """Raise TooLarge if script and staged files together would pass too much to the container."""
    staged, image = files.get(f"{layout.ARGV}/{container.name}"), files.get(f"{layout.IMAGE_ENV}/{container.name}")
    words = (expand.argv(container) or ()) if staged is None else _split(staged)
    variables = dict([entry.partition("=")[::2] for entry in _split(image or b"")])
    limits.check(container, sources.path(container.name), words, {**variables, **values})


def _split(content: bytes) -> list[str]:
    return content.decode(errors="surrogateescape").split("\0")[:-1]


def _terminated(words: list[str] | tuple[str, ...], path: str) -> bytes:
    for word in words:
        if "\0" in word:
            name = word.partition("=")[0]
            raise JobError(path, f"the value of {name!r} has a NUL byte, which no process can be given; take it out")
    encoded = [word.encode(errors="surrogateescape") for word in words]
    if (longest := max(map(len, encoded), default=0)) > expand.LONGEST_STRING:
        raise expand.string_too_large(path, longest)
    if sum(map(len, encoded)) + len(encoded) > expand.MOST_STRINGS:
        raise expand.strings_too_large(path)
    return b"".join([word + b"\0" for word in encoded])


def relative(name: str) -> PurePosixPath:
    """A staged file's name as a path in the Pod's directory. Raises ValueError if it leaves the directory."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{name!r} leaves the Pod's directory")
    return path
