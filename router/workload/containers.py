"""Reads the containers and volumes of a Pod template into values.

Pure. Knows the fields that a run needs (words, environment, mounts). ``obstacles`` judges what keeps a container out of
HPC, and ``resources`` what it asks for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from router.errors import JobError
from router.workload.claims import Claims
from router.workload.credentialfields import of_all_keys, of_variable
from router.workload.credentials import SecretRef
from router.workload.envsources import judge_source
from router.workload.expand import LENGTH_LATER, MOST_REFERENCES, MOST_TEXT, check_expansion
from router.workload.fields import (
    Fields,
    Findings,
    as_mappings,
    data_text,
    flag,
    mapping,
    mappings,
    text,
    texts,
)
from router.workload.handlers import read_lifecycle
from router.workload.model import MESSAGE_PATH, Container, ContainerKind, EnvVar, Figure, Mount, Volume
from router.workload.restarts import read_restarts

MOST_CONTAINERS: Final = 1000
_FEW_REFERENCES: Final = 20
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

Listed = tuple[ContainerKind, str, Fields]
"""A container's kind, path and fields."""

Figures = tuple[Figure | None, Figure | None, Figure | None]
"""A container's own CPU (millicores), memory (bytes) and GPUs."""


def list_containers(spec: Fields, path: str) -> list[Listed]:
    """All containers in the order in which they start. Raises JobError if there are none, or far too many."""
    init = mappings(spec, "initContainers", path)
    main = mappings(spec, "containers", path)
    if not main:
        raise JobError(f"{path}.containers", "is empty; a Pod needs at least one container")
    if len(init) + len(main) > MOST_CONTAINERS:
        raise JobError(f"{path}.containers", f"holds {len(init) + len(main)} containers; at most {MOST_CONTAINERS}")
    found = [(_init_kind(container, here), here, container) for here, container in init]
    found += [(ContainerKind.MAIN, here, container) for here, container in main]
    return found


def _init_kind(container: Fields, path: str) -> ContainerKind:
    return ContainerKind.SIDECAR if text(container, "restartPolicy", path) == "Always" else ContainerKind.INIT


def read_container(listed: Listed, name: str, figures: Figures, findings: Findings) -> Container:
    """One container. Environment sources that HPC does not have become obstacles."""
    kind, path, fields = listed
    env, secrets = _env(fields, path, findings)
    sources = mappings(fields, "envFrom", path)
    if sources:
        secrets += [of_all_keys(source, here) for here, source in sources if source.get("secretRef")]
    return Container(
        name=name,
        kind=kind,
        path=path,
        image=_data(fields, "image", path),
        command=texts(fields, "command", path),
        args=texts(fields, "args", path),
        env=env,
        env_from=bool(sources),
        working_dir=_data(fields, "workingDir", path),
        mounts=tuple([_mount(here, mount) for here, mount in mappings(fields, "volumeMounts", path)]),
        read_only_root=_read_only_root(fields, path),
        cpu=figures[0],
        memory=figures[1],
        gpus=figures[2],
        secrets=tuple(secrets),
        message_path=_data(fields, "terminationMessagePath", path) or MESSAGE_PATH,
        message_from_log=text(fields, "terminationMessagePolicy", path) == "FallbackToLogsOnError",
        lifecycle=read_lifecycle(fields, path, env, findings),
        restarts=read_restarts(fields, kind, path, findings),
    )


def _read_only_root(fields: Fields, path: str) -> bool:
    security = mapping(fields, "securityContext", path)
    return flag(security, "readOnlyRootFilesystem", f"{path}.securityContext") if security else False


def read_name(fields: Fields, path: str) -> str:
    """The name of a container or volume. Raises JobError if it is not a DNS label, as the API server demands."""
    name = text(fields, "name", path)
    if not _LABEL.fullmatch(name):
        raise JobError(
            f"{path}.name",
            f"{name[:80]!r} is not a name: 1 to 63 of a-z, 0-9 and '-', with a letter or digit at each end",
        )
    return name


def _data(fields: Fields, key: str, path: str) -> str:
    value = fields.get(key)
    if value is None:
        return ""
    if type(value) is str and value.isascii() and "\0" not in value:
        return value
    return data_text(value, f"{path}.{key}")


