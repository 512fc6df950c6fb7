"""Works out the least memory that a site's jobs ask for.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from router.notation import quantity
from router.site.schema import Queue, Runtime, Site
from router.site.systems import SYSTEMS


def floor(site: Site) -> int:
    """The least memory of a job on each node, in bytes; 0 for none."""
    if site.memory_floor is not None:
        return site.memory_floor
    return 0 if site.runtime is Runtime.HOST else SYSTEMS[site.system].TRAITS.memory_floor


def least(site: Site, queue: Queue) -> int:
    """The least memory of a job on each node of a queue, at most the memory of its nodes, in bytes."""
    wanted = floor(site)
    return wanted if queue.memory_per_node is None else min(wanted, queue.memory_per_node)


def raised(asked: Iterable[int | None], given: int, site: Site) -> list[str]:
    """A sentence if a figure is below the least memory, else empty. The queue decides about figures that are None."""
    low = [figure for figure in asked if figure is not None and figure < given]
    if not low:
        return []
    figures = f"{quantity.show_bytes(min(low))} is raised to {quantity.show_bytes(given)}"
    return [f"The memory of {figures} on each node: container runtimes do not start with less on site {site.name}"]
