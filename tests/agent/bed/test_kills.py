"""What Jobs need is killed while they come, run, end and are deleted on Slurm: each must end as it would have."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from tests.agent.bed import faults
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.site import SUDO
from tests.agent.bed.traffic import Traffic
from tests.agent.whole.long import LONG
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(7200)]
AGENTS = 100 if LONG else 20
DAEMONS = 20 if LONG else 5
EVERY = 8.0
"""Seconds from one Job to the next."""
ADOPTED = "adopted"
"""What an agent logs when it has found the jobs that there are, and begins to act."""
LOST_SECONDS = 20
"""After which a job that Slurm has forgotten is held to be lost; ten minutes else."""


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    with reached(cluster, SUDO, lost_seconds=LOST_SECONDS) as found:
        yield found


def test_the_agent(stack: Stack, rng: random.Random, seed: str) -> None:
    traffic = Traffic(stack, random.Random(rng.random()), EVERY)
    with traffic.coming():
        for _ in range(AGENTS):
            lives = len(stack.agent.logged(ADOPTED))
            stack.agent.kill()
            stack.agent.start()
            if rng.random() < 0.8:  # mostly until it has begun to act, now and then not even so long
                until(lambda: len(stack.agent.logged(ADOPTED)) > lives, pause=0.1, what="to act")  # noqa: B023 - used at once
            time.sleep(rng.uniform(0, 4))

    wrong = traffic.wrong()
    assert not wrong, "\n".join((seed, *wrong))


def test_the_controller(stack: Stack, rng: random.Random, seed: str) -> None:
    """It writes down what it has taken only seconds later, and forgets what came in between."""
    traffic = Traffic(stack, random.Random(rng.random()), EVERY / 2, forgetful=True)
    with traffic.coming():
        for _ in range(DAEMONS):
            time.sleep(rng.uniform(1, 8))
            faults.kill("slurmctld")
            time.sleep(rng.uniform(0, 5))
            faults.start("slurmctld")

    faults.repair()
    wrong = traffic.wrong()
    assert not wrong, "\n".join((seed, *wrong, *traffic.lost().values()))


def test_sshd(stack: Stack, rng: random.Random, seed: str) -> None:
    """What listens, what serves a connection, or all; what was started over a connection lives on, or dies with it."""
    traffic = Traffic(stack, random.Random(rng.random()), EVERY / 2)
    with traffic.coming():
        for _ in range(DAEMONS):
            time.sleep(rng.uniform(1, 8))
            faults.kill_sshd(rng.choice(faults.VICTIMS))
            time.sleep(rng.uniform(0, 5))
            faults.start("sshd")

    faults.repair()
    wrong = traffic.wrong()
    assert not wrong, "\n".join((seed, *wrong))
