"""docs/mpi.md: its Job under its profile for Slurm, on two nodes of a real one, as the page's reader tries it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.site import SUDO, BedSite
from tests.test_mpi_page import JOB, PROFILES, SITES

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.mpi, pytest.mark.timeout(600)]

FABRICS = [
    profile for profile in map(yaml.safe_load, PROFILES) if "FI_PROVIDER" in profile["env"] or "binds" in profile
]
BOUND = "/usr/share/doc/apptainer"
"""A directory of the nodes that the image lacks."""


@dataclass(frozen=True)
class PageSite(BedSite):
    """The bed with the profile and the nodes of the page's site."""

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        found = super().documents()
        (shown,) = yaml.safe_load(SITES["slurm"])["sites"]
        (one,) = found["sites.yaml"]["sites"]
        # The nodes have no such files, so that another directory of theirs stands for the page's binds.
        fabrics = [{**profile, "images": [f"{profile['name']}/*"], "launcher": "openmpi"} for profile in FABRICS]
        fabrics = [{**profile, "binds": [f"{BOUND}:/opt/fabric:ro"]} for profile in fabrics]
        for profile in fabrics:
            profile.pop("modules", None)
        one["mpi"] = [*fabrics, *shown["mpi"]]
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


@pytest.mark.parametrize("profile", FABRICS, ids=[profile["name"] for profile in FABRICS])
def test_the_fabric_s_variables_and_files_reach_the_ranks_on_both_nodes(stack: Stack, profile: dict[str, Any]) -> None:
    made = yaml.safe_load(JOB)
    made["metadata"]["name"] = name = profile["name"]
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["image"] = f"{name}/solver:1"
    values = " ".join(f"{variable}=${variable}" for variable in profile["env"])
    container["command"][-1] = f'echo "$(cat /proc/sys/kernel/hostname) $(ls /opt/fabric | wc -l) {values}"'
    stack.ada.ok("apply", "-f", "-", stdin=yaml.safe_dump(made))
    stack.ada.ok("wait", "--for=condition=Complete", "--timeout=4m", f"job/{name}")

    lines = [line for line in stack.ada.ok("logs", f"job/{name}").splitlines() if "weak version" not in line]

    shown = " ".join(f"{variable}={value}" for variable, value in profile["env"].items())
    assert {line.partition(" ")[2] for line in lines} == {f"{len(list(Path(BOUND).iterdir()))} {shown}"}
    assert sorted(Counter(line.partition(" ")[0] for line in lines).values()) == [2, 2]
