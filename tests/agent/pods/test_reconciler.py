"""Reconciler for single Pods: one that cannot be attended to is tried again, and holds up nobody else."""

from __future__ import annotations

import errno
from functools import partial
from pathlib import Path

from router import names
from router.agent.pods.reconciler import PLANNERS
from router.host import HostUnavailable
from router.hpc import JobReport, JobState, Verdict
from router.pod.view import departed
from router.reconcile import outcomes
from router.reconcile.model import Submit
from tests.agent.pods.world import World
from tests.local.queue import until


def test_a_pod_whose_step_raises_anything_comes_again_and_stops_nobody(world: World) -> None:
    bad, good, other = world.add("bad"), world.add("good"), world.add("other")

    world.reconciler.start()

    for record in (good, other):
        until(lambda: record.facts.pod.status.phase, lambda phase: phase == "Failed")  # noqa: B023 - used at once
    assert good.facts.pod.status.reason == "WrongUser"
    assert ("good", "WrongUser") in world.told
    until(lambda: world.asked.count("bad"), lambda count: count >= 2)
    assert bad.facts.pod.status.phase == "Pending"
    assert world.reconciler.alive


def test_a_users_file_system_that_fails_is_told_on_the_pod(world: World) -> None:
    """Whatever its job has come to, it cannot be seen now."""
    record = world.add("other")
    world.trouble = OSError(errno.EROFS, "that file system is mounted read-only", "/home/ada/site")

    world.reconciler.start()
    until(lambda: ("other", "SiteStorage") in world.told)
    world.trouble = None

    until(lambda: record.facts.pod.status.phase, lambda phase: phase == "Failed")
    assert record.facts.pod.status.reason == "WrongUser"


def test_a_host_that_is_away_is_told_on_the_node_and_not_on_every_pod(world: World) -> None:
    record = world.add("other")
    world.trouble = HostUnavailable("ada on login: no answer")

    world.reconciler.start()
    until(lambda: record.failures)
    world.trouble = None

    until(lambda: record.facts.pod.status.phase, lambda phase: phase == "Failed")
    assert ("other", "SiteStorage") not in world.told


def test_a_users_way_that_a_person_must_mend_is_told_on_the_pod(world: World) -> None:
    """Others may reach the site by their own, so that the Node has nothing to say."""
    record = world.add("other")
    world.trouble = HostUnavailable("ada on login: the host refuses keys/ada", lasting=True)

    world.reconciler.start()
    until(lambda: ("other", "HPCUnavailable") in world.told)
    world.trouble = None

    until(lambda: record.facts.pod.status.phase, lambda phase: phase == "Failed")
    assert ("other", "SiteStorage") not in world.told


def test_results_that_cannot_be_brought_are_tried_again_with_growing_pauses(world: World) -> None:
    """The plans between two tries succeed, which says nothing about the place where results go."""
    record = world.add("good")
    world.bringing = OSError(errno.EROFS, "Read-only file system", "/results")

    world.reconciler.start()
    until(lambda: record.facts.pod.status.phase, lambda phase: phase == "Failed")
    record.owed = True
    world.queue.wake("good")

    until(lambda: len(world.brought), lambda count: count == 3)
    _, second, third = world.brought  # between the first two it is a second, and more on a busy machine
    assert third - second >= 2, world.brought
    world.bringing = None
    until(lambda: not record.owed)
    assert record.failures == {}


def test_there_is_always_one_who_plans_for_the_next_and_no_more_than_were_needed(world: World) -> None:
    held, going = [world.hold(f"held-{number}") for number in range(PLANNERS - 1)], "good"

    world.reconciler.start()
    first = len(world.reconciler._threads)
    for uid in held:
        world.add(uid)
    until(lambda: sorted(world.asked), lambda asked: asked == sorted(held))
    record = world.add(going)

    until(lambda: record.facts.pod.status.phase, lambda phase: phase == "Failed")
    assert (first, len(world.reconciler._threads)) == (1, PLANNERS)
    world.go.set()
    until(lambda: {one.facts.pod.status.phase for one in world.records.all()}, lambda phases: phases == {"Failed"})
    assert world.reconciler.alive


def test_whoever_does_not_lead_does_nothing(world: World) -> None:
    world.leads = False
    record = world.add("good")

    world.reconciler.start()

    until(lambda: len(world.queue), lambda waiting: waiting == 0)
    assert world.queue.idle(30)
    assert record.facts.pod.status.phase == "Pending"
    assert world.asked == []


