"""A Job's extended resource reaches the batch system by the policy's directive, and its container runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from router.demo import sandbox
from tests.local.queue import EmbeddedQueue, until
from tests.script.builders import IMAGE, container, site, text_of, workload
from tests.script.running import Pod


@pytest.mark.apptainer
@pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer on this machine")
def test_what_a_pod_asks_for_is_in_the_jobs_resources(queue: EmbeddedQueue, tmp_path: Path) -> None:
    image, pod = tmp_path / "image", Pod(queue.work).make()
    sandbox.build(image)
    where = site(
        "local",
        images=[{"match": IMAGE, "path": str(image)}],
        resources=[
            {"match": "nvidia.com/mps", "directive": "chunk.mps", "factor": 50},
            {"match": "rdma/*", "ignore": True},
        ],
    )
    job = workload(
        container("/bin/sh", "-c", "echo ran", resources={"limits": {"nvidia.com/mps": 2, "rdma/hca": 1}}),
        hostNetwork=True,
    )

    job_id = queue.submit(text_of(job, where), "-v", f"BATCHGATE_DIR={pod.path}")

    until(lambda: queue.job(job_id)["job_state"], lambda state: state == "F")
    asked = queue.job(job_id)["Resource_List"]
    assert (asked["select"], asked.get("mps")) == ("1:ncpus=1:mpiprocs=1:ompthreads=1:mps=100", None)
    assert pod.log() == "ran\n"
