"""docs/mpi.md: its Job under its profile for Slurm, on two nodes of a real one, as the page's reader tries it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.site import SUDO, BedSite
from tests.test_mpi_page import JOB, SITES

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.mpi, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class PageSite(BedSite):
    """The bed with the profile and the nodes of the page's site."""

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        found = super().documents()
        (shown,) = yaml.safe_load(SITES["slurm"])["sites"]
        (one,) = found["sites.yaml"]["sites"]
        one["mpi"] = shown["mpi"]
        one["queues"][0]["cpusPerNode"] = shown["queues"][0]["cpusPerNode"]
        return found


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    with reached(cluster, SUDO, kind=PageSite) as found:
        yield found


def test_four_lines_two_from_each_of_two_nodes(stack: Stack) -> None:
    stack.ada.ok("apply", "-f", "-", stdin=JOB)
    stack.ada.ok("wait", "--for=condition=Complete", "--timeout=4m", "job/who")

    lines = [line.split(": ") for line in stack.ada.ok("logs", "job/who").splitlines() if "weak version" not in line]

    assert sorted(rank for _, rank in lines) == ["0", "1", "2", "3"]
    assert sorted(Counter(node for node, _ in lines).values()) == [2, 2]
