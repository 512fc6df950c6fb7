"""Reads LimitRanges, RuntimeClasses, Namespaces, ResourceQuotas, claims and volumes from ``kubectl get -o yaml``.

Pure: takes text, makes a Cluster. The webhook and the command line use it if they have no watched cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from router.errors import InputError
from router.notation import documents, quantity
from router.workload.claims import Bound, Claims, Wanted, bound_of, wanted_of
from router.workload.cluster import Cluster, LimitDefaults
from router.workload.quotas import Quota, Scope

COMMAND: Final = "kubectl get limitranges,runtimeclasses,namespaces,resourcequotas --all-namespaces -o yaml"


KINDS: Final = frozenset(
    {"Namespace", "RuntimeClass", "LimitRange", "ResourceQuota", "PersistentVolumeClaim", "PersistentVolume"}
)
"""The kinds that are read here."""


def read_cluster(text: str, source: str) -> Cluster:
    """Read one file. Raises InputError if it is not YAML, holds another kind, or a field has the wrong type."""
    return cluster_of(_objects(text, source))


def cluster_of(objects: Iterable[tuple[Mapping[str, object], str]]) -> Cluster:
    """What these objects, each with its place, say. Raises InputError for another kind or a field of a wrong type."""
    namespaces: dict[str, Mapping[str, str]] = {}
    limits: dict[str, tuple[LimitDefaults, ...]] = {}
    overheads: dict[str, Mapping[str, str]] = {}
    quotas: dict[str, tuple[Quota, ...]] = {}
    wanted: dict[tuple[str, str], Wanted] = {}
    bound: dict[tuple[str, str], Bound] = {}
    for item, place in objects:
        kind, metadata = item.get("kind"), _mapping(item, "metadata", place)
        name = _name(metadata, place)
        if kind == "Namespace":
            namespaces[name] = labels_of(item, place)
        elif kind == "RuntimeClass":
            overheads[name] = overhead_of(item, place)
            _demand_quantities(overheads[name], "podFixed", place)
        elif kind == "LimitRange":
            namespace = str(metadata.get("namespace") or "default")
            found = defaults_of(item, place)
            for one in found:
                _demand_quantities(one.requests, "defaultRequest", place)
                _demand_quantities(one.limits, "default", place)
            limits[namespace] = limits.get(namespace, ()) + found
        elif kind == "ResourceQuota":
            namespace = str(metadata.get("namespace") or "default")
            quota = quota_of(item, place)
            _demand_quantities(quota.hard, "hard", place)
            _demand_quantities(quota.used, "used", place)
            quotas[namespace] = (*quotas.get(namespace, ()), quota)
        elif kind == "PersistentVolumeClaim":
            wanted[str(metadata.get("namespace") or "default"), name] = wanted_of(item)
        elif kind == "PersistentVolume":
            bound["", name] = bound_of(item)
        else:
            raise InputError(
                f"{place}: kind {kind!r} is not used here; give Namespaces, LimitRanges, RuntimeClasses and "
                f"ResourceQuotas: {COMMAND}"
            )
    claims = Claims(wanted, bound) if wanted or bound else None
    return Cluster(namespaces=namespaces, limits=limits, overheads=overheads, quotas=quotas, claims=claims)


def labels_of(item: Mapping[str, object], place: str) -> Mapping[str, str]:
    """The labels of a Namespace. Raises InputError, with the place, if a field has the wrong type."""
    return _strings(_mapping(item, "metadata", place), "labels", place)


def overhead_of(item: Mapping[str, object], place: str) -> Mapping[str, str]:
    """The overhead of a RuntimeClass: what its Pods need beyond their containers."""
    return _strings(_mapping(item, "overhead", place), "podFixed", place)


def defaults_of(item: Mapping[str, object], place: str) -> tuple[LimitDefaults, ...]:
    """The defaults that a LimitRange gives to containers without requests or limits."""
    name = _name(_mapping(item, "metadata", place), place)
    return tuple(_container_limits(item, name, place))


def quota_of(item: Mapping[str, object], place: str) -> Quota:
    """A ResourceQuota: its limits and what is used, by its status, and which Pods it counts."""
    spec, status = _mapping(item, "spec", place), _mapping(item, "status", place)
    return Quota(
        name=_name(_mapping(item, "metadata", place), place),
        hard=_strings(status if status.get("hard") else spec, "hard", place),
        used=_strings(status, "used", place),
        scopes=tuple(_scopes(spec, place)),
    )


def _scopes(spec: Mapping[str, object], place: str) -> Iterator[Scope]:
    names = spec.get("scopes") or []
    selected = _mapping(spec, "scopeSelector", place).get("matchExpressions") or []
    if not isinstance(names, list) or not isinstance(selected, list):
        raise InputError(f"{place}: scopes or scopeSelector.matchExpressions is not a list")
    yield from (Scope(str(name)) for name in names)
    for one in selected:
        if not isinstance(one, Mapping):
            raise InputError(f"{place}: an entry of scopeSelector.matchExpressions is not a mapping")
        values = one.get("values") or []
        if not isinstance(values, list):
            raise InputError(f"{place}: values of a scopeSelector is not a list")
        yield Scope(str(one.get("scopeName")), str(one.get("operator")), tuple(str(value) for value in values))


def _demand_quantities(resources: Mapping[str, str], key: str, place: str) -> None:
    """Raise InputError for an invalid quantity. An error later, at a Job, would look like a fault of the Job."""
    for resource, written in resources.items():
        try:
            quantity.millis(written)
        except ValueError as error:
            raise InputError(f"{place}: {key}.{resource}: {error}") from None


def _objects(text: str, source: str) -> Iterator[tuple[Mapping[str, object], str]]:
    for document in documents.parse(text, source):
        line, _ = document.position(())
        value = document.value
        if not isinstance(value, Mapping):
            raise InputError(f"{source}:{line}: is not a Kubernetes object; write the output of:  {COMMAND}")
        if not str(value.get("kind", "")).endswith("List"):
            yield value, f"{source}:{line}"
            continue
        items = value.get("items") or []
        if not isinstance(items, list):
            raise InputError(f"{source}:{line}: items is not a list")
        for index, item in enumerate(items):
            line, _ = document.position(("items", index))
            if not isinstance(item, Mapping):
                raise InputError(f"{source}:{line}: items[{index}] is not a Kubernetes object")
            yield item, f"{source}:{line}"


def _container_limits(item: Mapping[str, object], name: str, place: str) -> Iterator[LimitDefaults]:
    limits = _mapping(item, "spec", place).get("limits") or []
    if not isinstance(limits, list):
        raise InputError(f"{place}: spec.limits is not a list")
    for limit in limits:
        if not isinstance(limit, Mapping):
            raise InputError(f"{place}: an entry of spec.limits is not a mapping")
        if limit.get("type") == "Container":
            # The admission plug-in LimitRanger: a missing limit is `default`, a missing request `defaultRequest`.
            yield LimitDefaults(
                source=f"LimitRange {name}",
                requests=_strings(limit, "defaultRequest", place),
                limits=_strings(limit, "default", place),
            )


def _mapping(item: Mapping[str, object], key: str, place: str) -> Mapping[str, object]:
    value = item.get(key) or {}
    if not isinstance(value, Mapping):
        raise InputError(f"{place}: {key} is not a mapping")
    return value


def _strings(item: Mapping[str, object], key: str, place: str) -> Mapping[str, str]:
    return {str(name): str(value) for name, value in _mapping(item, key, place).items()}


def _name(metadata: Mapping[str, object], place: str) -> str:
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise InputError(f"{place}: metadata.name is missing")
    return name
