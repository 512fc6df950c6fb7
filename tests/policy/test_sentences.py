from __future__ import annotations

import pytest

from router.policy import sentences
from router.workload.model import Workload
from tests.policy.given import workload

SIZES = [
    (0, "0"), (512, "512"), (1000, "1k"), (1024, "1Ki"), (1536 * 1024**2, "1536Mi"), (3 * 10**9, "3G"),
    (8 * 10**9, "8G"), (8 * 1024**3, "8Gi"), (1234567, "1234567"), (1024000, "1024k"), (10**21, "1000E"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), SIZES)
def test_sizes(value: int, text: str) -> None:
    assert sentences.size(value) == text


ASKED = [
    (workload(), "no cores and no memory named"),
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
