"""A running Pod whose directory its own Job has spoilt, deleted afterwards."""

from __future__ import annotations

from collections.abc import Callable

from router.hpc import JobState
from tests.reconcile.test_machine import TERMS as QUICK
from tests.reconcile.world import Agent, Directory, World


def assert_gone(spoil: Callable[[Directory], None], *, history: bool, restarted: bool, early: bool) -> None:
    """The Pod goes once its batch job has ended.

    :param restarted: whether the agent loses its memory after the deed
    :param early: whether the deed comes before the agent has seen the Pod run
    """
    world = World(history=history)
    agent = Agent(world, QUICK)
    agent.cycle()
    world.start(world.jobs["1.pbs"])
    world.go_on(world.processes["1.pbs"], 0)
    if not early:
        agent.cycle()

    (uid,) = world.pods
    spoil(world.directories[uid])
    if restarted:
        agent.restart()
    agent.cycle()
    world.delete_pod(uid, grace=30)
    for _ in range(200):
        world.pass_time(5)
        for process in world.processes.values():
            world.go_on(process, 0)
        agent.cycle()
        if uid in world.pods:
            world.control()

    assert uid not in world.pods
    assert world.jobs["1.pbs"].state is JobState.FINISHED
    assert world.wrong == []
