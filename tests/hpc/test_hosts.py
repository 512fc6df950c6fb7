"""How many hosts a report names, in the words of each batch system."""

from __future__ import annotations

import pytest

from router.hpc import JobReport, JobState


@pytest.mark.parametrize(
    ("hosts", "one"),
    [
        ("", False),
        ("n1", True),
        ("n1.example.org/0*16", True),
        ("n1/0-15", True),
        ("n[1-2]", False),
        ("n1,m1", False),
        ("n1/0*8+n2/0*8", False),
        # Not surely: two chunks on one host.
        ("n1/0*8+n1/1*8", False),
    ],
)
def test_whether_hosts_name_one_host(hosts: str, one: bool) -> None:
    assert JobReport(job_id="7", state=JobState.FINISHED, code="F", hosts=hosts).one_host == one
