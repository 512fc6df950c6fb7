"""Tells which containers keep their MPI launcher inside, as it is not their whole command.

Pure. Such a container runs once, as it is written, and its launchers start ranks on all nodes. A program without a
launcher is started once a rank instead.
"""

from __future__ import annotations

from functools import lru_cache

from router.workload.launches import find_launches
from router.workload.model import Container, Started
from router.workload.shellbudget import ShellBudget


def starts_ranks(container: Container) -> bool:
    """Whether the container of an MPI Job starts its ranks itself, by launchers in it; else it is started once a rank.

    Its launchers may be out of sight: in a file, in the image's own entrypoint, in a text that is not read.
    """
    if container.launcher is not None:
        return False
    return container.starts_ranks or is_entrypoint(container) or bool(started_by(container))


def is_entrypoint(container: Container) -> bool:
    """Whether the image alone says what the container runs."""
    return not container.command


def started_by(container: Container) -> Started:
    """What a container's words start, also where sizing had no reason to look."""
    return _looked_for(container) if container.started is None else container.started


@lru_cache(maxsize=16)
def _looked_for(container: Container) -> Started:
    """Once for all queues that are tried for a Job."""
    return find_launches(container, ShellBudget())
