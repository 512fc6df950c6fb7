"""Reads the hints: annotations by which users say what a manifest has no field for.

Pure. Knows the seven keys and the forms of their values; the Pod template's annotation beats the Job's. The policy
decides whether a hint is forbidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from router import names
from router.errors import JobError
from router.notation import durations
from router.values import unchanging
from router.workload.model import Figure

LARGEST_COUNT: Final = 1_000_000
_MOST_RESULTS: Final = 100
"""Most lines of the hint. The agent compares each with the name of each file that a Pod leaves behind."""
_DEEPEST_RESULT: Final = 32
"""Most parts of a line's path."""
_LONGEST_PART: Final = 512
"""Most characters of one part: a file name has at most 255, and a glob for it is hardly longer."""
_LONGEST_RESULTS: Final = 12 * 1024
"""Most bytes of the hint in UTF-8. In the signature, JSON and base64 make up to four of each; it holds 64 KiB."""


@unchanging
class Hints:
    """The values of the hints.

    :param launcher_inside: whether the container starts its ranks itself, by a launcher that may be out of sight
    :param results_field: path of the annotation that names results
    :param given: the keys of the given hints, without prefix
    :param doubts: sentences about values that may be misunderstood
    """

    walltime: Figure | None = None
    ranks: Figure | None = None
    ranks_per_node: Figure | None = None
    nodes: Figure | None = None
    launcher_inside: bool = False
    results: tuple[str, ...] = ()
    results_field: str = ""
    route: str = ""
    given: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()

    @property
    def asks_for_ranks(self) -> bool:
        """Whether a hint makes the Job an MPI workload."""
        figures = self.ranks is not None or self.ranks_per_node is not None or self.nodes is not None
        return figures or self.launcher_inside


NO_HINTS: Final = Hints()


def read_hints(job: Mapping[str, str], job_path: str, template: Mapping[str, str], template_path: str) -> Hints:
    """The hints among two sets of annotations. JobError names the annotation that is wrong."""
    if names.HINTS.isdisjoint(job) and names.HINTS.isdisjoint(template):
        return NO_HINTS
    found: dict[str, tuple[str, str]] = {}
    for listed, path in ((job, job_path), (template, template_path)):
        for key, value in listed.items():
            if key in names.HINTS:
                found[key] = (value, f"{path}[{key}]")
    hints = Hints(
        walltime=_duration(found.get(names.HINT_WALLTIME)),
        ranks=_count(found.get(names.HINT_RANKS)),
        ranks_per_node=_count(found.get(names.HINT_RANKS_PER_NODE)),
        nodes=_count(found.get(names.HINT_NODES)),
        launcher_inside=_launcher(found.get(names.HINT_LAUNCHER)),
        results=_results(found.get(names.HINT_RESULTS)),
        results_field=found[names.HINT_RESULTS][1] if names.HINT_RESULTS in found else "",
        route=_route(found.get(names.HINT_ROUTE)),
        given=frozenset(key[len(names.PREFIX) :] for key in found),
        doubts=_doubts(found.get(names.HINT_WALLTIME)),
    )
    _check_together(hints)
    return hints


def _duration(hint: tuple[str, str] | None) -> Figure | None:
    if hint is None:
        return None
    value, path = hint
    try:
        return Figure(durations.seconds(value), path)
    except ValueError as error:
        raise JobError(path, str(error)) from error


def _doubts(walltime: tuple[str, str] | None) -> tuple[str, ...]:
    said = durations.doubt(walltime[0]) if walltime is not None else None
    return (f"{names.HINT_WALLTIME} {said}.",) if said is not None else ()


def _count(hint: tuple[str, str] | None) -> Figure | None:
    if hint is None:
        return None
    value, path = hint[0].strip(), hint[1]
    if not (value.isascii() and value.isdigit() and len(value) <= len(str(LARGEST_COUNT))):
        raise JobError(path, f"{value[:40]!r} is not a whole number from 1 to {LARGEST_COUNT}")
    number = int(value)
    if not 1 <= number <= LARGEST_COUNT:
        raise JobError(path, f"{value!r} is not a whole number from 1 to {LARGEST_COUNT}")
    return Figure(number, path)


def _results(hint: tuple[str, str] | None) -> tuple[str, ...]:
    if hint is None:
        return ()
    value, path = hint
    size = len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    if size > _LONGEST_RESULTS:
        message = f"is {size} bytes long; at most {_LONGEST_RESULTS}"
        raise JobError(path, f"{message}, so use globs such as out/*.dat or name a directory")
    lines = [line.strip() for line in value.split("\n")]
    found = tuple([line for line in lines if line])
    if len(found) > _MOST_RESULTS:
        raise JobError(path, f"names {len(found)} results; at most {_MOST_RESULTS}, so use a glob such as out/*.dat")
    for line in found:
        if line.startswith(("/", "~")):
            raise JobError(path, f"{line[:80]!r} must be relative to the working directory, without leading / or ~")
        if len(line.split("/")) > _DEEPEST_RESULT:
            message = f"has more than {_DEEPEST_RESULT} parts between /; name a directory above, or use **"
            raise JobError(path, f"{line[:80]!r} {message}")
        if max(map(len, line.split("/"))) > _LONGEST_PART:
            raise JobError(path, f"{line[:80]!r} has more than {_LONGEST_PART} characters between two /; use a glob")
        if ".." in line.split("/"):
            raise JobError(path, f"{line[:80]!r} must not lead out of the working directory with '..'")
        if not line.isprintable():
            raise JobError(path, f"{line[:80]!r} has a control character; write one path or glob a line")
    return found


def _launcher(hint: tuple[str, str] | None) -> bool:
    if hint is None:
        return False
    value, path = hint
    if value != names.LAUNCHER_INSIDE:
        raise JobError(path, f"{value[:40]!r} is not {names.LAUNCHER_INSIDE!r}, its only value")
    return True


def _route(hint: tuple[str, str] | None) -> str:
    if hint is None:
        return ""
    value, path = hint
    if value not in (names.TARGET_CLOUD, names.TARGET_HPC):
        raise JobError(path, f"{value[:40]!r} is neither {names.TARGET_CLOUD!r} nor {names.TARGET_HPC!r}")
    return value


def _check_together(hints: Hints) -> None:
    ranks, per_node, nodes = hints.ranks, hints.ranks_per_node, hints.nodes
    if ranks and nodes and ranks.value < nodes.value:
        raise JobError(nodes.origin, f"asks for {nodes.value} nodes for {ranks.value} ranks; each node needs a rank")
    if ranks and per_node and nodes and per_node.value * nodes.value < ranks.value:
        raise JobError(
            ranks.origin,
            f"asks for {ranks.value} ranks, and {nodes.value} nodes with {per_node.value} ranks each hold only "
            f"{nodes.value * per_node.value}",
        )
