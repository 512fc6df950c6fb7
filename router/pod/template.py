"""Computes a digest of the part of a Pod template that decides what runs, in one form however it was written.

Pure. Covered are the fields that script and files are made from: containers with their commands, images, environments
and mounts; volumes; deadlines. Three kinds of fields are left out:

- fields that Kubernetes lets change on a suspended Job (labels, annotations, nodeSelector, tolerations, affinity,
  scheduling gates, amounts): if such a change decides something, the Job is signed anew;
- fields without a meaning on HPC: they stay unread and decide nothing;
- the host name, which is the Pod's own: Kubernetes gives each index of a Job another one.

The webhook computes the digest before the API server drops fields whose feature is off, the agent after. Of the covered
fields, an older API server drops only ones that keep a Job in the cloud. If it drops another one, the digest differs,
and the Job is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from router.values import unchanging

Fields = Mapping[str, Any]

GROUPS: Final = ("initContainers", "containers")
POD_FIELDS: Final = (
    "restartPolicy",
    "activeDeadlineSeconds",
    "terminationGracePeriodSeconds",
    "serviceAccountName",
    "imagePullSecrets",
)
CONTAINER_FIELDS: Final = (
    "image",
    "imagePullPolicy",
    "command",
    "args",
    "workingDir",
    "restartPolicy",
    "env",
    "envFrom",
    "volumeMounts",
    "terminationMessagePath",
    "terminationMessagePolicy",
)
POD_SURROUNDINGS: Final = ("hostAliases", "dnsConfig")
"""Fields of the Pod that an earlier release did not run, and a digest of their own covers; so do the next."""
CONTAINER_SURROUNDINGS: Final = ("startupProbe", "livenessProbe", "lifecycle")
_READINESS: Final = "readinessProbe"
_STOP_SIGNAL: Final = "stopSignal"
_AROUND_POD: Final = frozenset(POD_SURROUNDINGS)
_AROUND: Final = frozenset(CONTAINER_SURROUNDINGS)
_AROUND_WITH_READINESS: Final = _AROUND | {_READINESS}
_NUMBERS: Final = frozenset({int, float})
_MOUNTS: Final = "volumeMounts"
_BEFORE_MOUNTS: Final = ("name", *CONTAINER_FIELDS[: CONTAINER_FIELDS.index(_MOUNTS)])
_AFTER_MOUNTS: Final = CONTAINER_FIELDS[CONTAINER_FIELDS.index(_MOUNTS) + 1 :]
_MOUNT_FIELDS: Final = ("name", "mountPath", "subPath", "subPathExpr", "readOnly")
_READ_ONLY_ROOT: Final = "readOnlyRootFilesystem"
_JSON: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@unchanging
class Difference:
    """One field in which two templates differ.

    :param group: of the field's container or volume, e.g. ``containers``; empty for a field of the Pod
    :param name: of the field's container or volume
    :param field: empty for a whole container or volume
    :param added: whether only the second template has it
    :param removed: whether only the first template has it
    """

    group: str
    name: str
    field: str
    added: bool = False
    removed: bool = False


def digest(spec: object) -> str:
    """SHA-256, in hex, of the fields of a Pod's spec that decide what runs."""
    return hashlib.sha256(_JSON.encode(_normal(spec)).encode()).hexdigest()


def surroundings(spec: object, *, readiness: bool) -> str:
    """SHA-256, in hex, of what is done around a Pod's containers: hooks, probes, names. Empty without any.

    :param readiness: whether readiness probes count. An earlier release sent Jobs to HPC that have one, and ran none
    """
    found = _surroundings(spec if isinstance(spec, dict) else {}, readiness=readiness)
    return hashlib.sha256(_JSON.encode(found).encode()).hexdigest() if found else ""


def _surroundings(spec: Fields, *, readiness: bool) -> dict[str, Any]:
    wanted = _AROUND_WITH_READINESS if readiness else _AROUND
    if _AROUND_POD.isdisjoint(spec) and all(
        wanted.isdisjoint(one) for group in GROUPS for one in _mappings(spec.get(group))
    ):
        return {}  # nearly always
    found: dict[str, Any] = {field: _plain(spec.get(field)) for field in POD_SURROUNDINGS}
    for group in GROUPS:
        mine = [_around(one, readiness=readiness) for one in _mappings(spec.get(group))]
        found[group] = mine if any(len(one) > 1 for one in mine) else []
    return {field: value for field, value in found.items() if not _says_nothing(value)}


