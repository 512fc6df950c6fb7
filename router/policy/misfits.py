"""Joins what keeps a Job from each queue of a rule to one list, in which each thing stands once.

Pure. The queues of a rule are alternatives: what only some of them lack names them, as to mend the things of one queue is
enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from router.policy.fit import Misfit
from router.workload.model import Obstacle

_NONE_LEFT = "the rule now sends Jobs to other queues only"


@dataclass(frozen=True, slots=True)
class InTheWay:
    """What keeps a Job from all queues of a rule.

    :param obstacles: fields of the Job
    :param told: every thing as text, these fields first
    :param least: how many things are in the way on the queue that has fewest
    """

    obstacles: tuple[Obstacle, ...]
    told: tuple[str, ...]
    least: int


def joined(own: Sequence[Obstacle], misfits: Mapping[str, Misfit]) -> InTheWay:
    """All that is in the way of a Job.

    :param own: the Job's obstacles on every queue
    :param misfits: by the queue's name and site in words; empty if the rule may choose none now
    """
    if not misfits:
        obstacles = tuple(dict.fromkeys(own))
        return InTheWay(obstacles, (*map(str, obstacles), _NONE_LEFT), len(obstacles) + 1)
    lacking: dict[Obstacle, list[str]] = {one: [*misfits] for one in own}
    reasons: dict[str, list[str]] = {}
    for where, misfit in misfits.items():
        for obstacle in misfit.obstacles:
            if where not in (queues := lacking.setdefault(obstacle, [])):
                queues.append(where)
        for reason in dict.fromkeys(misfit.reasons):
            reasons.setdefault(reason, []).append(where)
    every = [*lacking.values(), *reasons.values()]
    return InTheWay(
        obstacles=tuple(lacking),
        told=(
            *[_told(one, queues, len(misfits)) for one, queues in lacking.items()],
            *[f"{', '.join(queues)}: {reason}" for reason, queues in reasons.items()],
        ),
        least=min(sum(where in queues for queues in every) for where in misfits),
    )


def _told(obstacle: Obstacle, queues: Sequence[str], tried: int) -> str:
    return str(obstacle) if len(queues) == tried else f"{obstacle} ({', '.join(queues)})"
