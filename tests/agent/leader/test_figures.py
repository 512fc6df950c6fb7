"""What a leader counts for its metrics."""

from __future__ import annotations

import time
from dataclasses import replace

from router.agent.leader.figures import Figures
from router.agent.records import Records, SiteRecords
from router.hpc import JobState, QueueReport
from router.pod.layout import PodDirectory
from router.pod.status import PodStatus
from router.pod.view import PodView
from router.reconcile import outcomes
from router.startup.settings import QUEUES_MAX_AGE
from tests.reconcile.given import T, over, pod, report


def of(*pods: PodView) -> tuple[Figures, SiteRecords]:
    """The figures of a site with these Pods and a queue ``batch``."""
    site = SiteRecords()
    records = Records(lambda view: PodDirectory("/w", view.job_uid, view.index, view.uid), user="ada", site=site)
    site.join(records)
    for one in pods:
        records.add(outcomes.first(one))
    return Figures(site, ("batch",), time.monotonic), site


def test_pods_are_counted_by_queue_and_the_state_of_their_job() -> None:
    jobs = {"waits": "", "told": "1.s", "runs": "2.s", "also": "3.s", "over": "4.s"}
    status = PodStatus(phase="Succeeded", started=T)
    pods = [pod(name=name, uid=name, job_id=job_id) for name, job_id in jobs.items()]
    # What stands in a label is its user's text.
    strange = [pod(name=name, uid=name, queue=f"queue-of-{name}") for name in ("x", "y")]
    found, site = of(*pods, *strange, pod(name="done", uid="done", status=status))
    for uid, one in (("runs", report(job_id="2.s")), ("also", report(job_id="3.s")), ("over", over(job_id="4.s"))):
        record = site.get(uid)
        assert record is not None
        named = replace(one, name=f"train.0a1b2c3d.{uid}")
        record.change(lambda facts: outcomes.reported(facts, named, T))  # noqa: B023 - called at once

    assert found.jobs() == {
        ("batch", "Waiting"): 1,
        ("batch", "Submitted"): 1,
        ("batch", str(JobState.RUNNING)): 2,
        ("batch", str(JobState.FINISHED)): 1,
        ("batch", "Succeeded"): 1,
        ("", "Waiting"): 2,
    }


def test_stuck_pods_are_those_of_the_command_status() -> None:
    now = int(time.time())
    found, _ = of(
        pod(name="new", uid="new", created=now),
        pod(name="silent", uid="silent"),
        pod(name="held", uid="held", queue="elsewhere", status=PodStatus(reason="Held")),
        *(pod(name=f"{n}", uid=f"{n}", status=PodStatus(phase="Failed", reason="NotVerified")) for n in range(2)),
        pod(name="failed", uid="failed", status=PodStatus(phase="Failed", reason="Error")),
        pod(name="leaving", uid="leaving", deleted_at=now - 3600),
    )

    assert found.stuck() == {
        ("batch", "NotTakenUp"): 1,
        ("", "Held"): 1,
        ("batch", "NotVerified"): 2,
        ("batch", "Terminating"): 1,
    }


def test_figures_of_queues_are_of_declared_ones_and_never_old() -> None:
    found, _ = of()
    batch, other = (QueueReport(name, enabled=True, started=True) for name in ("batch", "other"))
    assert found.queues() == {}

    found.tell({"batch": batch, "other": other})
    assert found.queues() == {"batch": batch}

    found._told -= QUEUES_MAX_AGE + 1
    assert found.queues() == {}
    found.tell({"batch": batch})
    assert found.queues() == {"batch": batch}
    found.tell({})  # the batch system is not reached
    assert found.queues() == {}


def test_an_age_is_that_of_the_last_sign() -> None:
    heard = time.monotonic() - 100

    assert 100 <= Figures(SiteRecords(), (), lambda: heard).ages()["pods"] < 10_000
