"""Where the directory of a cluster's Jobs lies on a site."""

from __future__ import annotations

import pytest

from router.pod import layout


@pytest.mark.parametrize(
    ("work_dir", "expected"),
    [
        ("/scratch", "/scratch/hpc1.0a1b2c3d"),
        ("/scratch/{user}/batchgate/", "/scratch/ada/batchgate/hpc1.0a1b2c3d"),
        ("/scratch/{site}", "/scratch/{site}/hpc1.0a1b2c3d"),
    ],
)
def test_the_directory_of_a_cluster_on_a_site(work_dir: str, expected: str) -> None:
    assert layout.site_directory(work_dir, "ada", "hpc1", "0a1b2c3d") == expected
