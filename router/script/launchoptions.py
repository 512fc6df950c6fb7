"""Writes the options of MPI launchers as the script reads them, where it reads a launcher's words while the Job runs.

Pure. The table is that of ``router.workload.launcheroptions``, by which launchers are lifted out of commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Final

from router.script.quoting import quote
from router.workload.hints import LARGEST_COUNT
from router.workload.launcheroptions import MPIRUN, SRUN, Option

_TABLES: Final = {"mpirun_options": MPIRUN, "srun_options": SRUN}


def rows(table: Mapping[str, Option]) -> tuple[str, ...]:
    """One row for each meaning and number of values: ``ranks 1: c n np`` and a space."""
    named = sorted((f"{meaning.name.lower()} {count}", name) for name, (meaning, count) in table.items())
    return tuple([
        f"{option}: {' '.join([name for _, name in found])} " for option, found in groupby(named, key=lambda one: one[0])
    ])  # fmt: skip


def shell() -> str:
    """The tables as a part of the runtime, ``launcheroptions.sh``; ``python -m tests.script.golden`` writes it."""
    tables = "".join([
        f"{name}=( # meaning, number of values, names\n"
        + "".join([f"\t{quote(row)}\n" for row in rows(table)])
        + ")\n"
        for name, table in _TABLES.items()
    ])  # fmt: skip
    return f"\nlargest_count={LARGEST_COUNT}\n{tables}"
