from __future__ import annotations

import pytest

from router.policy import sentences
from router.workload.model import Workload
from tests.policy.given import workload

ASKED = [
    (workload(), "nothing"),
    (workload({"cpu": "1"}), "1 core"),
    (workload({"cpu": "250m", "memory": "3G"}), "250m cores, 3G of memory"),
    (workload({"cpu": "0"}), "0 cores"),
    (workload({"nvidia.com/gpu": "1"}, activeDeadlineSeconds=5400), "1 GPU, for 1h30m"),
    (workload({"cpu": "2"}, parallelism=5), "5 Pods of 2 cores"),
    (workload({"cpu": "2"}, parallelism=5, completions=3), "3 Pods of 2 cores"),
    (workload({"cpu": "2"}, parallelism=0), "0 Pods of 2 cores"),
    (workload(annotations={"batchgate.dev/ranks": "8"}), "8 MPI ranks"),
]


@pytest.mark.parametrize(("asking", "text"), ASKED)
def test_what_a_job_asks_for(asking: Workload, text: str) -> None:
    assert sentences.asked(asking) == text
