"""Lists the batch systems. To add one, write a package for it and add a line here.

Pure.
"""

from __future__ import annotations

from typing import Final

from router.hpc import BatchSystem, local, openpbs, slurm, torque

SYSTEMS: Final[dict[str, BatchSystem]] = {
    "openpbs": openpbs,
    "slurm": slurm,
    "torque": torque,
    "local": local,
}
