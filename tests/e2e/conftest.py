"""Batchgate on the cluster of ``make kind``, in front of a site that takes every Job."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kindcluster import cluster, installing
from kindcluster.layout import Layout
from tests.e2e import onplane, site
from tests.e2e.oracle import Cluster
from tests.e2e.sidebyside import CLOUD, HPC
from tests.together.installed import Installed


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """At the end the release is as ``make kind`` made it."""
    if os.environ.get("BATCHGATE_E2E") != "required":
        pytest.skip("changes the cluster of `make kind` and takes long, so it is run by `make e2e` only")
    assert shutil.which("apptainer"), "needs Apptainer, which `make bed` installs"
    found = Installed(Layout(), cluster.choose())
    folder: Path = tmp_path_factory.mktemp("e2e")
    text = site.policy(site.images(found, folder), folder / "work")
    found.ok("delete", "jobs", "--all", "-n", installing.GATED, "--timeout=120s")
    try:
        found.upgrade(site.values(text), folder / "values.yaml")
        found.ok("delete", "nodes", "-l", "type=virtual-kubelet")  # those of the release's own agent, which has gone
        with site.message_file(), site.agent(found, text, folder):
            yield found
    finally:
        installing.install(found.layout, found.provider, print)


@dataclass(frozen=True)
class Both:
    """A cluster with a real node and a site that takes every Job, and the account of the site's agent."""

    cluster: Cluster
    agent: str


@pytest.fixture(scope="session")
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """The cluster of `make kind`; for `make oracle` the control plane with its own real node."""
    if os.environ.get("BATCHGATE_ORACLE") != "required":
        yield Both(request.getfixturevalue("installed"), site.AGENT)
        return
    request.getfixturevalue("control_plane_programs")
    with onplane.running(tmp_path_factory.mktemp("oracle"), (CLOUD, HPC)) as found:
        yield Both(found, found.agent)
