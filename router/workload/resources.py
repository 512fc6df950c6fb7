"""Adds up what a Pod asks for, exactly as the scheduler does.

Pure. The rules are Kubernetes' own, from its pages on Pod resources, init and sidecar containers, Pod overhead,
Pod-level resources and limit ranges. Amounts are thousandths of a unit, as the API server keeps them, and are rounded
up to whole units only after they are summed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from router.errors import JobError
from router.notation import quantity
from router.values import unchanging
from router.workload.cluster import LimitDefaults
from router.workload.fields import Fields, mapping, step
from router.workload.model import ContainerKind, Figure, Sizes

CPU: Final = "cpu"
MEMORY: Final = "memory"
SIZED: Final = (CPU, MEMORY)
STORAGE: Final = "ephemeral-storage"
HUGEPAGES: Final = "hugepages-"

Amounts = Mapping[str, Figure]
"""Resource name to thousandths, with the origin of each."""

_NONE: Final[Amounts] = {}
_MOST_NAMED: Final = 2


@unchanging
class Asked:
    """What one container asks for.

    :param written: by the manifest; a limit counts as a request if there is none
    :param effective: with the LimitRange's defaults added
    :param most: cpu and memory that it may use: the limit, also a LimitRange's, else the effective request
    """

    name: str
    kind: ContainerKind
    written: Amounts
    effective: Amounts
    most: Amounts


def container_requests(
    container: Fields, path: str, name: str, kind: ContainerKind, defaults: Sequence[LimitDefaults]
) -> Asked:
    """The requests of one container. Raises JobError for an invalid quantity, and for a request above its limit."""
    resources = mapping(container, "resources", path)
    written = written_requests(resources, f"{path}.resources") if resources else _NONE
    effective = dict(written)
    for limit_range in defaults:
        _add_defaults(effective, limit_range, f"{path}.resources")
    most = _most(resources, f"{path}.resources", effective, defaults) if effective else _NONE
    return Asked(name, kind, written, effective, most)


def _most(resources: Fields, path: str, effective: Amounts, defaults: Sequence[LimitDefaults]) -> Amounts:
    """What a container may use of cpu and memory: its limit, else a LimitRange's, else what it asks for."""
    listed, asked = mapping(resources, "limits", path), mapping(resources, "requests", path)
    found = {}
    for name in SIZED:
        request = effective.get(name)
        if request is None:
            continue
        if name in listed and listed[name] == asked.get(name, listed[name]):
            found[name] = request  # of both, nearly always
            continue
        limit = _limit(listed, path, name, defaults)
        found[name] = limit if limit is not None and limit.value > request.value else request
    return found


def _limit(listed: Fields, path: str, name: str, defaults: Sequence[LimitDefaults]) -> Figure | None:
    if name in listed:
        here = f"{path}.limits.{name}"
        return Figure(_thousandths(listed[name], path, "limits", name), here, here)
    for limit_range in defaults:
        if name in limit_range.limits:
            origin = f"{limit_range.source}, default"
            return Figure(_thousandths(limit_range.limits[name], origin, "", name), origin, path)
    return None


def written_requests(resources: Fields, path: str) -> Amounts:
    """The requests of a ``resources`` field; the limit in place of a missing request."""
    found = amounts(mapping(resources, "requests", path), f"{path}.requests")
    for name, limit in mapping(resources, "limits", path).items():
        value = _thousandths(limit, path, "limits", name)
        request = found.get(name)
        if request is None:
            limit_path = step(f"{path}.limits", name)
            found[name] = Figure(value, f"{limit_path}, as there is no request", limit_path)
        elif request.value > value:
            limit_path = step(f"{path}.limits", name)
            raise JobError(request.path, f"asks for more than the limit in {limit_path}; raise the limit")
    return found


def amounts(listed: Fields, path: str) -> dict[str, Figure]:
    """The amounts of a resource list. JobError names a resource with an invalid quantity."""
    found = {}
    for name, value in listed.items():
        here = step(path, name)
        found[name] = Figure(_thousandths(value, path, "", name), here, here)
    return found


def _thousandths(value: object, path: str, key: str, name: str) -> int:
    """A quantity in thousandths; the path, the key under it and the name are for the error."""
    if value is None:  # the API server reads null as the quantity 0
        return 0
    try:
        # A boolean, a list or an object is refused, with the name of its type.
        return quantity.millis(value if isinstance(value, str | int | float) else type(value).__name__)
    except ValueError as error:
        raise JobError(step(f"{path}.{key}" if key else path, name), str(error)) from error


