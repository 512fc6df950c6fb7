"""Makes the environment of a Pod's containers, as the kubelet does, and reads the Pod fields that values may come from.

Pure. ``envFrom`` comes first, in order. Then comes ``env``, in which a value may refer to every variable before it
and to those of Services.
Values from elsewhere (``valueFrom``) are not expanded. A missing object or key is an error unless it is ``optional``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from router.errors import JobError
from router.names import COMPLETION_INDEX
from router.notation import quantity
from router.workload import expand
from router.workload.exposure import is_exported

INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
INDEX_KEY: Final = COMPLETION_INDEX

# validation.IsRelaxedEnvVarName. A kubelet takes each key since 1.32, such as 1st; 1.31 leaves out those that begin with a digit.
_ENV_NAME: Final = re.compile(r"[ -<>-~]+")
_MOST_NAMED: Final = 10
_KEYED_FIELD: Final = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_UNKNOWN_HERE: Final = frozenset({"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"})
_RESOURCES: Final = re.compile(r"(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-[A-Za-z0-9]+)")


@dataclass(frozen=True, slots=True)
class Sources:
    """What values may come from: the Pod, objects of its namespace by name, its node's resources, tokens by path."""

    pod: Mapping[str, Any]
    config_maps: Mapping[str, Mapping[str, Any]]
    secrets: Mapping[str, Mapping[str, Any]] = field(repr=False)
    allocatable: Mapping[str, str]
    tokens: Mapping[str, str] = field(repr=False)
    services: Mapping[str, str] = field(default_factory=dict)
    """Variables by which Services are found, each of which any other variable of that name overrides."""
    _contents: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict, repr=False, compare=False)
    """Decoded contents of ConfigMaps and Secrets by kind and name, shared by all references to them."""

    def containers(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Every container with its field path."""
        for group in ("initContainers", "containers"):
            for index, container in enumerate(self.pod["spec"].get(group) or ()):
                yield f"spec.{group}[{index}]", container

    def container(self, name: str) -> Mapping[str, Any]:
        """The container of that name. Raises JobError if the Pod has none."""
        for _, container in self.containers():
            if container.get("name") == name:
                return container
        raise JobError("spec.containers", f"the Pod has no container {name!r}")

    def path(self, name: str) -> str:
        """The field path of the container of that name."""
        for path, container in self.containers():
            if container.get("name") == name:
                return path
        return "spec.containers"

    def config_map(self, reference: Mapping[str, Any], path: str) -> dict[str, bytes] | None:
        """Contents of a ConfigMap by key, binary ones included; None if it is optional and missing."""
        found = self._found(self.config_maps, reference, path, "ConfigMap")
        if found is None:
            return None
        known = ("ConfigMap", str(reference.get("name")))
        if known not in self._contents:
            data = found.get("data") or {}
            contents = {key: str(value).encode(errors="surrogateescape") for key, value in data.items()}
            self._contents[known] = contents | _decoded(found.get("binaryData"), path)
        return self._contents[known]

    def secret(self, reference: Mapping[str, Any], path: str) -> dict[str, bytes] | None:
        """Contents of a Secret by key; None if it is optional and missing."""
        found = self._found(self.secrets, reference, path, "Secret")
        if found is None:
            return None
        known = ("Secret", str(reference.get("name") or reference.get("secretName")))
        if known not in self._contents:
            self._contents[known] = _decoded(found.get("data"), path)
        return self._contents[known]

    def _found(
        self, objects: Mapping[str, Mapping[str, Any]], reference: Mapping[str, Any], path: str, kind: str
    ) -> Mapping[str, Any] | None:
        name = reference.get("name") or reference.get("secretName") or ""
        if name in objects:
            return objects[name]
        if reference.get("optional"):
            return None
        raise JobError(path, f"{kind} {name!r} does not exist in the Job's namespace; create it or mark it optional")


def _decoded(data: Mapping[str, str] | None, path: str) -> dict[str, bytes]:
    try:
        return {key: base64.b64decode(value, validate=True) for key, value in (data or {}).items()}
    except (binascii.Error, ValueError) as error:
        raise JobError(path, f"its data is not base64: {error}") from error


def environment(name: str, sources: Sources) -> tuple[dict[str, str], list[str]]:
    """Every variable of a container in the order in which it is set, and warnings about invalid names.

    :raises TooLarge: if the environment is larger than a process may have; raised before it is built
    """
    container, path = sources.container(name), sources.path(name)
    values, warnings = _from_objects(container, path, sources)
    size = sum(map(_size, values.items()))
    seen = ChainMap(values, dict(sources.services))
    for index, variable in enumerate(container.get("env") or ()):
        value = _value(variable, seen, f"{path}.env[{index}]", name, sources)
        if value is not None:
            if (before := values.pop(variable["name"], None)) is not None:
                size -= _size((variable["name"], before))
            values[variable["name"]] = value
            size += _size((variable["name"], value))
            if size > expand.MOST_STRINGS:
                raise expand.strings_too_large(f"{path}.env[{index}]")
    metadata = sources.pod.get("metadata") or {}
    number = (metadata.get("annotations") or {}).get(INDEX_KEY)
    if number is not None:
        values.setdefault(INDEX_VARIABLE, number)
    return {**values, **{key: value for key, value in sources.services.items() if key not in values}}, warnings


def _size(variable: tuple[str, str]) -> int:
    """Characters that a variable takes, including ``=`` and the final NUL."""
    return sum(map(len, variable)) + 2


def _from_objects(container: Mapping[str, Any], path: str, sources: Sources) -> tuple[dict[str, str], list[str]]:
    values: dict[str, str] = {}
    warnings: list[str] = []
    size = 0
    for index, entry in enumerate(container.get("envFrom") or ()):
        where = f"{path}.envFrom[{index}]"
        if "configMapRef" in entry:
            reference = entry["configMapRef"]
            found = sources.config_map(reference, f"{where}.configMapRef")
            contents = _without_binary(found, reference, sources)
        else:
            reference = entry.get("secretRef") or {}
            contents = sources.secret(reference, f"{where}.secretRef") or {}
        named = {f"{entry.get('prefix') or ''}{key}": value for key, value in sorted(contents.items())}
        # Values that a later entry overrides count too: many entries with many keys each would take long.
        size += sum([len(key) + len(value) + 2 for key, value in named.items()])
        if size > expand.MOST_STRINGS:
            raise expand.strings_too_large(where)
        invalid = dict.fromkeys(key for key in named if not _ENV_NAME.fullmatch(key))
        if invalid:
            warnings.append(_skipped(where, list(invalid), "not valid as names of environment variables"))
        if unset := dict.fromkeys(
            key for key in named if "secretRef" in entry and key not in invalid and not is_exported(key)
        ):
            invalid |= unset
            warnings.append(_skipped(where, list(unset), _SHOWN))
        values.update((key, _text(value, where)) for key, value in named.items() if key not in invalid)
    return values, warnings


def _without_binary(
    found: Mapping[str, bytes] | None, reference: Mapping[str, Any], sources: Sources
) -> dict[str, bytes]:
    """The contents of a ConfigMap that a variable may have: those of ``data`` alone."""
    binary = (sources.config_maps.get(reference.get("name", "")) or {}).get("binaryData") or {}
    return {key: value for key, value in (found or {}).items() if key not in binary}


_SHOWN: Final = "on HPC only a command line could set such a variable, and others on the node read it"


def _skipped(where: str, invalid: list[str], why: str) -> str:
    more = f" and {len(invalid) - _MOST_NAMED} more" if len(invalid) > _MOST_NAMED else ""
    shown = ", ".join(invalid[:_MOST_NAMED])
    return f"{where}: skipped {shown}{more}: {why}"


def keys_of_secrets(name: str, sources: Sources) -> frozenset[str]:
    """The variables that a container's ``envFrom`` takes from Secrets."""
    container, path = sources.container(name), sources.path(name)
    found: set[str] = set()
    for index, entry in enumerate(container.get("envFrom") or ()):
        if reference := entry.get("secretRef"):
            contents = sources.secret(reference, f"{path}.envFrom[{index}].secretRef") or {}
            found |= {f"{entry.get('prefix') or ''}{key}" for key in contents}
    return frozenset(found)


def _value(
    variable: Mapping[str, Any], values: Mapping[str, str], path: str, container: str, sources: Sources
) -> str | None:
    """One variable's value; None if it is optional and missing."""
    source = variable.get("valueFrom")
    if variable.get("value") or not source:
        return expand.expand_within(variable.get("value") or "", values, f"{path}.value")
    if "fieldRef" in source:
        return field_value(source["fieldRef"], f"{path}.valueFrom.fieldRef", sources)
    if "resourceFieldRef" in source:
        return resource_value(source["resourceFieldRef"], f"{path}.valueFrom.resourceFieldRef", container, sources)
    for key, lookup in (("configMapKeyRef", sources.config_map), ("secretKeyRef", sources.secret)):
        if key in source:
            where = f"{path}.valueFrom.{key}"
            contents = lookup(source[key], where)
            if contents is not None and key == "configMapKeyRef":
                contents = _without_binary(contents, source[key], sources)
            return None if contents is None else _keyed(contents, source[key], where)
    raise JobError(f"{path}.valueFrom", f"{', '.join(source)} is not supported on HPC")


def _keyed(contents: Mapping[str, bytes], reference: Mapping[str, Any], path: str) -> str | None:
    key = reference.get("key", "")
    if key in contents:
        return _text(contents[key], path)
    if reference.get("optional"):
        return None
    raise JobError(path, f"{reference.get('name')!r} has no key {key!r}; add it or mark it optional")


def _text(value: bytes, path: str) -> str:
    if len(value) > expand.LONGEST_STRING:
        raise expand.string_too_large(path, len(value))
    return value.decode(errors="surrogateescape")


def field_value(reference: Mapping[str, Any], path: str, sources: Sources) -> str:
    """A field of the Pod (the downward API). Raises JobError if the field is unknown, or unknown on HPC."""
    name = reference.get("fieldPath", "")
    metadata, spec = sources.pod.get("metadata") or {}, sources.pod["spec"]
    keyed = _KEYED_FIELD.fullmatch(name)
    if keyed:
        return str((metadata.get(keyed.group(1)) or {}).get(keyed.group(2), ""))
    if name in {"metadata.labels", "metadata.annotations"}:
        return _lines(metadata.get(name.removeprefix("metadata.")) or {})
    if name in _UNKNOWN_HERE:
        raise JobError(path, f"{name} is not known on HPC: the Pod gets no address of the cluster's network")
    plain = {
        "metadata.name": metadata.get("name"),
        "metadata.namespace": metadata.get("namespace"),
        "metadata.uid": metadata.get("uid"),
        "spec.nodeName": spec.get("nodeName"),
        "spec.serviceAccountName": spec.get("serviceAccountName") or "default",
    }
    if name not in plain:
        raise JobError(path, f"the downward API offers no field {name!r}")
    return str(plain[name] or "")


def _lines(pairs: Mapping[str, str]) -> str:
    """Labels or annotations as the downward API writes them: sorted, ``key="value"`` with Go's quotes."""
    return "\n".join(f"{key}={_quoted(str(pairs[key]))}" for key in sorted(pairs))


_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"
}  # fmt: skip


