"""Chooses which of a Pod's two amounts a rule counts by: its requests or its limits.

Pure. A batch system takes one figure for memory, and ends the job beyond it; one for cores, and gives no more.
"""

from __future__ import annotations

from dataclasses import replace

from router.site.schema import Figures
from router.workload.model import Workload


def counted_by(workload: Workload, figures: Figures) -> Workload:
    """The Workload with the cpu and memory that ``figures`` of a rule names."""
    cpu = workload.limits.cpu if figures.cpus == "limits" else workload.requests.cpu
    memory = workload.limits.memory if figures.memory == "limits" else workload.requests.memory
    if (cpu, memory) == (workload.cpu, workload.memory):
        return workload
    return replace(workload, cpu=cpu, memory=memory)
