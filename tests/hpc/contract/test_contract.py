"""What every batch system must do, asked as the agent asks.

Marked ``slurm`` and ``pbs`` where a real one is needed. Nothing here is told from recordings.
"""

from __future__ import annotations

import pytest

from router.agent.batch.jobs import BatchJobs
from router.errors import Refused, Unavailable
from router.hpc import JobState, Verdict
from tests.hpc.contract.sites import SECONDS, Site
from tests.local.queue import until

pytestmark = pytest.mark.timeout(900)

ENDLESS = "sleep 300 & wait\n"
LISTENS = "trap 'echo told >told; exit 3' TERM INT\n: >ready\nsleep 300 & wait\n"


def finished(site: Site, job_id: str) -> tuple[int | None, Verdict | None, bool]:
    report = site.seen(job_id, lambda found: found.state is JobState.FINISHED)
    return report.exit_status, report.verdict, report.succeeded


def test_a_job_that_ends_well(site: Site) -> None:
    submission = site.submission("echo done >done\n")

    job_id = site.batch().submit(submission).job_id

    assert site.system.is_id(job_id)
    assert finished(site, job_id) == (0, Verdict.ENDED, True)
    report = site.seen(job_id, lambda found: found.state is JobState.FINISHED)
    assert (report.name, report.owner, report.directory) == (submission.name, site.user, submission.directory)
    assert report.submitted is not None
    assert report.started is not None
    assert report.ended is not None
    assert report.submitted <= report.started <= report.ended
    assert until(lambda: site.work.joinpath(submission.directory, "done").read_text()) == "done\n"


def test_an_exit_code(site: Site) -> None:
    job_id = site.batch().submit(site.submission("exit 7\n")).job_id

    assert finished(site, job_id) == (7, Verdict.ENDED, False)


def test_a_job_that_runs_is_listed_and_found_by_its_name(site: Site) -> None:
    submission = site.submission(ENDLESS)
    batch = site.batch()
    job_id = batch.submit(submission).job_id

    site.seen(job_id, lambda found: found.state is JobState.RUNNING)

    listed = BatchJobs(batch).listed().states
    assert [state for shown, state in listed.items() if job_id.startswith(shown.rstrip("*"))] == [JobState.RUNNING]
    assert batch.find(submission.name) == (job_id,)
    assert batch.find(submission.name + "x") == ()
    batch.cancel([job_id])
    assert finished(site, job_id)[1:] == (Verdict.DELETED, False)
    assert until(lambda: job_id not in BatchJobs(batch).listed().states)
    assert batch.find(submission.name) == (job_id,)


def test_a_list_tells_as_much_as_details(site: Site) -> None:
    batch = site.batch()
    ended, runs = batch.submit(site.submission("exit 5\n")).job_id, batch.submit(site.submission(ENDLESS)).job_id
    site.seen(runs, lambda found: found.state is JobState.RUNNING)
    finished(site, ended)

    answer = BatchJobs(batch).ask([ended, runs], BatchJobs(batch).listed())

    assert {job_id: (one.state, one.exit_status) for job_id, one in answer.reports.items() if one.verdict} == {
        ended: (JobState.FINISHED, 5)
    }
    assert (answer.reports[runs].state, answer.unknown) == (JobState.RUNNING, frozenset())
    assert BatchJobs(site.batch()).details([ended, runs]).keys() == {ended, runs}


def test_a_signal_reaches_the_script_which_ends_in_its_own_way(site: Site) -> None:
    submission = site.submission(LISTENS)
    batch = site.batch()
    job_id = batch.submit(submission).job_id
    ready = site.work / submission.directory / "ready"
    until(ready.exists, seconds=SECONDS)

    batch.signal(job_id, "TERM")

    assert finished(site, job_id)[0] == 3
    assert (site.work / submission.directory / "told").read_text() == "told\n"


def test_held_released_and_cancelled_while_it_waits(site: Site) -> None:
    batch = site.batch()
    blocker_free = site.submission(ENDLESS, directives=("--hold",) if site.name == "slurm" else ("-h",))
    job_id = batch.submit(blocker_free).job_id
    assert site.seen(job_id, lambda found: found.state is JobState.HELD).started is None
    assert JobState.HELD in BatchJobs(batch).listed().states.values()

    site.release(job_id)
    site.seen(job_id, lambda found: found.state is JobState.RUNNING)
    batch.cancel([job_id])

    assert finished(site, job_id)[1:] == (Verdict.DELETED, False)


def test_cancelled_before_it_ran(site: Site) -> None:
    batch = site.batch()
    job_id = batch.submit(
        site.submission("exit 0\n", directives=("--hold",) if site.name == "slurm" else ("-h",))
    ).job_id
    site.seen(job_id, lambda found: found.state is JobState.HELD)

    batch.cancel([job_id])

    assert finished(site, job_id) == (None, Verdict.DELETED, False)


def test_an_unknown_job(site: Site) -> None:
    batch = site.batch()
    known = batch.submit(site.submission("exit 0\n")).job_id
    unknown = known.replace(known.partition(".")[0], "98765", 1)
    finished(site, known)

    answer = BatchJobs(batch).ask([unknown, known])

    assert (set(answer.reports), set(answer.unknown)) == ({known}, {unknown})
    assert BatchJobs(batch).ask([unknown]).unknown == {unknown}
    batch.cancel([unknown])
    batch.signal(unknown, "TERM")


def test_to_cancel_what_is_over_is_no_error(site: Site) -> None:
    batch = site.batch()
    job_id = batch.submit(site.submission("exit 0\n")).job_id
    finished(site, job_id)

    batch.cancel([job_id])


def test_a_queue_that_is_not_there(site: Site) -> None:
    with pytest.raises(Refused) as refused:
        site.batch().submit(site.submission("exit 0\n", directives=site.bad_queue()))

    assert "queue" in refused.value.words.lower() or "partition" in refused.value.words.lower()


def test_a_server_that_is_down_says_nothing_of_any_job(site: Site) -> None:
    job_id = site.batch().submit(site.submission("exit 0\n")).job_id
    finished(site, job_id)
    batch = site.batch(site.unreachable())

    # The embedded queue's figures come from a command of its own, which no fault reaches.
    queues = () if site.name == "local" else (batch.queues,)
    for ask in (
        lambda: batch.submit(site.submission("exit 0\n")),
        lambda: BatchJobs(batch).listed(),
        lambda: batch.find("any"),
        lambda: BatchJobs(batch).details([job_id]),
        lambda: batch.cancel([job_id]),
        lambda: batch.signal(job_id, "TERM"),
        *queues,
    ):
        with pytest.raises(Unavailable):
            ask()


def test_queues(site: Site) -> None:
    found = site.batch().queues()

    assert found
    assert all(name == queue.name for name, queue in found.items())
    usable = [queue for queue in found.values() if queue.enabled and queue.started and not queue.destinations]
    assert usable
    assert all(queue.free_nodes is not None and queue.queued is not None for queue in usable)
    if site.name != "local":
        assert all(queue.cores_per_node and queue.memory_per_node for queue in usable)
