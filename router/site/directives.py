"""Judges the further directives of sites, queues, accounts and rules for any batch system.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from router.hpc.pbs import ACCOUNTS, OURS
from router.hpc.requests import text_problem
from router.site.systems import SYSTEMS

_WRITTEN = OURS | {"time", "mem", "partition", "cpus-per-task", "ntasks", "gres"}


def directive_problems(system: str, directives: Mapping[str, str]) -> list[str]:
    """What is wrong with further directives of a site, queue, account or rule; one sentence each.

    ``account`` and ``project`` are judged as well, as they also become directives.
    """
    room, problems = SYSTEMS[system], []
    for key, value in directives.items():
        if key not in ACCOUNTS and not room.is_directive(key):
            problems.append(f"{key!r} is not a directive of {system} that may be added;  {_hint(system, key)}")
        elif problem := room.key_problem(key):
            problems.append(f"{key}: {problem}")
        if problem := text_problem(value) or room.value_problem(key, value):
            problems.append(f"{key}: {problem}")
    return problems


def _hint(system: str, key: str) -> str:
    if key.rpartition(".")[2].lower() in _WRITTEN:
        return "Batchgate writes it itself, from the Job's requests and the queue"
    return f"allowed are {SYSTEMS[system].allowed()}"
