"""Chooses which of a Pod's two amounts a rule counts by: its requests or its limits.

Pure. A batch system takes one figure for memory, and ends the job beyond it; one for cores, and gives no more.
"""

from __future__ import annotations

from dataclasses import replace

from router.policy.model import Policy
from router.site.schema import Figures
from router.workload.model import Workload


def counted_by(workload: Workload, figures: Figures) -> Workload:
    """The Workload with the cpu and memory that ``figures`` of a rule names."""
    cpu = workload.limits.cpu if figures.cpus == "limits" else workload.requests.cpu
    memory = workload.limits.memory if figures.memory == "limits" else workload.requests.memory
    if (cpu, memory) == (workload.cpu, workload.memory):
        return workload
    return replace(workload, cpu=cpu, memory=memory)


def counted_in(workload: Workload, policy: Policy, rule: str) -> Workload:
    """The Workload with the figures by which the rule of this name counts; as it is without such a rule."""
    found = next((one.rule for one in policy.rules if one.name == rule), None)
    return workload if found is None else counted_by(workload, found.figures)