def _env(fields: Fields, path: str, findings: Findings) -> tuple[tuple[EnvVar, ...], list[SecretRef]]:
    found: list[EnvVar] = []
    secrets: list[SecretRef] = []
    listed = fields.get("env")
    if listed is None:
        return (), secrets
    for here, variable in as_mappings(listed, f"{path}.env"):
        name = _data(variable, "name", here)
        if not name or "=" in name:
            raise JobError(f"{here}.name", f"{name[:80]!r} is not a variable's name: it is empty or has '='")
        source = variable.get("valueFrom")
        if not source:
            found.append(EnvVar(name, _data(variable, "value", here)))
            continue
        if variable.get("value"):
            raise JobError(f"{here}.valueFrom", "cannot stand beside a value; take one of the two out")
        given = mapping(variable, "valueFrom", here)
        kinds = [key for key, reference in given.items() if reference is not None]
        if len(kinds) != 1:
            raise JobError(f"{here}.valueFrom", "must name exactly one source")
        found.append(EnvVar(name, None, kinds[0]))
        judge_source(kinds[0], given[kinds[0]], f"{here}.valueFrom", findings)
        if kinds[0] == "secretKeyRef":
            secrets.append(of_variable(given, f"{here}.valueFrom"))
    return tuple(found), secrets


def _mount(path: str, fields: Fields) -> Mount:
    return Mount(
        volume=text(fields, "name", path),
        path=_data(fields, "mountPath", path),
        sub_path=_data(fields, "subPath", path),
        read_only=flag(fields, "readOnly", path),
    )


def check_text(containers: Sequence[Container]) -> None:
    """Raise JobError if commands and environments, written or expanded, are larger than any process may have."""
    total = referred = 0
    for container in containers:
        words = [*(container.command or ()), *(container.args or ())]
        for variable in container.env:
            words.append(variable.name)
            if variable.value:
                words.append(variable.value)
        written = sum(map(len, words))
        total += written
        if total > MOST_TEXT:
            raise JobError(container.path, f"command, args and env of the Pod hold more than {MOST_TEXT} characters")
        references = sum([word.count("$(") for word in words])
        referred += references
        if referred > MOST_REFERENCES:
            raise JobError(
                container.path, f"brings the Pod to {referred} references such as $(NAME); at most {MOST_REFERENCES}"
            )
        # One reference at most doubles the text, so a few references in a short text need no check.
        if references > _FEW_REFERENCES or written + references * LENGTH_LATER << references > MOST_TEXT:
            check_expansion(container)


def read_volumes(spec: Fields, path: str, claims: Claims | None, namespace: str) -> tuple[Volume, ...]:
    """The Pod's volumes. Raises JobError for a volume without a name, with two sources, or with a repeated name.

    :param claims: those of the cluster, if they are known
    """
    listed = mappings(spec, "volumes", path)
    if not listed:
        return ()
    found: dict[str, Volume] = {}
    for here, fields in listed:
        name = read_name(fields, here)
        if name in found:
            raise JobError(f"{here}.name", f"{name!r} is the name of an earlier volume too")
        kinds = [key for key, source in fields.items() if key != "name" and source is not None]
        if len(kinds) > 1:
            raise JobError(here, f"has several sources ({', '.join(sorted(kinds))}); a volume has one")
        kind = kinds[0] if kinds else "emptyDir"  # the API server's default
        source = mapping(fields, kind, here)
        claimed = source.get("claimName") if kind == "persistentVolumeClaim" else None
        claim = claims.find(namespace, claimed) if claims is not None and isinstance(claimed, str) else None
        found[name] = Volume(name, kind, here, source, claim)
    return tuple(found.values())


def check_references(containers: Sequence[Container], volumes: tuple[Volume, ...]) -> None:
    """Raise JobError for two containers of one name, and for a mount of an unknown volume."""
    names: set[str] = set()
    known = {volume.name for volume in volumes}
    for container in containers:
        if container.name in names:
            raise JobError(f"{container.path}.name", f"{container.name!r} is the name of an earlier container too")
        names.add(container.name)
        for index, mount in enumerate(container.mounts):
            if mount.volume not in known:
                raise JobError(
                    f"{container.path}.volumeMounts[{index}].name", f"no volume is called {mount.volume[:80]!r}"
                )
            if not mount.path:
                raise JobError(f"{container.path}.volumeMounts[{index}].mountPath", "is empty; give an absolute path")