def _quoted(text: str) -> str:
    """The text quoted as by Go's strconv.Quote: printable characters stay, others become escapes."""
    return '"' + "".join(_ESCAPES.get(char) or _printable(char) for char in text) + '"'


def _printable(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def resource_value(reference: Mapping[str, Any], path: str, container: str, sources: Sources) -> str:
    """A limit or request of a container, divided by ``divisor`` and rounded up to a whole number.

    A limit that is not set reads as the node's amount. A request that is not set reads as the limit, or else 0 (the
    default of the API server and the kubelet).
    """
    match = _RESOURCES.fullmatch(reference.get("resource", ""))
    if match is None:
        raise JobError(f"{path}.resource", f"the downward API offers no resource {reference.get('resource')!r}")
    group, name = match.groups()
    resources = sources.container(reference.get("containerName") or container).get("resources") or {}
    limit = (resources.get("limits") or {}).get(name)
    value = (resources.get("requests") or {}).get(name, limit if limit is not None else "0")
    if group == "limits":
        value = limit if limit is not None else sources.allocatable.get(name)
    if value is None:
        message = f"set a limit of {name}: the container has none, and the policy gives no {name} for the queue's nodes"
        raise JobError(f"{path}.resource", message)
    try:
        amount, divisor = quantity.millis(value), quantity.millis(reference.get("divisor") or "1") or 1000
    except ValueError as error:
        raise JobError(path, str(error)) from error
    return str(-(-amount // divisor))
