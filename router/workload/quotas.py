"""Checks whether a namespace's ResourceQuotas leave room for a Job's Pods, as they also count Pods on virtual nodes.

Pure. The rules are those of the API server's admission plug-in ResourceQuota. A quota counts the Pods that match all of
its scopes. A Pod is refused if its requests and the used amounts exceed ``hard`` together, or if it requests nothing of
a resource in ``hard``. Only requests and the number of Pods are checked, as limits are not known for every Pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from router.notation import quantity
from router.values import unchanging
from router.workload.model import Figure, Workload

Pod = Mapping[str, Any]

_PODS: Final = ("pods", "count/pods")
Unit = tuple[Callable[[object], int], Callable[[int], str]]
"""A function to read a quantity, and one to show it."""
_COUNT: Final[Unit] = (quantity.units, str)
_CPU: Final[Unit] = (quantity.millis, quantity.show_cpu)
_BYTES: Final[Unit] = (quantity.units, quantity.show_bytes)
_FIGURES: Final = {
    "cpu": "requests.cpu",
    "requests.cpu": "requests.cpu",
    "memory": "requests.memory",
    "requests.memory": "requests.memory",
    "ephemeral-storage": "ephemeral_storage",
    "requests.ephemeral-storage": "ephemeral_storage",
}
"""Resources of a quota, and the figures of a Workload that they count."""


@unchanging
class Scope:
    """One condition on Pods: ``Terminating``, ``PriorityClass``, …, with the operator and values of a scopeSelector."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


@unchanging
class Quota:
    """A ResourceQuota: quantities as written, by the quota's resource names."""

    name: str
    hard: Mapping[str, str]
    used: Mapping[str, str]
    scopes: tuple[Scope, ...] = ()


def shortage(quotas: Sequence[Quota], workload: Workload, pod: Pod) -> str:
    """Why Kubernetes would refuse to create the Job's Pods now; empty if no reason is known.

    :param pod: the spec of the Pods that will be made
    """
    found = []
    for quota in quotas:
        if all(_counts(scope, pod) for scope in quota.scopes):
            found += [f"ResourceQuota {quota.name}: {why}" for why in _reasons(quota, workload)]
    return "; ".join(found)


def _reasons(quota: Quota, workload: Workload) -> Iterator[str]:
    for resource in quota.hard:
        if resource in _PODS:
            why = _lack(quota, resource, 1, _COUNT)
        elif (name := _FIGURES.get(resource)) is not None:
            figure: Figure | None = attrgetter(name)(workload)
            unit = _CPU if name == "requests.cpu" else _BYTES
            why = "each Pod must request some" if figure is None else _lack(quota, resource, figure.value, unit)
        else:
            why = ""
        if why:
            yield f"{resource}: {why}"


def _lack(quota: Quota, resource: str, asked: int, unit: Unit) -> str:
    read, show = unit
    try:
        hard, used = read(quota.hard[resource]), read(quota.used.get(resource, "0"))
    except ValueError:  # larger than any Job may ask for
        return ""
    if asked > hard:
        return f"each Pod takes {show(asked)} of {show(hard)} in all"
    if asked > hard - used:
        return f"each Pod takes {show(asked)}, {show(max(0, hard - used))} of {show(hard)} is left"
    return ""


def _counts(scope: Scope, pod: Pod) -> bool:
    match scope.name:
        case "Terminating":
            return pod.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return pod.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return _is_best_effort(pod)
        case "NotBestEffort":
            return not _is_best_effort(pod)
        case "PriorityClass":
            return _selects(scope, str(pod.get("priorityClassName") or ""))
        case _:
            # CrossNamespacePodAffinity has no meaning on a virtual node; other scopes are not for Pods.
            return False


def _selects(scope: Scope, name: str) -> bool:
    match scope.operator:
        case "In":
            return name in scope.values
        case "NotIn":
            return name not in scope.values
        case "Exists":
            return bool(name)
        case _:
            return not name


def _is_best_effort(pod: Pod) -> bool:
    containers = [*(pod.get("containers") or ()), *(pod.get("initContainers") or ())]
    return not any(
        (one.get("resources") or {}).get(kind) for one in (*containers, pod) for kind in ("requests", "limits")
    )
