"""Decides whether the script's files tell the whole end of a Pod.

Pure. On network file systems a file may become visible a minute after it was written, and files may appear in any
order. So an end is judged when the visible files fit together, or when no more can appear (``Terms.fs_delay``).
"""

from __future__ import annotations

from router.pod.life import Run
from router.pod.view import PodContainer
from router.reconcile.model import Facts
from router.workload.model import ContainerKind


def complete(facts: Facts) -> bool:
    """Whether the files fit together and none is missing.

    - The script's end note says exit code 0: every init and main container has ended with 0.
    - The end note says another code: every container that has begun has ended, and an init or main container has
      failed. A failure is not required if the note says that the script was made to end.
    - There is no end note: every init and main container is over for good, so only the script itself can be lost.
    """
    end = facts.life.end
    if end is not None and end.code != 0:
        return _fits_failure(facts, forced=bool(end.reason))
    return all(_well(facts.life.run(one.name)) for one in _counting(facts)) or (end is None and _failed_for_good(facts))


def told(facts: Facts) -> bool:
    """Whether the end of each container that has begun is known, of sidecars too."""
    runs = [facts.life.run(one.name) for one in facts.pod.containers]
    return all(run is None or run.exit is not None for run in runs)


def all_well(facts: Facts) -> bool:
    """Whether the exit file of every init and main container says 0."""
    return all(_well(facts.life.run(one.name)) for one in _counting(facts))


def _counting(facts: Facts) -> tuple[PodContainer, ...]:
    """The init and main containers. Sidecars end after these, and their exit codes do not count."""
    return facts.pod.of_kind(ContainerKind.INIT, ContainerKind.MAIN)


def _well(run: Run | None) -> bool:
    return run is not None and run.exit is not None and run.exit.code == 0 and run.exit.again != "yes"


def _fits_failure(facts: Facts, *, forced: bool) -> bool:
    runs = [facts.life.run(one.name) for one in facts.pod.containers]
    begun = [run for run in runs if run is not None]
    if any(run.exit is None for run in begun):
        return False
    counting = [facts.life.run(one.name) for one in _counting(facts)]
    return forced or any(run is not None and run.exit is not None and run.exit.code != 0 for run in counting)


def _failed_for_good(facts: Facts) -> bool:
    """Whether the files fit together without an end note: a container has failed for good, and no other one runs."""
    if facts.pod.restarts:
        return False
    runs = [facts.life.run(one.name) for one in _counting(facts)]
    begun = [run for run in runs if run is not None]
    if any(run.exit is not None and run.exit.again == "yes" for run in begun):
        return False
    mains = [facts.life.run(one.name) for one in facts.pod.of_kind(ContainerKind.MAIN)]
    over = all(run.exit is not None for run in begun)
    stopped = all(run is not None for run in mains) or not any(run is not None for run in mains)
    return over and stopped and any(run.exit is not None and run.exit.code != 0 for run in begun)
