"""A few ways through the model world that chance seldom takes."""

from __future__ import annotations

from router.hpc import JobState, Verdict
from tests.reconcile.test_machine import TERMS
from tests.reconcile.world import Agent, World


def test_a_lost_node_s_pod_fails_only_when_nothing_of_it_can_run_any_more() -> None:
    world = World()
    agent = Agent(world, TERMS)
    agent.cycle()
    job = world.jobs["1.pbs"]
    world.start(job)
    process = world.processes["1.pbs"]
    world.go_on(process, 0)
    world.pass_time(20)
    agent.cycle()
    (pod,) = world.pods.values()
    assert pod["status"]["phase"] == "Running"

    process.cut_off = world.now
    world.finish(job, Verdict.NODE_LOST, -20)
    lost_at = world.now
    while pod["status"]["phase"] == "Running":
        world.pass_time(5)
        agent.cycle()
        assert world.now < lost_at + 300

    assert world.wrong == []
    assert world.now >= lost_at + TERMS.silence - 15
    assert "DisruptionTarget" in {one["type"] for one in pod["status"]["conditions"]}
    world.control()
    agent.cycle()
    assert [one.state for one in world.jobs.values()] == [JobState.FINISHED, JobState.QUEUED]


def test_a_run_whose_pod_was_torn_out_is_ended_before_the_next_begins() -> None:
    world = World()
    agent = Agent(world, TERMS)
    agent.cycle()
    world.start(world.jobs["1.pbs"])
    world.go_on(world.processes["1.pbs"], 0)
    agent.cycle()

    world.remove_pod(next(iter(world.pods)))
    world.control()
    agent.cycle()
    assert list(world.jobs) == ["1.pbs"], "nothing new while the old run may be alive"
    for _ in range(5):
        world.pass_time(5)
        for process in world.processes.values():
            world.go_on(process, 0)
        agent.cycle()

    assert world.jobs["1.pbs"].verdict is Verdict.DELETED
    assert list(world.jobs) == ["1.pbs", "2.pbs"]
    assert world.wrong == []
