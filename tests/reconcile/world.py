"""A small world to plan in: files, a batch system, scripts, an API server, a Job controller, and an agent on top.

It is no copy of the agent's shell: it does what the shell promises to do with a plan, one step at a time, and can be
killed after each. What the real ones are known to do stands here in the shortest form.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from router.hpc import JobReport, JobState, Verdict
from router.pod.leftovers import read_note
from router.pod.life import Note
from router.pod.status import as_patch, rfc3339
from router.pod.view import departed, view
from router.reconcile import outcomes
from router.reconcile.fence import in_the_way, rival
from router.reconcile.model import (
    Action,
    Adopt,
    Ask,
    Attempt,
    Collect,
    Delete,
    Facts,
    Inspect,
    Inspection,
    Look,
    Plan,
    Release,
    Seal,
    Signal,
    Submit,
    Take,
    Tell,
    Terms,
)
from router.reconcile.planning import plan
from router.reconcile.strays import Stray, reaping

JOB_UID = "0b0b0b0b-0000-4000-8000-000000000000"
START = 1_700_000_000.0
HEARTBEAT = 15
TERMINAL = {"Succeeded", "Failed"}


class Killed(Exception):
    """The agent dies here."""


@dataclass
class Directory:
    """A Pod's directory. ``notes`` lie in the spool in truth; here they are kept by Pod."""

    claim: str = ""
    claimed_at: float = 0
    locked: bool = False
    alive: float | None = None
    exits: dict[str, bytes] = field(default_factory=dict)
    notes: dict[str, tuple[float, bytes]] = field(default_factory=dict)
    job_id: str = ""


@dataclass
class Process:
    """A script that has started. ``stage``: claimed, running, exited, gone."""

    job_id: str
    uid: str
    stage: str = "claimed"
    asked: bool = False
    cut_off: float | None = None
    code: int = 0
    began: float = 0


@dataclass
class BatchJob:
    job_id: str
    uid: str
    state: JobState = JobState.QUEUED
    verdict: Verdict | None = None
    status: int | None = None
    submitted: float = 0
    started: float | None = None
    ended: float | None = None
    appears: float = 0
    kill_at: float | None = None
    lingers: bool = False
    """Whether it does not end with its script, but only when it is deleted."""


