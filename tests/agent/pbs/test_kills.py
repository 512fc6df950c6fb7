"""The agent is killed again and again while Jobs come, run and end on OpenPBS: each must end as it would have."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest

from tests.agent.bed.jobs import apply
from tests.agent.pbs.conftest import Stack
from tests.agent.pbs.jobs import await_ends, await_nothing_left, counted, told
from tests.agent.pbs.site import ADA, RUNS
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.pbs, pytest.mark.apptainer, pytest.mark.timeout(1800)]
KILLS, JOBS = 10, 10
ADOPTED = "adopted"
"""What an agent logs when it has found the jobs that there are, and begins to act."""
EVERY = 4.0
"""Seconds from one Job to the next."""
INDEXED: dict[str, Any] = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimit": 6}
KINDS: tuple[tuple[str, dict[str, Any], str, int, int], ...] = (
    ("true", {}, "Complete", 1, 1),
    ("sleep 15", {}, "Complete", 1, 1),
    ("exit 3", {}, "Failed", 1, 1),
    ("sleep 2", INDEXED, "Complete", 3, 3),
    ("sleep 600", {"activeDeadlineSeconds": 20, "backoffLimit": 6}, "Failed", 1, 0),
)
"""Body, the Job's fields, how it ends, how often its container starts and comes to its own end."""


def test_every_job_ends_as_it_would_have(attending: Stack) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    made = [(counted(body, **fields), wanted) for body, fields, *wanted in KINDS * (JOBS // len(KINDS))]
    rng.shuffle(made)

    def come() -> None:
        for job, _ in made:
            apply(attending.ada, job)
            time.sleep(EVERY)

    coming = threading.Thread(target=come, daemon=True)
    coming.start()
    for _ in range(KILLS):
        lives = len(attending.agent.logged(ADOPTED))
        attending.agent.kill()
        attending.agent.start()
        if rng.random() < 0.8:  # mostly until it has begun to act, now and then not even so long
            until(lambda: len(attending.agent.logged(ADOPTED)) > lives, pause=0.1, what="to act")  # noqa: B023 - used at once
        time.sleep(rng.uniform(0, 4))
    coming.join()

    names = [job["metadata"]["name"] for job, _ in made]
    ended = await_ends(attending.ada, *names)
    await_nothing_left(names, ADA)
    found = {name: [ended[name], told(name).count("start"), told(name).count("end")] for name in names}
    assert found == {job["metadata"]["name"]: wanted for job, wanted in made}, seed
    assert [again for name in names if (again := RUNS.twice(name))] == [], seed