def _add_defaults(effective: dict[str, Figure], limit_range: LimitDefaults, path: str) -> None:
    # `default` replaces a missing defaultRequest; the API server fills it in, but files may lack it.
    for kind, given in (("defaultRequest", limit_range.requests), ("default", limit_range.limits)):
        for name, value in given.items():
            if name not in effective:
                origin = f"{limit_range.source}, {kind}"
                effective[name] = Figure(_thousandths(value, origin, "", name), origin, path)


def pod_requests(
    containers: Sequence[Asked], pod_level: Fields, pod_level_path: str, overhead: Amounts
) -> dict[str, Figure]:
    """What the scheduler reserves for the Pod, in thousandths, by the names of the resources that it asks for."""
    found = _aggregated([(container, container.effective) for container in containers])
    if pod_level:
        _replace(found, containers, pod_level, pod_level_path)
    return _with_overhead(found, overhead)


def sizes(requests: Amounts, limits: Amounts) -> tuple[Sizes, Sizes]:
    """CPU and memory of the Pod by its requests and by its limits, each of which says what the other is."""
    cpu = _both(requests.get(CPU), limits.get(CPU), quantity.show_cpu)
    memory = _both(units(requests.get(MEMORY)), units(limits.get(MEMORY)), quantity.show_bytes)
    return Sizes(cpu[0], memory[0]), Sizes(cpu[1], memory[1])


def _both(
    request: Figure | None, limit: Figure | None, shown: Callable[[int], str]
) -> tuple[Figure | None, Figure | None]:
    if request is None or limit is None or request.value == limit.value:
        return request, request
    return (
        Figure(request.value, request.origin, request.path, f"the limit is {shown(limit.value)}"),
        Figure(limit.value, limit.origin, limit.path, f"the request is {shown(request.value)}"),
    )


def are_alike(containers: Sequence[Asked], pod_level: Fields) -> bool:
    """Whether no container may use more cpu or memory than it asks for: the Pod's limits are its requests then."""
    return not pod_level and all(
        (asked := container.effective.get(name)) is not None and asked.value == most.value
        for container in containers
        for name, most in container.most.items()
    )


def sharing_warning(containers: Sequence[Asked], total: Amounts, level: Fields, path: str) -> str:
    """A warning if some containers name memory and others none, which may use what the node has in the cloud.

    A batch job has one limit for all that runs in it. A limit of the whole Pod is one for all in the cloud too.

    :param level: the Pod's own ``resources``
    :param path: of the Pod's spec
    :returns: empty if there is nothing to tell
    """
    if MEMORY not in total or all(MEMORY in one.effective for one in containers):
        return ""
    if MEMORY in mapping(level, "limits", f"{path}.resources"):
        return ""
    silent = [one.name for one in containers if MEMORY not in one.effective]
    more = f" and {len(silent) - _MOST_NAMED} more" if len(silent) > _MOST_NAMED else ""
    who = f"{', '.join(silent[:_MOST_NAMED])}{more}"
    names = f"containers {who} name" if len(silent) > 1 else f"container {who} names"
    return f"{path}: {names} no memory; on HPC all containers share the memory that the others name"


def pod_limits(
    containers: Sequence[Asked], pod_level: Fields, pod_level_path: str, overhead: Amounts
) -> dict[str, Figure]:
    """The cpu and memory that the Pod may use, in thousandths: its limit, in which a request replaces a missing limit.

    A Pod-level limit replaces the containers' sum. A Pod-level request without a limit counts if it is more.
    """
    found = _aggregated([(container, container.most) for container in containers], "limits")
    limits, requests = (
        amounts(mapping(pod_level, kind, pod_level_path), f"{pod_level_path}.{kind}") for kind in ("limits", "requests")
    )
    for name in SIZED:
        if name in limits:
            found[name] = limits[name]
        elif name in requests and (name not in found or requests[name].value > found[name].value):
            found[name] = requests[name]
    return _with_overhead(found, {name: extra for name, extra in overhead.items() if name in SIZED})


def _with_overhead(found: dict[str, Figure], overhead: Amounts) -> dict[str, Figure]:
    for name, extra in overhead.items():
        base = found.get(name)
        found[name] = Figure(base.value + extra.value, f"{base.origin}; plus {extra.origin}") if base else extra
    return found


def _names(listed: Iterable[Amounts]) -> dict[str, None]:
    found: dict[str, None] = {}
    for asked in listed:
        found.update(dict.fromkeys(asked))
    return found


def _aggregated(asked: Sequence[tuple[Asked, Amounts]], of: str = "") -> dict[str, Figure]:
    """The amount of each resource for the Pod. A container that does not name a resource asks for 0 of it."""
    listed: dict[str, list[tuple[Asked, Figure]]] = {}
    for container, own in asked:
        for name, figure in own.items():
            listed.setdefault(name, []).append((container, figure))
    return {name: _aggregate(name, found, of) for name, found in listed.items()}


