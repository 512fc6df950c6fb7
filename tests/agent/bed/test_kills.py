"""The agent is killed 20 times while 20 Jobs come, run and end on Slurm: each must end as it would have."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import apply
from tests.agent.bed.site import SUDO
from tests.agent.bed.tally import await_empty, await_ends, counted, lines, twice
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(1800)]
KILLS, JOBS = 20, 20
ADOPTED = "adopted"
"""What an agent logs when it has found the jobs that there are, and begins to act."""
EVERY = 6.0
"""Seconds from one Job to the next."""
INDEXED: dict[str, Any] = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimit": 6}
KINDS: tuple[tuple[str, dict[str, Any], str, int, int], ...] = (
    ("true", {}, "Complete", 1, 1),
    ("sleep 15", {}, "Complete", 1, 1),
    ("tell end; exit 3", {}, "Failed", 1, 1),
    ("sleep 2", INDEXED, "Complete", 3, 3),
    ("sleep 600", {"activeDeadlineSeconds": 20, "backoffLimit": 6}, "Failed", 1, 0),
)
"""Body, the Job's fields, how it ends, how often its container starts and comes to its own end."""


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    with reached(cluster, SUDO) as found:
        yield found


def test_every_job_ends_as_it_would_have(stack: Stack) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    made = [(counted(body, **fields), wanted) for body, fields, *wanted in KINDS * (JOBS // len(KINDS))]
    rng.shuffle(made)

    def come() -> None:
        for job, _ in made:
            apply(stack.ada, job)
            time.sleep(EVERY)

    coming = threading.Thread(target=come, daemon=True)
    coming.start()
    for _ in range(KILLS):
        lives = len(stack.agent.logged(ADOPTED))
        stack.agent.kill()
        stack.agent.start()
        if rng.random() < 0.8:  # mostly until it has begun to act, now and then not even so long
            until(lambda: len(stack.agent.logged(ADOPTED)) > lives, pause=0.1, what="to act")  # noqa: B023 - used at once
        time.sleep(rng.uniform(0, 4))
    coming.join()

    names = [job["metadata"]["name"] for job, _ in made]
    ended = await_ends(stack.ada, names, seconds=600)
    await_empty(*names)
    events = {name: [line.event for line in lines(name)] for name in names}
    found = {name: [ended[name], events[name].count("start"), events[name].count("end")] for name in names}
    assert found == {job["metadata"]["name"]: wanted for job, wanted in made}, seed
    assert twice(names) == {}, seed
