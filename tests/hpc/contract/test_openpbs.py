"""What OpenPBS has of its own, asked as the agent asks: jobs over several nodes, and arrays."""

from __future__ import annotations

import pytest

from router.agent.batch.jobs import BatchJobs
from router.errors import Refused
from router.hpc import JobState, Verdict
from tests.hpc.contract.sites import Site

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.parametrize("site", [pytest.param("openpbs", marks=pytest.mark.pbs)], indirect=True),
]

TWO = ("-l select=2:ncpus=1:mpiprocs=1", "-l place=scatter")


def test_a_job_over_two_nodes(site: Site) -> None:
    """A rank on each, in the order of the chunks, and the record names both."""
    queues = site.batch().queues().values()
    if max(queue.nodes or 0 for queue in queues) < 2:
        pytest.skip("this OpenPBS has one node")
    submission = site.submission("cat $PBS_NODEFILE >nodes\n", directives=TWO)

    job_id = site.batch().submit(submission).job_id

    report = site.seen(job_id, lambda found: found.state is JobState.FINISHED)
    assert (report.exit_status, report.verdict, report.resources["nodect"]) == (0, Verdict.ENDED, "2")
    ranks = (site.work / submission.directory / "nodes").read_text().split()
    assert len(set(ranks)) == 2
    assert report.hosts.split("+") == [f"{host.partition('.')[0]}/0" for host in ranks]


def test_an_array_is_refused(site: Site) -> None:
    """Whatever a script asks for: it is submitted as one that is not run again, which no array may be."""
    with pytest.raises(Refused) as refused:
        site.batch().submit(site.submission("exit 0\n", directives=("-J 0-1",)))

    assert "Array" in refused.value.words


def test_a_user_s_own_arrays_are_no_jobs_of_ours(site: Site) -> None:
    """They stand in the list of the user's jobs; by its id no array is ever asked about."""
    submission = site.submission("exit 0\n")
    array = site.run("qsub", "-h", "-J", "0-1", "-N", "own", submission.script).stdout.strip()
    batch = site.batch()
    job_id = batch.submit(site.submission("exit 0\n", directives=("-h",))).job_id
    try:
        listed = BatchJobs(batch).listed().states
        assert {one: listed.get(one) for one in (array, job_id)} == dict.fromkeys((array, job_id), JobState.HELD)
        assert [site.system.is_id(one) for one in (array, array.replace("[]", "[1]"), job_id)] == [False, False, True]
        assert batch.find("own") == (array,)
    finally:
        site.run("qdel", array)