class World:
    """Everything that is not the agent's memory."""

    def __init__(self, *, history: bool = True, lag: float = 0, completions: int = 1) -> None:
        self.now = START
        self.history = history
        self.lag = lag
        self.pods: dict[str, dict[str, Any]] = {}
        self.gone: set[str] = set()
        self.directories: dict[str, Directory] = {}
        self.jobs: dict[str, BatchJob] = {}
        self.processes: dict[str, Process] = {}
        self.runs: dict[str, list[str]] = {}
        self.cancelled: set[str] = set()
        self.ended: set[str] = set()
        self.reachable = True
        self.refused = ""
        self.mood = "ok"
        self.made = 0
        self.wrong: list[str] = []
        self.history_of_phases: dict[str, list[str]] = {}
        for _ in range(completions):
            self.create_pod()

    # --- the API server and the Job controller -----------------------------------------------------------------

    def create_pod(self) -> str:
        self.made += 1
        uid = f"00000000-0000-4000-8000-{self.made:012d}"
        self.pods[uid] = {
            "metadata": {
                "namespace": "lab",
                "name": f"job-{self.made}",
                "uid": uid,
                "resourceVersion": "1",
                "creationTimestamp": rfc3339(self.now),
                "labels": {"batchgate.dev/site": "hpc", "batchgate.dev/queue": "batch"},
                "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": JOB_UID, "controller": True}
                ],
                "finalizers": ["batch.kubernetes.io/job-tracking"],
            },
            "spec": {
                "nodeName": "batch.hpc.batchgate",
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 30,
                "containers": [{"name": "main", "image": "image"}],
            },
            "status": {"phase": "Pending"},
        }
        return uid

    def patch_status(self, uid: str, patch: dict[str, Any]) -> None:
        pod = self.pods[uid]
        old, new = pod["status"], patch["status"]
        if old["phase"] in TERMINAL and new["phase"] != old["phase"]:
            self.wrong.append(f"{uid}: terminal phase rewritten")
        if old["phase"] == "Running" and new["phase"] == "Pending":
            self.wrong.append(f"{uid}: back to Pending")
        for was in old.get("containerStatuses", ()):
            now = next(one for one in new["containerStatuses"] if one["name"] == was["name"])
            if "terminated" in was["state"] and "terminated" not in now["state"]:
                self.wrong.append(f"{uid}: container back from terminated")
        conditions = {one["type"]: one for one in old.get("conditions", ())}
        conditions.update({one["type"]: one for one in new["conditions"]})
        pod["status"] = {key: value for key, value in {**old, **new}.items() if value is not None}
        pod["status"]["conditions"] = list(conditions.values())
        pod["metadata"]["annotations"].update(patch["metadata"].get("annotations", {}))
        if new["phase"] in TERMINAL and old["phase"] not in TERMINAL:
            self.ended.add(uid)
            self._check_end(uid, new["phase"])

    def _check_end(self, uid: str, phase: str) -> None:
        process = next((one for one in self.processes.values() if one.uid == uid and one.stage != "gone"), None)
        if process is not None and process.stage != "exited":
            self.wrong.append(f"{uid}: {phase} while its script runs")
        if phase == "Succeeded" and (uid in self.cancelled or self.exit_code(uid) != 0):
            self.wrong.append(f"{uid}: Succeeded, but it was ended or has failed")

    def exit_code(self, uid: str) -> int | None:
        directory = self.directories.get(uid)
        content = directory.exits.get("main.0") if directory else None
        return json.loads(content)["code"] if content else None

    def delete_pod(self, uid: str, *, grace: int, between: Callable[[], None] = lambda: None) -> None:
        """Delete a Pod. Without grace the API server does that in two steps, and a caller who dies between them, in
        ``between``, cuts it off: it serves nobody any more.
        """
        pod = self.pods[uid]
        if pod["status"]["phase"] in TERMINAL:
            grace = 0
        if "deletionTimestamp" not in pod["metadata"] or grace == 0:
            pod["metadata"]["deletionTimestamp"] = rfc3339(self.now + grace)
            pod["metadata"]["deletionGracePeriodSeconds"] = grace
        between()
        self._remove_what_nothing_holds(uid)

    def _finalize(self, uid: str) -> None:
        """The Job controller takes its finalizer off Pods that are over: the API server looks at them again then."""
        pod = self.pods[uid]
        if pod["status"]["phase"] in TERMINAL and pod["metadata"]["finalizers"]:
            pod["metadata"]["finalizers"] = []
            self._remove_what_nothing_holds(uid)

    def _remove_what_nothing_holds(self, uid: str) -> None:
        metadata = self.pods[uid]["metadata"]
        gone = "deletionTimestamp" in metadata and metadata["deletionGracePeriodSeconds"] == 0
        if gone and not metadata["finalizers"]:
            self.remove_pod(uid)

    def remove_pod(self, uid: str) -> None:
        del self.pods[uid]
        self.gone.add(uid)

    def control(self) -> None:
        """What the Job controller does: finalizers, and a new Pod in the place of each that has failed or is gone."""
        for uid in list(self.pods):
            self._finalize(uid)
        going = [pod for pod in self.pods.values() if pod["status"]["phase"] not in TERMINAL]
        done = any(pod["status"]["phase"] == "Succeeded" for pod in self.pods.values())
        if not going and not done and self.made < 4:
            self.create_pod()

    def wanted(self, uid: str) -> bool:
        """Whether a Pod is there, not deleted and not over."""
        pod = self.pods.get(uid)
        return pod is not None and "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] not in TERMINAL

    # --- files ---------------------------------------------------------------------------------------------------

    def inspect(self, uid: str) -> Inspection:
        directory = self.directories.get(uid)
        if directory is None:
            return Inspection(exists=False)
        if directory.locked:
            return Inspection(exists=True, clock=self.now, locked=True)
        seen = directory.claim if self.now >= directory.claimed_at + self.lag or directory.claim == "cancelled" else ""
        exits = [
            (name, content)
            for name, content in directory.exits.items()
            if json.loads(content)["finished"] + self.lag <= self.now
        ]
        return Inspection(
            exists=True,
            claim=f"{seen}\n".encode() if seen else b"",
            claimed_at=directory.claimed_at if seen else None,
            alive=directory.alive,
            clock=self.now,
            exits=tuple(exits),
            job_id=directory.job_id.encode(),
        )

    def spool(self, uid: str) -> list[Note]:
        directory = self.directories.get(uid)
        notes = directory.notes.items() if directory else ()
        found = [read_note(name, content) for name, (time, content) in notes if time + self.lag <= self.now]
        assert all(isinstance(one, Note) for one in found), found
        return [one for one in found if isinstance(one, Note)]

    def _note(self, process: Process, event: str, **more: Any) -> None:
        directory = self.directories[process.uid]
        fields = {"event": event, "job": process.job_id, "host": "n1", "time": int(self.now), **more}
        name = f"{process.uid}.{len(directory.notes) + 1}.{event}"
        directory.notes[name] = (self.now, json.dumps(fields).encode() + b"\n")

    # --- scripts -------------------------------------------------------------------------------------------------

    def start(self, job: BatchJob) -> None:
        """The batch system starts a job: its script claims the Pod, or runs nothing."""
        job.state, job.started = JobState.RUNNING, self.now
        directory = self.directories.get(job.uid)
        if directory is None or directory.claim:
            self.finish(job, Verdict.ENDED, 75)
            return
        directory.claim, directory.claimed_at, directory.alive = f"{job.job_id}.1234", self.now, self.now
        process = Process(job.job_id, job.uid, began=self.now)
        self.processes[job.job_id] = process
        self._note(process, "started")

    def go_on(self, process: Process, code: int) -> None:
        """The script takes its next step."""
        directory = self.directories.get(process.uid)
        if directory is None or process.stage == "gone" or process.cut_off is not None:
            return
        if process.stage == "claimed":
            if process.asked:
                self._end(process, 143)
                return
            process.stage, process.began = "running", self.now
            self.runs.setdefault(process.uid, []).append(process.job_id)
            if process.uid in self.ended:
                self.wrong.append(f"{process.uid}: starts after its end")
            self._note(process, "running", container="main", restart=0)
            alive = [one for one in self.processes.values() if one.stage == "running"]
            if len(alive) > 1:
                self.wrong.append("two runs at once: " + ", ".join(one.uid for one in alive))
        elif process.stage == "running":
            code = 143 if process.asked else code
            process.stage, process.code = "exited", code
            exit_file = {"code": code, "signal": max(0, code - 128), "started": int(process.began)}
            exit_file |= {"finished": int(self.now), "deadline": False}
            directory.exits["main.0"] = json.dumps(exit_file).encode() + b"\n"
            self._note(process, "exited", container="main", code=code, restart=0)
        elif process.stage == "exited":
            self._end(process, process.code)

    def _end(self, process: Process, code: int) -> None:
        reason = "signal" if process.asked and process.stage != "exited" else ""
        reason = "signal" if code == 143 else reason
        if reason:
            self.cancelled.add(process.uid)
        self._note(process, "ended", code=code, reason=reason)
        process.stage = "gone"
        job = self.jobs[process.job_id]
        if job.state is not JobState.FINISHED and not job.lingers:
            self.finish(job, Verdict.DELETED if job.kill_at is not None else Verdict.ENDED, code)

    def kill(self, process: Process) -> None:
        if process.stage in {"claimed", "running"}:
            self.cancelled.add(process.uid)
        process.stage = "gone"

    # --- the batch system ----------------------------------------------------------------------------------------

    def submit(self, uid: str, *, delay: float = 0) -> str:
        job_id = f"{len(self.jobs) + 1}.pbs"
        self.jobs[job_id] = BatchJob(job_id, uid, submitted=self.now, appears=self.now + delay)
        return job_id

    def finish(self, job: BatchJob, verdict: Verdict, status: int | None) -> None:
        job.state, job.verdict, job.status, job.ended = JobState.FINISHED, verdict, status, self.now

    def cancel(self, job_id: str) -> None:
        job = self.jobs[job_id]
        if job.state in {JobState.QUEUED, JobState.HELD}:
            self.finish(job, Verdict.DELETED, None)
        elif job.state is not JobState.FINISHED and job.kill_at is None:
            job.kill_at = self.now + 10
            self.ask_to_end(job_id)

    def ask_to_end(self, job_id: str) -> None:
        process = self.processes.get(job_id)
        if process is not None and process.stage in {"claimed", "running"}:
            process.asked = True

    def report(self, job_id: str) -> JobReport | None:
        job = self.jobs.get(job_id)
        if job is None or job.appears > self.now or (job.state is JobState.FINISHED and not self.history):
            return None
        return JobReport(
            job_id=job_id,
            state=job.state,
            code=job.state[:1],
            exit_status=job.status,
            verdict=job.verdict,
            name=f"job.c0ffee00.{job.uid}",
            queue="batch",
            directory=f"/work/pods/{JOB_UID}/0/{job.uid}",
            submitted=_time(job.submitted),
            started=_time(job.started),
            ended=_time(job.ended),
        )

    def listed(self, *, finished: bool) -> dict[str, JobReport]:
        found = {job_id: self.report(job_id) for job_id in self.jobs}
        return {
            job_id: one
            for job_id, one in found.items()
            if one is not None and (finished or one.state is not JobState.FINISHED)
        }

    def pass_time(self, seconds: float) -> None:
        """Time goes by: heartbeats, kills, ends of what is cut off or has lost its claim."""
        self.now += seconds
        for process in self.processes.values():
            if process.stage == "gone":
                continue
            directory = self.directories.get(process.uid)
            if process.cut_off is not None:
                if self.now - process.cut_off > 60:
                    self.kill(process)
            elif directory is None or not directory.claim.startswith(process.job_id + "."):
                self.kill(process)
                self._die(process, 75)
            else:
                directory.alive = max(directory.alive or 0, self.now - self.now % HEARTBEAT)
        for job in self.jobs.values():
            if job.kill_at is not None and job.kill_at <= self.now and job.state is not JobState.FINISHED:
                if job.job_id in self.processes:
                    self.kill(self.processes[job.job_id])
                self.finish(job, Verdict.DELETED, 271)

    def _die(self, process: Process, status: int) -> None:
        job = self.jobs[process.job_id]
        if job.state is not JobState.FINISHED:
            self.finish(job, Verdict.ENDED, status)


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)


