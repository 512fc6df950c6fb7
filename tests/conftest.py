"""For all tests: a real control plane where one is asked for (one for the whole run, a namespace of its own each), and time."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from router.controlplane import installing, programs
from router.controlplane.options import RESEARCHERS
from router.controlplane.plane import ControlPlane
from router.controlplane.start import control_plane
from tests import scheduling

_NUMBERS = itertools.count(1)

# What holds for all input does not depend on how busy the machine is.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

# An activated environment has an mpirun of its own (MPICH's), which jobs would find before the machine's.
os.environ["PATH"] = os.pathsep.join(
    one for one in os.environ.get("PATH", os.defpath).split(os.pathsep) if one != str(Path(sys.executable).parent)
)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> scheduling.ByScope:
    """How tests are shared out, where several processes run them (``make test``)."""
    return scheduling.ByScope(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("numprocesses", default=None) or hasattr(config, "workerinput"):
        scheduling.longest_first(items)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name what fails at once: a run that is killed or cut off never comes to its summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        sys.stderr.write(f"\n{report.nodeid}: {report.when} failed\n")


@pytest.fixture(scope="session")
def control_plane_programs() -> programs.Programs:
    """Where etcd, the API server and the others are. The test is skipped where they are not."""
    try:
        return programs.find()
    except programs.NoPrograms as error:
        pytest.skip(f"no control plane: {error}")


@pytest.fixture(scope="session")
def plane(
    control_plane_programs: programs.Programs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """One control plane for the whole run, with ordinary settings and what ``manifests/base`` installs, guards included.

    Tests leave it as they found it; see ``namespace``.
    """
    with control_plane(tmp_path_factory.mktemp("control-plane") / "plane") as started:
        installing.install(started)
        yield started


@pytest.fixture
def namespace(plane: ControlPlane) -> Iterator[str]:
    """A namespace of the test's own, which the users ada and ben may edit; deleted after it, with all that is in it."""
    name = f"test-{next(_NUMBERS)}"
    plane.make_namespaces({name: (RESEARCHERS,)})
    yield name
    plane.kubectl("delete", "namespace", name, "--wait=false")
