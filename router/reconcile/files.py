"""Whether the script's files tell the whole end of a Pod.

Pure. On network file systems a file may be seen a minute after it was written, and in any order: an end is judged when
what is there fits together, or when nothing more can come (``Terms.fs_delay``).
"""

from __future__ import annotations

from router.pod.life import Run
from router.pod.view import PodContainer
from router.reconcile.model import Facts
from router.workload.model import ContainerKind


def complete(facts: Facts) -> bool:
    """Whether the files fit together and nothing is missing.

    With the script's last word: after a good end every container that counts has ended with 0; after a bad one every
    container that has begun has ended, and one of them not with 0, unless the script says that it was made to end.
    Without it: every container that counts is over for good, so that only the script itself can have been lost.
    """
    end = facts.life.end
    if end is not None and end.code != 0:
        return _fits_failure(facts, forced=bool(end.reason))
    return all(_well(facts.life.run(one.name)) for one in _counting(facts)) or (end is None and _failed_for_good(facts))


def all_well(facts: Facts) -> bool:
    """Whether the exit file of every container that counts says 0."""
    return all(_well(facts.life.run(one.name)) for one in _counting(facts))


def _counting(facts: Facts) -> tuple[PodContainer, ...]:
    """Sidecars end when the others have, however they do."""
    return facts.pod.of_kind(ContainerKind.INIT, ContainerKind.MAIN)


def _well(run: Run | None) -> bool:
    return run is not None and run.exit is not None and run.exit.code == 0


def _fits_failure(facts: Facts, *, forced: bool) -> bool:
    runs = [facts.life.run(one.name) for one in facts.pod.containers]
    begun = [run for run in runs if run is not None]
    if any(run.exit is None for run in begun):
        return False
    counting = [facts.life.run(one.name) for one in _counting(facts)]
    return forced or any(run is not None and run.exit is not None and run.exit.code != 0 for run in counting)


def _failed_for_good(facts: Facts) -> bool:
    """Without the script's last word: a container that is not started again has failed, and no other one runs."""
    if facts.pod.restarts:
        return False
    runs = [facts.life.run(one.name) for one in _counting(facts)]
    begun = [run for run in runs if run is not None]
    mains = [facts.life.run(one.name) for one in facts.pod.of_kind(ContainerKind.MAIN)]
    over = all(run.exit is not None for run in begun)
    stopped = all(run is not None for run in mains) or not any(run is not None for run in mains)
    return over and stopped and any(run.exit is not None and run.exit.code != 0 for run in begun)
