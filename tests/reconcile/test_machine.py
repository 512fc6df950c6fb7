"""Whatever happens, in whatever order, and however often the agent is killed: one run a Pod, one end, nothing left.

A hypothesis state machine over ``world``: scripts and jobs go on, fail, are killed, held, lost with their nodes; answers
get lost or come late; Pods are deleted and force-deleted; the batch system is away or has no history; the agent is
killed after any of its steps.
"""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from router.hpc import JobState, Verdict
from router.reconcile.model import Terms
from tests.reconcile.world import TERMINAL, Agent, Killed, World

pytestmark = pytest.mark.timeout(900)  # seconds of work, on a machine that may have other things to do

TERMS = Terms(fs_delay=2, collect_patience=5)
SLOW_FILES = Terms(fs_delay=120)
LAG = 50.0
OVER = 4000.0
"""Seconds in which everything must come to its end once nothing more happens: longer than any proof takes."""


class Life(RuleBasedStateMachine):
    world: World
    agent: Agent

    @initialize(history=st.booleans(), lag=st.sampled_from([0.0, LAG]))
    def begin(self, history: bool, lag: float) -> None:
        self.world = World(history=history, lag=lag)
        self.agent = Agent(self.world, SLOW_FILES if lag else TERMS)

    def _jobs(self, *states: JobState) -> list[str]:
        return [one.job_id for one in self.world.jobs.values() if one.state in states and one.appears <= self.world.now]

    # --- the agent -----------------------------------------------------------------------------------------------

    @rule()
    def agent_goes_on(self) -> None:
        self.agent.cycle()

    @rule(fuse=st.integers(0, 12))
    def agent_is_killed(self, fuse: int) -> None:
        self.agent.fuse = fuse
        with contextlib.suppress(Killed):
            self.agent.cycle()
        self.agent.restart()

    @rule(code=st.sampled_from([0, 0, 3]))
    def all_goes_on(self, code: int) -> None:
        self.world.pass_time(1)
        for job_id in self._jobs(JobState.QUEUED):
            self.world.start(self.world.jobs[job_id])
        self.agent.cycle()
        for process in self.world.processes.values():
            self.world.go_on(process, code)
        self.world.control()

    # --- the site ------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 3.0, 20.0, 70.0, 200.0, 700.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @precondition(lambda self: self._jobs(JobState.QUEUED))
    @rule(data=st.data())
    def a_job_starts(self, data: st.DataObject) -> None:
        self.world.start(self.world.jobs[data.draw(st.sampled_from(self._jobs(JobState.QUEUED)))])

    @precondition(lambda self: any(one.stage != "gone" for one in self.world.processes.values()))
    @rule(data=st.data(), code=st.sampled_from([0, 0, 3]))
    def a_script_goes_on(self, data: st.DataObject, code: int) -> None:
        going = [job_id for job_id, one in self.world.processes.items() if one.stage != "gone"]
        self.world.go_on(self.world.processes[data.draw(st.sampled_from(going))], code)

    @precondition(lambda self: self._jobs(JobState.QUEUED, JobState.HELD))
    @rule(data=st.data())
    def a_job_is_held_or_released(self, data: st.DataObject) -> None:
        job = self.world.jobs[data.draw(st.sampled_from(self._jobs(JobState.QUEUED, JobState.HELD)))]
        job.state = JobState.HELD if job.state is JobState.QUEUED else JobState.QUEUED

    @precondition(lambda self: self._jobs(JobState.QUEUED, JobState.HELD, JobState.RUNNING))
    @rule(data=st.data())
    def an_admin_deletes_a_job(self, data: st.DataObject) -> None:
        self.world.cancel(data.draw(st.sampled_from(self._jobs(JobState.QUEUED, JobState.HELD, JobState.RUNNING))))

    @precondition(lambda self: self._jobs(JobState.RUNNING))
    @rule(data=st.data(), verdict=st.sampled_from([Verdict.WALLTIME, Verdict.MEMORY]))
    def a_job_is_killed(self, data: st.DataObject, verdict: Verdict) -> None:
        job = self.world.jobs[data.draw(st.sampled_from(self._jobs(JobState.RUNNING)))]
        if job.job_id in self.world.processes:
            self.world.kill(self.world.processes[job.job_id])
        self.world.finish(job, verdict, -29)

    @precondition(lambda self: self._jobs(JobState.RUNNING))
    @rule(data=st.data())
    def a_job_will_not_end_with_its_script(self, data: st.DataObject) -> None:
        """An epilogue that hangs."""
        self.world.jobs[data.draw(st.sampled_from(self._jobs(JobState.RUNNING)))].lingers = True

    @precondition(lambda self: self._jobs(JobState.RUNNING))
    @rule(data=st.data())
    def a_node_is_lost(self, data: st.DataObject) -> None:
        job = self.world.jobs[data.draw(st.sampled_from(self._jobs(JobState.RUNNING)))]
        if job.job_id in self.world.processes:
            self.world.processes[job.job_id].cut_off = self.world.now
        self.world.finish(job, Verdict.NODE_LOST, -20)

    @precondition(lambda self: self._jobs(JobState.RUNNING))
    @rule(data=st.data())
    def a_node_crashes_and_its_jobs_count_as_well_ended(self, data: st.DataObject) -> None:
        """TORQUE."""
        job = self.world.jobs[data.draw(st.sampled_from(self._jobs(JobState.RUNNING)))]
        if job.job_id in self.world.processes:
            self.world.kill(self.world.processes[job.job_id])
        self.world.finish(job, Verdict.ENDED, 0)

    @rule()
    def the_batch_system_goes_or_comes_back(self) -> None:
        self.world.reachable = not self.world.reachable

    @rule()
    def a_check_of_the_site_goes_wrong_or_well(self) -> None:
        self.world.refused = "" if self.world.refused else "its last check failed"

    @rule(mood=st.sampled_from(["lost", "late", "full", "refused"]))
    def the_next_submission_will_not_be_answered_well(self, mood: str) -> None:
        self.world.mood = mood

    @precondition(lambda self: self.world.directories and len(self.world.jobs) < 12)
    @rule(data=st.data())
    def somebody_submits_the_same_again(self, data: st.DataObject) -> None:
        self.world.submit(data.draw(st.sampled_from(sorted(self.world.directories))))

    # --- the cluster ---------------------------------------------------------------------------------------------

    @rule()
    def the_job_controller_goes_on(self) -> None:
        self.world.control()

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data(), grace=st.sampled_from([30, 30, 0]))
    def a_pod_is_deleted(self, data: st.DataObject, grace: int) -> None:
        self.world.delete_pod(data.draw(st.sampled_from(sorted(self.world.pods))), grace=grace)

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data())
    def a_pod_is_torn_out(self, data: st.DataObject) -> None:
        """Its finalizer is taken off by hand: it is gone whatever runs."""
        self.world.remove_pod(data.draw(st.sampled_from(sorted(self.world.pods))))

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data())
    def a_pod_is_collected_as_garbage(self, data: st.DataObject) -> None:
        """Its Node is gone: the collector writes Failed, whatever runs."""
        pod = self.world.pods[data.draw(st.sampled_from(sorted(self.world.pods)))]
        if pod["status"]["phase"] not in TERMINAL:
            pod["status"]["phase"] = "Failed"

    def _is_awaited(self, job_id: str) -> bool:
        """Whether the batch system will start a job by itself: what nobody wants stays queued until it is deleted."""
        uid = self.world.jobs[job_id].uid
        return self.world.wanted(uid) and not self.world.directories[uid].claim

    # --- what always holds -----------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_wrong(self) -> None:
        if hasattr(self, "world"):
            assert self.world.wrong == []
            assert all(len(runs) == 1 for runs in self.world.runs.values()), self.world.runs

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world, agent = self.world, self.agent
        world.reachable, world.refused, world.mood = True, "", "ok"
        end = world.now + OVER
        while world.now < end:
            world.pass_time(45)
            for job_id in self._jobs(JobState.HELD):
                world.jobs[job_id].state = JobState.QUEUED
            queued = [job_id for job_id in self._jobs(JobState.QUEUED) if self._is_awaited(job_id)]
            for job_id in queued[:1]:
                world.start(world.jobs[job_id])
            for process in world.processes.values():
                if process.asked or process.stage == "exited" or world.wanted(process.uid):
                    world.go_on(process, 0)
            agent.cycle()
            world.control()
            self.nothing_is_wrong()
        going = {uid: pod["status"]["phase"] for uid, pod in world.pods.items()}
        assert set(going.values()) <= TERMINAL, (going, agent.facts, agent.plans)
        deleted = [uid for uid, pod in world.pods.items() if "deletionTimestamp" in pod["metadata"]]
        assert deleted == [], (deleted, agent.plans)
        left = [job_id for job_id in world.jobs if world.jobs[job_id].state is not JobState.FINISHED]
        assert left == []


Life.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLife = Life.TestCase
