"""The submit command is killed while Jobs come: before it has asked, while it asks, and when nobody has its answer yet."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.agent.bed import killed_sbatch
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.site import LOCAL_SUDO, SUDO
from tests.agent.bed.traffic import DRAIN, Traffic
from tests.agent.whole.long import LONG
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(3600)]
KILLS = 50 if LONG else 10
EVERY = 4.0


@pytest.fixture(scope="module", params=[LOCAL_SUDO, SUDO])
def stack(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """On the login node, and over ssh."""
    with reached(cluster, request.param) as found:
        yield found


def test_every_job_ends_as_it_would_have(stack: Stack, rng: random.Random, seed: str) -> None:
    traffic = Traffic(stack, random.Random(rng.random()), EVERY)
    with killed_sbatch.killing(rng, KILLS):
        with traffic.coming():
            until(killed_sbatch.left, lambda left: left == 0, seconds=DRAIN, what="for submissions to be killed")
        wrong = traffic.wrong()
        met = killed_sbatch.met()

    assert not wrong, "\n".join((seed, str(met), *wrong))
    assert met.total() == KILLS
