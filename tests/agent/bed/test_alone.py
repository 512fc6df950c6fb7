"""One unprivileged user without sudo: that user's Jobs run, nobody else's do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import apply, end_of, job, pod_of, printed
from tests.agent.bed.site import ALONE, BEN, LOCAL, slurm

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=[ALONE, LOCAL])
def alone(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """One unprivileged user: over that user's own login, and on the login node itself."""
    with reached(cluster, request.param) as found:
        yield found


def test_one_unprivileged_user_runs_nobody_elses_jobs(alone: Stack) -> None:
    well, refused = apply(alone.ada, job("echo mine")), apply(alone.ben, job("echo never"))

    assert end_of(alone.ada, well) == "Complete"
    assert printed(alone.ada, well) == ["mine"]
    assert end_of(alone.ben, refused) == "Failed"
    status = pod_of(alone.ben, refused)["status"]
    assert status["reason"] == "WrongUser"
    assert f"nothing can be done as {BEN}" in status["message"]
    every = slurm("squeue", "--noheader", "--states", "all", "--format", "%j").splitlines()
    assert [name for name in every if name.startswith(f"{well}-")]
    assert not [name for name in every if name.startswith(f"{refused}-")]
