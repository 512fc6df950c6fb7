"""Finds what becomes of extended resources and huge pages on a queue: directives, nothing, or a reason to stay.

Pure. Entries of the queue come before those of its site; the first whose glob matches a name counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from router.hpc.pbs import CHUNK
from router.hpc.requests import Allocation, text_problem
from router.site import globs
from router.site.directives import directive_problems
from router.site.schema import Queue, ResourceMap, Site
from router.site.systems import SYSTEMS
from router.workload.extended import Extended
from router.workload.model import Obstacle, Workload
from router.workload.resources import HUGEPAGES

GRES: Final = "gres"
_AMOUNT: Final = "{amount}"
_LISTS: Final = frozenset({GRES, "licenses"})
"""Slurm's directives with a list of several resources as their value."""


def unmapped(workload: Workload, site: Site, queue: Queue) -> tuple[Obstacle, ...]:
    """The fields that ask for what this queue does not have, each with its reason."""
    return tuple(
        [
            Obstacle(path, f"{reason}{added}")
            for asked in workload.extended
            if (reason := _reason(asked, site, queue))
            for path, added in asked.fields
        ]
    )


def _reason(asked: Extended, site: Site, queue: Queue) -> str:
    entry = _entry(asked.name, site, queue)
    if entry is not None:
        return f"asks for {asked.name}: {entry.cloud}" if entry.cloud else ""
    if asked.is_gpu:
        return ""
    kind = "huge pages" if asked.name.startswith(HUGEPAGES) else "an extended resource"
    return f"asks for {kind} ({asked.name}), which no entry in resources of site {site.name} or its queue {queue.name} matches"


def _entry(name: str, site: Site, queue: Queue) -> ResourceMap | None:
    return next((one for one in (*queue.resources, *site.resources) if globs.matches((one.match,), name)), None)


def asking(workload: Workload, site: Site, queue: Queue, allocation: Allocation) -> Allocation | str:
    """The allocation with the directives for the workload's resources, or one clause that says why it cannot be."""
    if not workload.extended:
        return allocation
    found: dict[str, tuple[str, str]] = {}
    notes, warnings = [], []
    for asked in workload.extended:
        entry = _entry(asked.name, site, queue)
        if entry is None or entry.directive is None:
            if entry is not None and entry.ignore and not asked.is_gpu:
                warnings.append(f"{asked.fields[0][0]}: has no effect on site {site.name} (resources, ignore)")
            continue
        amount = -(-asked.amount * entry.factor // entry.per)
        if per_node(entry.directive) and _AMOUNT in entry.value:
            if amount % allocation.nodes:
                return f"asks for {amount} of {asked.name} on {allocation.nodes} nodes, which must share it evenly"
            amount //= allocation.nodes
        value = entry.value.replace(_AMOUNT, str(amount))
        if (earlier := found.get(entry.directive)) is not None:
            if entry.directive not in _LISTS:
                return f"asks for {asked.name} and {earlier[1]}, both by the directive {entry.directive}"
            value = f"{earlier[0]},{value}"
        found[entry.directive] = (value, asked.name)
        notes.append((asked.name, f"by the directive {entry.directive}, as resources of the policy say"))
    return replace(
        allocation,
        directives={key: value for key, (value, _) in found.items()},
        notes=(*allocation.notes, *notes),
        warnings=(*allocation.warnings, *warnings),
    )


def per_node(directive: str) -> bool:
    """Whether a directive asks for its value on each node, and not for the whole job."""
    return directive == GRES or directive.startswith(CHUNK)


def together(extra: Mapping[str, str], directives: Mapping[str, str]) -> dict[str, str]:
    """Directives of the policy with those of a Job's resources, which win; values that are lists are joined."""
    found = dict(extra)
    for key, value in directives.items():
        found[key] = f"{found[key]},{value}" if key in _LISTS and key in found else value
    return found


def problems(system: str, entry: ResourceMap) -> Iterator[tuple[str, str]]:
    """What is wrong with an entry: the key, and a sentence."""
    given = {"directive": entry.directive, "ignore": entry.ignore, "cloud": entry.cloud}
    if (count := sum(value is not None for value in given.values())) != 1:
        yield "match", f"{entry.match} has {count} of {', '.join(given)}; give exactly one"
    if entry.directive is None:
        for key in ("value", "factor", "per"):
            if key in entry.model_fields_set:
                yield key, f"{key} belongs to a directive, and {entry.match} has none"
        return
    if entry.directive in ("account", "project"):
        yield "directive", f"{entry.directive} depends on the user; write it in accounts"
        return
    value = entry.value.replace(_AMOUNT, "1")
    if SYSTEMS[system].TRAITS.gres and entry.directive == GRES:
        if problem := text_problem(value) or _gres_problem(value):
            yield "value" if "value" in entry.model_fields_set else "directive", problem
        return
    for problem in directive_problems(system, {entry.directive: value}):
        yield "directive", problem


def _gres_problem(value: str) -> str | None:
    words = value.split(":")
    if len(words) not in (2, 3) or not all(words) or any(sign in value for sign in ", =()"):
        return f"{value!r} is no resource of Slurm; write NAME:{_AMOUNT} or NAME:TYPE:{_AMOUNT}"
    return None