class Agent:
    """What the shell does with plans. ``fuse`` side effects more and it is killed; None: it lives."""

    def __init__(self, world: World, terms: Terms) -> None:
        self.world = world
        self.terms = terms
        self.facts: dict[str, Facts] = {}
        self.strays: dict[str, Stray] = {}
        self.plans: dict[str, Plan] = {}
        self.fenced: set[str] = set()
        self.ended: set[str] = set()
        self.fresh = True
        self.fuse: int | None = None

    def restart(self) -> None:
        """Killed: all that it remembers is gone."""
        self.__init__(self.world, self.terms)  # type: ignore[misc]

    def cycle(self) -> None:
        """See, plan, perform, for every Pod; and again while that changes something, as the shell does."""
        world = self.world
        self._see_pods()
        for uid in self.facts:
            self._learn(uid, outcomes.noticed, world.spool(uid), world.now)
        if world.reachable:
            self._see_jobs()
        for uid in list(self.facts):
            self._look_beside(uid)
            self._surround(uid)
            for _ in range(30):
                made = plan(self.facts[uid], self.terms, world.now)
                self.plans[uid] = made
                if not (self._perform(uid, made) if self._allowed(uid) else self._look_on(uid, made)):
                    break
            else:
                raise AssertionError(f"no rest: {made} of {self.facts[uid]}")
            if self.plans[uid].over and not self.facts[uid].pod.name:
                self._forget(uid)

    def _look_on(self, uid: str, made: Plan) -> bool:
        """What is left of a Pod that nobody knows is looked at, and not touched, until it is reaped."""
        done = [self._act(uid, action) for action in made.actions if isinstance(action, Inspect | Ask)]
        return any(done)

    def _look_beside(self, uid: str) -> None:
        """What lies beside the directory of a Pod without a job, and is nobody's, is missed from now on (the fence)."""
        if self.facts[uid].jobs or uid in self.fenced or not self.facts[uid].pod.name:
            return
        self.fenced.add(uid)
        for other in self.world.directories:
            if other not in self.facts and other not in self.ended:
                self.facts[other] = outcomes.first(departed(uid=other, job_uid=JOB_UID, index="0"))
                self.strays[other] = Stray(other, self.world.now, confirmed=False)

    def _forget(self, uid: str) -> None:
        self.ended.add(uid)
        del self.facts[uid]
        self.plans.pop(uid, None)
        self.strays.pop(uid, None)

    def _learn(self, uid: str, outcome: Callable[..., Facts], *learnt: Any, **more: Any) -> None:
        self.facts[uid] = outcome(self.facts[uid], *learnt, **more)

    def _see_pods(self) -> None:
        for uid in list(self.facts):
            if self.facts[uid].pod.name and uid not in self.world.pods:
                del self.facts[uid]
                if uid in self.plans and self.plans[uid].over:
                    self.ended.add(uid)
        for uid, pod in self.world.pods.items():
            seen = view(pod)
            if uid in self.facts:
                self._learn(uid, outcomes.with_pod, seen)
            else:
                self.facts[uid] = outcomes.first(seen)

    def _see_jobs(self) -> None:
        world = self.world
        listed = world.listed(finished=self.fresh)
        for report in listed.values():
            uid = report.directory.rpartition("/")[2]
            if uid not in self.facts and report.state is not JobState.FINISHED:
                gone = departed(uid=uid, job_uid=JOB_UID, index="0", job_id=report.job_id)
                self.facts[uid] = outcomes.first(gone)
                self.strays[uid] = Stray(uid, world.now, confirmed=False)
            if uid in self.facts:
                self._learn(uid, outcomes.reported, report, world.now)
        if self.fresh:
            for uid in self.facts:
                self._learn(uid, outcomes.looked, (), world.now)
            self.fresh = False
        for uid, facts in list(self.facts.items()):
            self._ask(uid, [one.job_id for one in facts.jobs if one.job_id not in listed and not one.finished])

    def _ask(self, uid: str, job_ids: list[str] | tuple[str, ...]) -> None:
        for job_id in job_ids:
            report = self.world.report(job_id)
            if report is None:
                self._learn(uid, outcomes.unknown, job_id, self.world.now)
            else:
                self._learn(uid, outcomes.reported, report, self.world.now)

    def _surround(self, uid: str) -> None:
        rivals, own = [], self.facts[uid].pod
        for other, facts in self.facts.items():
            if other == uid or (facts.pod.job_uid, facts.pod.index) != (own.job_uid, own.index):
                continue
            made = self.plans.get(other)
            found = rival(facts, over=made.over if made else False)
            rivals += [found] if found else []
        older = in_the_way(own, rivals, parallelism=1)
        world = self.world
        self._learn(
            uid,
            outcomes.surroundings,
            reachable=world.reachable,
            refused=world.refused,
            older=older,
            disruptions=0,
        )

    def _allowed(self, uid: str) -> bool:
        """Strays are left alone until they are reaped."""
        if uid not in self.strays:
            return True
        awaited = any(facts.older for facts in self.facts.values())
        stray = replace(self.strays[uid], awaited=awaited, confirmed=True)
        return uid in reaping([stray], {"": len(self.world.jobs)}, self.world.now).reap

    def _burn(self) -> None:
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                raise Killed

    def _perform(self, uid: str, made: Plan) -> bool:
        """Whether anything was done."""
        done = False
        for action in made.actions:
            done |= self._act(uid, action)
        if uid not in self.world.pods:
            return done
        if made.annotations and made.status is None:
            self._burn()
            self.world.pods[uid]["metadata"]["annotations"].update(made.annotations)
            done = True
        if made.status is not None:
            self._burn()
            pod = self.facts[uid].pod
            patch = as_patch(made.status, uid=uid, images=pod.images, annotations=made.annotations)
            self.world.patch_status(uid, patch)
            done = True
            self._learn(uid, outcomes.wrote, view(self.world.pods[uid]), self.world.now)
            assert self.facts[uid].pod.status == made.status, "what is written reads back as it was"
        if done and uid in self.world.pods:
            self._learn(uid, outcomes.with_pod, view(self.world.pods[uid]))
        return done

    def _act(self, uid: str, action: Action) -> bool:
        world, now = self.world, self.world.now
        if isinstance(action, Tell):
            return False
        if isinstance(action, Look | Ask | Signal | Delete | Submit):
            assert world.reachable, f"{action} although the batch system does not answer"
        assert not (isinstance(action, Submit) and world.refused), f"{action} although the site is refused"
        self._burn()
        match action:
            case Inspect():
                self.facts[uid], words = outcomes.inspected(self.facts[uid], world.inspect(uid), now)
                assert words == ()
            case Adopt(job_id):
                world.directories[uid].job_id = job_id
                self._learn(uid, outcomes.adopted, job_id)
            case Seal() | Take():
                self._claim(uid, take=isinstance(action, Take))
            case Collect():
                self._learn(uid, outcomes.collecting, now)
                self._learn(uid, outcomes.collected)
            case Release():
                world.delete_pod(uid, grace=0, between=self._burn)
                self._learn(uid, outcomes.released, now)
                return False
            case _:
                self._tell_batch(uid, action)
        return True

    def _tell_batch(self, uid: str, action: Action) -> None:
        world, now = self.world, self.world.now
        match action:
            case Look():
                found = [one for one in world.listed(finished=True).values() if one.directory.endswith(uid)]
                self._learn(uid, outcomes.looked, found, now)
            case Ask(job_ids):
                self._ask(uid, job_ids)
            case Submit(fresh):
                self._submit(uid, fresh=fresh)
            case Signal(job_id):
                world.ask_to_end(job_id)
                self._learn(uid, outcomes.signalled, now)
            case Delete(job_id):
                world.cancel(job_id)
                self._learn(uid, outcomes.deleted, job_id, now, agreed=True)
            case _:
                raise AssertionError(action)

    def _claim(self, uid: str, *, take: bool) -> None:
        directory, now = self.world.directories.get(uid), self.world.now
        if directory is not None and directory.locked:
            if take:
                self._learn(uid, outcomes.untaken)
            self._learn(uid, outcomes.sealed, b"", now)
            return
        if directory is not None and (take or not directory.claim):
            directory.claim, directory.claimed_at = "cancelled", now
        claim = None if directory is None else f"{directory.claim}\n".encode()
        self._learn(uid, outcomes.sealed, claim, now)

    def _submit(self, uid: str, *, fresh: bool) -> None:
        world, now = self.world, self.world.now
        self._learn(uid, outcomes.submitting)
        if fresh and uid in world.directories:
            self._learn(uid, outcomes.found_directory)
            return
        world.directories.setdefault(uid, Directory())
        self._burn()
        mood, world.mood = world.mood, "ok"
        later = Attempt("QueueFull", "too many jobs", not_before=now + 5)
        if mood in {"lost", "late"}:
            world.submit(uid, delay=20 if mood == "late" else 0)
            self._learn(uid, outcomes.unclear, later)
        elif mood == "full":
            self._learn(uid, outcomes.held_back, later, staged=True)
        elif mood == "refused":
            no = Attempt("Refused", "no such queue", final=True)
            self._learn(uid, outcomes.held_back, no, staged=True)
        else:
            job_id = world.submit(uid)
            self._burn()
            world.directories[uid].job_id = job_id
            self._learn(uid, outcomes.submitted, job_id)
