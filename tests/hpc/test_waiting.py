"""What a waiting job's reason means, in plain words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.hpc import waiting

QOS = "the quality of service (QOS)"


@pytest.mark.parametrize(
    ("reason", "plain"),
    [
        ("Priority", "jobs of higher priority come first"),
        ("Resources", "what it asks for is in use by other jobs"),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-2]", "nodes that it could use are down, drained or reserved"),
        ("QOSMaxCpuPerUserLimit", f"its user has reached a limit of {QOS}"),
        ("QOSMaxJobsPerUserLimit", f"its user has reached a limit of {QOS}"),
        ("MaxCpuPerAccount", f"its account has reached a limit of {QOS}"),
        ("QOSMaxWallDurationPerJobLimit", "it asks for more than its quality of service (QOS) allows one job"),
        ("QOSGrpNodeLimit", "all users of its quality of service (QOS) together have reached a limit"),
        ("AssocGrpCpuLimit", "all jobs of its account together have reached a limit"),
        ("AssocMaxCpuPerJobLimit", "it asks for more than its account allows one job"),
        ("MaxMemPerLimit", "it asks for more memory of a node or core than is allowed"),
        ("QOSUsageThreshold", f"its user's share is used up further than {QOS} allows"),
        ("QOSJobLimit", f"as many jobs as {QOS} allows are there already"),
        ("AssociationResourceLimit", "all jobs of its account together have reached a limit"),
        ("Dependency", "it waits for another job to end"),
        ("DependencyNeverSatisfied", "the job that it waits for has ended otherwise than it demands"),
        ("NodeDown", "a node that it needs is down"),
        ("JobHoldMaxRequeue", "it is held, as it was started too often"),
        ("JobHeldUser", "its owner holds it"),
        ("", ""),
        ("Priority 2", ""),
        ("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions", ""),
    ],
)
def test_slurm(reason: str, plain: str) -> None:
    assert waiting.of_slurm(reason) == plain


FIGURES = "Insufficient amount of resource: {} (R: {} A: {} T: {})"


@pytest.mark.parametrize(
    ("comment", "plain"),
    [
        ("Not Running: " + FIGURES.format("ncpus", 8, 2, 16), "it asks for 8 of ncpus, and 2 of 16 are free"),
        (
            "Not Running: Insufficient amount of queue resource: mem (R: 8gb A: 2gb T: 16gb)\n",
            "it asks for 8gb of mem, and 2gb of 16gb are free",
        ),
        (
            "Can Never Run: " + FIGURES.format("ncpus", 100, 8, 8),
            "it asks for 100 of ncpus, and there are 8: it stays until the site or the Job changes",
        ),
        (
            "Can Never Run: Not enough total nodes available",
            "it asks for more than there is: it stays until the site or the Job changes",
        ),
        ("Not Running: Not enough free nodes available", "the nodes that it could use are busy"),
        (
            "Not Running: Job would conflict with reservation or top job",
            "a start now would delay a job that comes first",
        ),
        ("Not Running: Queue not started.", "its queue is stopped"),
        ("Not Running: User has reached server running job limit.", "its user has reached a limit"),
        ("Not Running: Queue batch per-user limit reached on resource ncpus", "its user has reached a limit"),
        ("Not Running: Queue batch job limit has been reached.", "as many jobs run as may run at once"),
        (
            "Not Running: Job would cross dedicated time boundary",
            "it would run into a time that is kept for other jobs",
        ),
        ("Not Running: (R: 1", ""),
        ("Job started on Sat Nov 21 at 02:24", ""),
    ],
)
def test_pbs(comment: str, plain: str) -> None:
    assert waiting.of_pbs(comment) == plain


@pytest.mark.parametrize(
    ("words", "never"),
    [
        ("Can Never Run: Not enough total nodes available (it asks for more than there is)", True),
        ("PartitionTimeLimit (it asks for more time than its partition allows); number 3 of the 4 jobs in line", True),
        ("PartitionTimeLimit; number 3 of the 4 jobs in line", True),
        ("QOSMaxWallDurationPerJobLimit", True),
        ("InvalidAccount", True),
        ("MaxMemPerLimit", True),
        ("Dependency (it waits for another job to end)", False),
        ("QOSMaxJobsPerUserLimit", False),
        ("Not Running: Can Never Run is what a site may write here", False),
        ("PartitionTimeLimits", False),
        ("", False),
    ],
)
def test_a_job_that_can_never_start_as_things_are(words: str, never: bool) -> None:
    """By the words of a Pod's message: the reason, its meaning, its place. Slurm's job_reason_codes say which are final."""
    assert waiting.never_starts(words) is never


@given(st.text())
def test_figures_stand_as_they_are(name: str) -> None:
    """What a site writes there is no template, whatever it looks like."""
    asked = "".join(name.split()) or "8"

    assert waiting.of_pbs("Not Running: " + FIGURES.format("ncpus", asked, r"\g<0>", 9)) in {
        rf"it asks for {asked} of ncpus, and \g<0> of 9 are free",
        "",  # other line ends than a space
    }