def _around(container: Fields, *, readiness: bool) -> dict[str, Any]:
    fields = (*CONTAINER_SURROUNDINGS, *((_READINESS,) if readiness else ()))
    found: dict[str, Any] = {field: _plain(container.get(field)) for field in fields}
    if isinstance(found["lifecycle"], dict) and found["lifecycle"].get(_STOP_SIGNAL) == "SIGTERM":
        found["lifecycle"] = {key: value for key, value in found["lifecycle"].items() if key != _STOP_SIGNAL}
    return {
        "name": container.get("name"),
        **{field: value for field, value in found.items() if not _says_nothing(value)},
    }


def differences(one: object, other: object) -> Iterator[Difference]:
    """The differences of two Pod specs in the covered fields: containers and volumes by name, in the second's order."""
    before, now = _whole(one), _whole(other)
    for group in (*GROUPS, "volumes"):
        yield from _of_group(group, before.pop(group, []), now.pop(group, []))
    for field in (*before.keys(), *(now.keys() - before.keys())):
        if before.get(field) != now.get(field):
            yield Difference("", "", field, field not in before, field not in now)


def _of_group(group: str, before: list[Any], now: list[Any]) -> Iterator[Difference]:
    known: dict[
        str, list[Any]
    ] = {}  # several may have one name, or none, in a template that the API server will refuse
    for one in before:
        known.setdefault(str(one.get("name")), []).append(one)
    for mine in now:
        name = str(mine.get("name"))
        if not known.get(name):
            yield Difference(group, name, "", added=True)
            continue
        theirs = known[name].pop(0)
        for field in dict.fromkeys((*theirs, *mine)):
            if theirs.get(field) != mine.get(field):
                yield Difference(group, name, field, field not in theirs, field not in mine)
    yield from (Difference(group, name, "", removed=True) for name, left in known.items() for _ in left)


def _whole(spec: object) -> dict[str, Any]:
    """All covered fields, those around the containers with them."""
    found = _normal(spec)
    around = _surroundings(spec if isinstance(spec, dict) else {}, readiness=True)
    for group in GROUPS:
        if mine := around.pop(group, []):
            found[group] = [{**one, **other} for one, other in zip(found[group], mine, strict=True)]
    return {**found, **around}


def _normal(spec: object) -> dict[str, Any]:
    """The covered fields that are set: absent, null, false and empty are the same to Kubernetes."""
    fields = spec if isinstance(spec, dict) else {}
    found = _present(fields, POD_FIELDS)
    for group in GROUPS:
        if containers := [_container(one) for one in _mappings(fields.get(group))]:
            found[group] = containers
    if volumes := [_plain(one) for one in _mappings(fields.get("volumes"))]:
        found["volumes"] = volumes
    return found


def _container(container: Fields) -> dict[str, Any]:
    security = container.get("securityContext")
    found = _present(container, _BEFORE_MOUNTS)
    mounts = [
        {field: mount[field] for field in _MOUNT_FIELDS if not _says_nothing(mount.get(field))}
        for mount in _mappings(container.get(_MOUNTS))
    ]
    if mounts:
        found[_MOUNTS] = mounts
    found |= _present(container, _AFTER_MOUNTS)
    if isinstance(security, dict) and security.get(_READ_ONLY_ROOT) is True:
        found[_READ_ONLY_ROOT] = True
    return found


def _present(owner: Fields, names: tuple[str, ...]) -> dict[str, Any]:
    """The fields that say something, in the order of the names. Most are missing or texts."""
    found: dict[str, Any] = {}
    for name in names:
        value = owner.get(name)
        if value is None:
            continue
        if value.__class__ is not str:
            value = _plain(value)
        if not _says_nothing(value):
            found[name] = value
    return found


def _mappings(value: object) -> list[Fields]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _plain(value: object) -> object:
    """A value without its unset fields. All entries of a list are kept: an empty word in argv is a word."""
    if isinstance(value, dict):
        found = {key: below if below.__class__ is str else _plain(below) for key, below in value.items()}
        return {key: below for key, below in found.items() if not _says_nothing(below)}
    if isinstance(value, list):
        return [below if below.__class__ is str else _plain(below) for below in value]
    return value


def _says_nothing(value: object) -> bool:
    """Whether a value is null, false or empty. A number says something, 0 as well."""
    return not value and value.__class__ not in _NUMBERS
