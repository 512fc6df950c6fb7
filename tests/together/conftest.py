"""The whole product where both are up: Batchgate on the kind cluster in front of the bed's Slurm."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kindcluster import cluster, installing
from kindcluster.layout import Layout
from tests.agent.bed.site import obstacle
from tests.together.installed import NAMESPACE, Installed, beside, values
from tests.together.road import HERE, Road, road


@pytest.fixture(scope="session")
def found() -> Installed:
    """What ``make kind`` has installed."""
    if os.environ.get("BATCHGATE_KIND") != "required":
        pytest.skip("changes the cluster of `make kind`, so it is run by `make test-together` only")
    if words := obstacle():
        pytest.skip(words)
    return Installed(Layout(), cluster.choose())


@pytest.fixture(scope="session")
def way(found: Installed) -> Iterator[Road]:
    """The way between the two."""
    nodes = json.loads(found.ok("get", "nodes", "-l", "node-role.kubernetes.io/control-plane", "-o", "json"))["items"]
    address = next(one["address"] for one in nodes[0]["status"]["addresses"] if one["type"] == "InternalIP")
    with road(found.layout, address) as made:
        yield made


@pytest.fixture(scope="session")
def installed(found: Installed, way: Road, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The release with an agent and its standby for the bed; at the end it is as ``make kind`` made it."""
    file: Path = tmp_path_factory.mktemp("together") / "values.yaml"
    objects = json.dumps({"apiVersion": "v1", "kind": "List", "items": beside(way)})
    found.ok("delete", "jobs", "--all", "-n", installing.GATED, "--timeout=120s")
    found.ok("apply", "-f", "-", stdin=objects)
    try:
        found.ok("-n", NAMESPACE, "create", "configmap", "words", "--from-literal=word=from a ConfigMap")
        found.upgrade(values(way, HERE), file)
        yield found
    finally:
        found.kubectl("-n", NAMESPACE, "delete", "jobs", "--all", "--timeout=120s")
        installing.install(found.layout, found.provider, print)
        found.ok("delete", "-f", "-", "--timeout=120s", stdin=objects)
        found.ok("delete", "nodes", "-l", "batchgate.dev/site in (hpc, login)")
