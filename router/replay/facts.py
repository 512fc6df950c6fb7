"""Keeps what decides about a Job, and no value that its user wrote into it: for the decision log.

Pure. A sized Job (``Workload``) holds all that rules, accounts, queues and sites are asked about. Here it loses the
texts that only a script needs: words of commands, values of variables, headers, addresses. Of such a text the names
that it refers to as ``$(NAME)`` stay, as they decide whether a Secret would stand in a command line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from pydantic import TypeAdapter, ValidationError

from router.workload.expand import refers
from router.workload.lifecycle import Handler, Lifecycle
from router.workload.model import MESSAGE_PATH, Container, EnvVar, Launcher, Volume, Workload
from router.workload.naming import Naming

_KEPT_OF_SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "hostPath": ("path", "type"),
    "nfs": ("server", "path", "readOnly"),
    "csi": ("driver", "volumeAttributes", "readOnly"),
    "image": ("reference",),
    "persistentVolumeClaim": ("claimName", "readOnly"),
    "secret": ("secretName",),
}
"""What ``router.site`` reads of a volume's source, by its kind. Of a projected volume, see ``_projected``."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,252}")


def without_values(workload: Workload) -> Workload:
    """The same Workload for every decision, without what its user wrote into commands, variables and probes."""
    return replace(
        workload,
        containers=tuple([_container(one) for one in workload.containers]),
        volumes=tuple([_volume(one) for one in workload.volumes]),
        naming=_naming(workload.naming),
        warnings=(),
    )


def dumped(workload: Workload) -> str:
    """The Workload as JSON, without fields that have their default. Raises ValueError if it holds half a character."""
    return _adapter().dump_json(workload, exclude_defaults=True).decode()


def loaded(value: object) -> Workload:
    """The Workload that was dumped. Raises ValueError, with the field, if it is none."""
    try:
        found = _adapter().validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"workload.{place}: {first['msg']}") from None
    if not found.containers:
        raise ValueError("workload.containers: is empty")
    return found


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[Workload]:
    return TypeAdapter(Workload)


# --- what is left out ------------------------------------------------------------------------------------------


def _references(text: str) -> str:
    """The variables that a text refers to, in the notation of Kubernetes. ``$(cat x)`` is a shell's, and no name."""
    if "$(" not in text:
        return ""
    return "".join([f"$({name})" for name in refers(text) if _NAME.fullmatch(name)])


def _words(words: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The references in each word, up to the last that has one. One word stays: whether there is any decides as well."""
    if not words:
        return words
    found = [_references(one) for one in words]
    last = max((index for index, one in enumerate(found) if one), default=0)
    return tuple(found[: last + 1])


def _container(container: Container) -> Container:
    return replace(
        container,
        command=_words(container.command),
        args=_words(container.args),
        env=tuple([_variable(one) for one in container.env]),
        working_dir="",
        launcher=None if container.launcher is None else _launcher(container.launcher),
        started=None,
        message_path=MESSAGE_PATH,
        lifecycle=None if container.lifecycle is None else _lifecycle(container.lifecycle),
    )


def _variable(variable: EnvVar) -> EnvVar:
    return variable if not variable.value else EnvVar(variable.name, _references(variable.value), variable.source)


def _launcher(launcher: Launcher) -> Launcher:
    """The launcher: its figures are in the Workload already."""
    return Launcher(program="", argv=(), source=launcher.source)


def _lifecycle(lifecycle: Lifecycle) -> Lifecycle:
    return Lifecycle(
        post_start=None if lifecycle.post_start is None else _handler(lifecycle.post_start),
        pre_stop=None if lifecycle.pre_stop is None else _handler(lifecycle.pre_stop),
        probes=tuple([replace(probe, handler=_handler(probe.handler)) for probe in lifecycle.probes]),
    )


def _handler(handler: Handler) -> Handler:
    return Handler(handler.kind, port=handler.port)


def _naming(naming: Naming) -> Naming:
    """Whether the Pod adds names, and whether it has settings of DNS: not which."""
    return Naming(hosts=naming.hosts and ("",), alone=naming.alone, servers=("",) if naming.resolves else ())


def _volume(volume: Volume) -> Volume:
    if volume.kind == "projected":
        source: Mapping[str, object] = _projected(volume.source)
    else:
        kept = _KEPT_OF_SOURCES.get(volume.kind, ())
        source = {key: volume.source[key] for key in kept if key in volume.source}
    return replace(volume, source=source)


def _projected(source: Mapping[str, object]) -> Mapping[str, object]:
    """The kinds of the sources, and the names of Secrets."""
    listed = source.get("sources")
    return {"sources": [_projection(one) for one in listed]} if isinstance(listed, list) else {}


def _projection(source: object) -> Mapping[str, object]:
    if not isinstance(source, dict):
        return {}
    return {
        kind: {"name": value["name"]} if isinstance(value, dict) and "name" in value else {}
        for kind, value in source.items()
    }