def _aggregate(resource: str, asked: Sequence[tuple[Asked, Figure]], of: str) -> Figure:
    """The larger of two amounts: the sum over main containers and sidecars, and the peak while init containers run.

    While an init container runs, only the sidecars before it run as well.

    :param of: which amounts these are, ``limits``; empty for requests
    """
    parts: list[tuple[str, Figure]] = []
    total = sidecars = peak = 0
    peak_at = ""
    for container, figure in asked:
        value = figure.value
        if container.kind is ContainerKind.INIT:
            use = sidecars + value
        else:
            total += value
            parts.append((container.name, figure))
            if container.kind is ContainerKind.MAIN:
                continue
            sidecars = use = sidecars + value
        if use > peak:
            peak, peak_at = use, container.name
    if peak > total:
        return Figure(peak, f"{of and f'{of} '}while init container {peak_at} runs, the largest moment of the Pod")
    if len(parts) == 1:
        return Figure(total, parts[0][1].origin)
    if not parts:
        return Figure(total, "init containers")
    shown = " + ".join(_part(resource, name, figure, of) for name, figure in parts[:5])
    return Figure(total, f"sum over {of and f'{of} of '}containers: {shown}" + (" + …" if len(parts) > 5 else ""))


def _part(resource: str, name: str, figure: Figure, of: str) -> str:
    """``main 4Gi``; of limits also whether it is only a request."""
    return f"{name} {show(resource, figure.value)}{' (request)' if of and '.requests.' in figure.path else ''}"


def _replace(found: dict[str, Figure], containers: Sequence[Asked], pod_level: Fields, path: str) -> None:
    """Replace the containers' sum by Pod-level resources, for cpu, memory and hugepages.

    If only the Pod-level limit is given, the request is what the containers ask for, else this limit.
    """
    requests = amounts(mapping(pod_level, "requests", path), f"{path}.requests")
    limits = amounts(mapping(pod_level, "limits", path), f"{path}.limits")
    for name, figure in (limits | requests).items():
        if not (name in {CPU, MEMORY} or name.startswith(HUGEPAGES)):
            raise JobError(figure.path, "only cpu, memory and hugepages can be asked for at Pod level")
        if name in requests and name in limits and requests[name].value > limits[name].value:
            raise JobError(figure.path, f"asks for more than the limit in {limits[name].path}; raise the limit")
    written = _aggregated([(container, container.written) for container in containers])
    _check_level(containers, written, requests, limits)
    for name in {**_names([limits, requests]), **(written if limits else {})}:
        if name in requests:
            found[name] = requests[name]
        elif name in written and name in {CPU, MEMORY}:
            found[name] = written[name]
        elif name in limits:
            found[name] = Figure(limits[name].value, f"{limits[name].origin}, as there is no request")


def _check_level(containers: Sequence[Asked], written: Amounts, requests: Amounts, limits: Amounts) -> None:
    """Refuse Pod-level cpu and memory below the containers' own, as the API server does (validatePodResourceConsistency).

    An API server that does not know the field drops it after the review: a Job would have been judged by less than it gets.
    """
    for name in SIZED:
        level = requests.get(name) or limits.get(name)
        asked = written.get(name)
        if level is not None and asked is not None and asked.value > level.value:
            raise JobError(
                level.path, f"is less than the {show(name, asked.value)} that the containers ask for; raise it"
            )
        for one in containers if name in limits else ():
            most = one.most.get(name)
            if most and one.kind is ContainerKind.MAIN and _is_limit(most, name) and most.value > limits[name].value:
                clause = f"is less than the limit of container {one.name}, {show(name, most.value)}; raise it"
                raise JobError(limits[name].path, clause)


def _is_limit(most: Figure, name: str) -> bool:
    """Whether what a container may use is its own limit, and no request or limit of a LimitRange."""
    return most.path.endswith(f".limits.{name}")


def show(resource: str, thousandths: int) -> str:
    """An amount for people: in bytes for memory and storage, else as a count."""
    if resource in {MEMORY, STORAGE} or resource.startswith(HUGEPAGES):
        return quantity.show_bytes(whole(thousandths))
    return quantity.show_cpu(thousandths)


def whole(thousandths: int) -> int:
    """Whole units, rounded up."""
    return -(-thousandths // 1000)


def units(figure: Figure | None) -> Figure | None:
    """The same figure in whole units, rounded up."""
    return None if figure is None else Figure(whole(figure.value), figure.origin)
