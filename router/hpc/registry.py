"""The batch systems that there are: to add one is a package of its own, and a line here and in ``System``.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from router.hpc import BatchSystem, System, local, openpbs, slurm, torque

SYSTEMS: Final[Mapping[System, BatchSystem]] = {
    System.OPENPBS: openpbs,
    System.SLURM: slurm,
    System.TORQUE: torque,
    System.LOCAL: local,
}