def test_nothing_is_submitted_to_a_site_that_is_refused(world: World) -> None:
    """Neither what waits nor what is in line for submission already; and all of it once the site is mended."""
    world.refusal = "its last check failed"
    record, planned = world.add("good"), world.add("other")
    planned.change(outcomes.submitting)

    world.reconciler._run(planned, "submit", Submit(fresh=True))
    world.reconciler.start()

    for one in (record, planned):
        until(lambda: one.facts.pod.status.reason, lambda reason: reason == "SiteRefused")  # noqa: B023 - used at once
    assert record.facts.pod.status.message == "its last check failed"
    assert [name for name, reason in world.told if reason == "SiteRefused"].count("good") == 1
    assert world.prepared == []

    world.refusal = ""
    for one in (record, planned):
        world.queue.wake(one.uid)
        until(lambda: one.facts.pod.status.reason, lambda reason: reason == "WrongUser")  # noqa: B023
    assert sorted(world.prepared) == ["good", "other"]


def test_only_jobs_of_an_mpi_profile_that_is_refused_wait(world: World) -> None:
    world.refused_profiles = {"open-mpi": "its launcher starts no rank"}
    world.pods["good"]["metadata"]["annotations"] = {names.KEY_SCRIPT: "#!/bin/bash\nprofile=open-mpi # of the site\n"}
    waits, other = world.add("good"), world.add("other")

    world.reconciler.start()

    until(lambda: waits.facts.pod.status.reason, lambda reason: reason == "SiteRefused")
    until(lambda: other.facts.pod.status.reason, lambda reason: reason == "WrongUser")
    assert (waits.facts.pod.status.message, world.prepared) == ("its launcher starts no rank", ["other"])


def test_a_lead_that_is_lost_for_a_moment_loses_no_pod(world: World) -> None:
    """It was not ended for that, and nobody else has led."""
    world.leads = False
    record = world.add("good")
    world.reconciler.start()
    until(lambda: len(world.queue), lambda waiting: waiting == 0)
    assert world.queue.idle(30)

    world.leads = True

    until(lambda: record.facts.pod.status.phase, lambda phase: phase == "Failed")


def test_a_lead_that_is_lost_between_two_actions_loses_none(world: World) -> None:
    record = world.add("good")
    world.moments = iter([True, True, False])  # before the plan, before its first action, before that is done

    world.reconciler.start()

    until(lambda: record.facts.pod.status.phase, lambda phase: phase == "Failed")
    until(lambda: ("good", "WrongUser") in world.told)


def test_a_pod_that_is_missed_is_left_alone(world: World) -> None:
    record = world.add("good")
    record.missing = 1.0

    world.reconciler.start()
    world.add("other")

    other = world.records.get("other")
    until(lambda: other is not None and other.facts.pod.status.phase == "Failed")
    assert "good" not in world.asked


def remains(world: World, uid: str, claim: str) -> Path:
    """The directory of a Pod that nobody knows, missed only now."""
    left = departed(uid=uid, job_uid="job-x", index="0")
    record = world.records.found(left, now=1.0)
    assert record is not None
    directory = Path(record.directory.path)
    directory.mkdir(parents=True)
    (directory / "claim").write_text(claim)
    world.queue.wake(uid)
    return directory


def test_what_nobody_knows_is_only_looked_at_until_its_pod_is_known_to_be_gone(world: World) -> None:
    """A claim that is nobody's would be sealed; that of a batch job is followed until its record says that it is over."""
    unclaimed, running = remains(world, "unclaimed", ""), remains(world, "running", "7.pbs.1\n")
    world.reconciler.start()
    until(lambda: world.job_ids, lambda asked: asked == ["7.pbs"])
    report = JobReport("7.pbs", JobState.FINISHED, "F", 0, Verdict.ENDED, directory=str(running))
    record = world.records.get("running")
    assert record is not None

    record.change(partial(outcomes.reported, report=report, now=2.0))
    world.queue.wake("running")

    until(lambda: world.records.get("running"), lambda found: found is None)
    assert (record.over, world.records.has_ended("running")) == (True, True)
    left = world.records.get("unclaimed")
    assert left is not None
    assert (left.over, left.facts.staged, left.missing) == (False, True, 1.0)
    assert ((unclaimed / "claim").read_text(), world.finished) == ("", [])


def test_the_end_finishes_what_is_in_hand_and_begins_nothing(world: World) -> None:
    world.reconciler.start()
    record = world.add("good")
    until(lambda: record.facts.pod.status.phase, lambda phase: phase == "Failed")

    assert world.end(30)

    world.add("other")
    assert world.pods["other"]["status"]["phase"] == "Pending"
