"""A term as the leader, in this process: a real API server and a real embedded queue, and all that runs while it lasts."""

from __future__ import annotations

import getpass
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from router import names, policy, signing
from router.agent import sites
from router.agent.attending import World
from router.agent.batch import Batch
from router.agent.election import Election
from router.agent.lastcheck import CheckRecord
from router.agent.leading import Lead
from router.agent.metrics import Metrics
from router.agent.nowhere import Nowhere
from router.agent.seats import Seat, Seats
from router.agent.settings import AgentSettings
from router.controlplane import installing
from router.controlplane.plane import ControlPlane
from router.host import Host
from router.host.local import LocalHost
from router.hpc import JobState
from router.kube.client import connect
from router.kube.events import Recorder
from router.podstatus import PodStatus
from router.policyfiles import read_directory
from router.preflight import Line, Mark
from router.reconcile import outcomes
from router.reconcile.model import Terms
from router.settings import Address
from tests.agent.agents import AgentSite, cleaned, until
from tests.local.conftest import queue as queue  # noqa: PLC0414 - a fixture
from tests.local.queue import EmbeddedQueue
from tests.reconcile.given import T, over, pod, report

pytestmark = pytest.mark.timeout(900)
_NUMBERS = itertools.count(1)
FREE = Address("127.0.0.1", 0)


@dataclass
class Term:
    """A leader that is about to begin, and where it works."""

    site: AgentSite
    world: World
    lead: Lead

    def turn(self) -> str:
        """One turn; why the leader is not ready after it."""
        self.lead.turn()
        return self.lead.ready

    def await_ready(self) -> None:
        until(self.turn, lambda problem: problem == "")


def world_of(site: AgentSite) -> World:
    """All that there is before anybody leads, with the rights of an agent."""
    found = policy.load(read_directory(site.policy))
    ours = sites.site_of(found, site.name)
    api = connect(str(site.kubeconfig))
    settings = AgentSettings(
        site=site.name, policy=site.policy, public_key=site.public_key, listen=FREE, metrics=FREE,
        address="127.0.0.1", cycle_seconds=1, quick_seconds=1, orphan_seconds=1, self_signed=True,
    )  # fmt: skip
    metrics, user, root = Metrics(), getpass.getuser(), str(site.root / "work")

    def seat(host: Host, name: str) -> Seat:
        batch = Batch(host, sites.system_of(ours), commands, user=name, seconds=60, metrics=metrics)
        return Seat(name, root, host, batch)

    election = Election(api, settings.namespace, f"batchgate-{site.name}", "test", 15)
    recorder = Recorder(api, election.identity)
    commands = sites.commands_of(ours, site.queue.directory, "")
    keys = signing.load_public(site.public_key.read_bytes())
    return World(
        settings=settings,
        site=ours,
        cluster="0a1b2c3d",
        gpu_resources={},
        terms=lambda pod: Terms(),
        api=api,
        seats=Seats([user], make=lambda name: seat(LocalHost(root), name), refusal=lambda name: ""),
        nobody=seat(Nowhere(), ""),
        metrics=metrics,
        election=election,
        recorder=recorder,
        keys=lambda: keys,
    )


@pytest.fixture
def term(plane: ControlPlane, queue: EmbeddedQueue, tmp_path: Path) -> Iterator[Term]:
    name = f"leading{next(_NUMBERS)}"
    seeing = replace(queue, environment={"BATCHGATE_LOCAL_FAULTS": "ignore"})
    site = AgentSite(name, tmp_path / "site", seeing, connect(str(plane.kubeconfig())), installing.agent(plane))
    with cleaned(site):
        world = world_of(site)
        lead = Lead(world)
        world.recorder.start()
        world.election.start()
        lead.stand_by()
        assert world.election.wait(60)
        lead.start()
        yield Term(site, world, lead)
        lead.stop(10)
        lead._kubelet.stop()  # else served to the end of the process
        world.recorder.stop(2)
        world.election.release()


def test_a_term(term: Term) -> None:
    """Nodes first; planning once the Pods and the jobs are known; everything alive; and the end of it all."""
    lead = term.lead
    assert lead.ready != ""

    term.await_ready()

    assert lead.problem == ""
    assert term.site.nodes() == ["workq"]
    assert lead.jobs() == {}
    assert 0 <= lead.ages()["pods"] < 100
    until(lambda: term.site.condition(names.CONDITION_HPC_UNAVAILABLE), lambda status: status == "False")
    assert term.site.condition(names.CONDITION_ORPHAN_LIMIT) == "False"

    began = time.monotonic()
    lead.stop(10)
    assert time.monotonic() - began < 100
    until(lambda: lead.problem)


def test_a_batch_system_that_does_not_answer_is_shown_on_the_nodes_and_holds_up_nothing_else(term: Term) -> None:
    term.site.queue.ok("faults", "unreachable=on")

    term.await_ready()

    until(lambda: term.site.condition(names.CONDITION_HPC_UNAVAILABLE), lambda status: status == "True")
    term.site.queue.ok("faults", "none")
    until(lambda: term.site.condition(names.CONDITION_HPC_UNAVAILABLE), lambda status: status == "False")
    assert term.lead.problem == ""


def test_a_site_whose_last_check_failed_is_refused_until_another_finds_it_mended(term: Term) -> None:
    """Its Nodes say so, and to rules its queues are down. A site that was never checked is not refused."""
    term.await_ready()
    until(lambda: term.site.condition(names.CONDITION_SITE_REFUSED), lambda status: status == "False")
    full = Line("work-directory", "ada", Mark.MUST, "the disk is full", "room", "make room")
    record = CheckRecord(term.world.api, term.world.settings.namespace, term.site.name)

    record.keep([full], ["ada"], "2026-03-01T12:00:00Z", whole=True)

    until(lambda: term.site.condition(names.CONDITION_SITE_REFUSED), lambda status: status == "True")
    assert [state.enabled for state in term.lead._queues().values()] == [False]
    record.keep([replace(full, mark=Mark.OK)], ["ada"], "2026-03-01T13:00:00Z", whole=True)
    until(lambda: term.site.condition(names.CONDITION_SITE_REFUSED), lambda status: status == "False")
    assert [state.enabled for state in term.lead._queues().values()] == [True]
    assert term.lead.problem == ""
    place = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps/{names.CHECKS_CONFIG_MAP}"
    term.site.api.patch(place, {"data": {f"{term.site.name}.json": None}})


def test_a_thread_that_has_ended_is_a_reason_to_start_anew(term: Term) -> None:
    term.await_ready()
    assert term.lead.problem == ""

    term.lead._pods.watch.stop()

    until(lambda: term.lead.problem, lambda problem: problem == "ended: watch")


def test_a_job_without_a_pod_is_cancelled_in_the_end(term: Term) -> None:
    """What an earlier leader has submitted for a Pod that is gone."""
    directory = f"{term.site.root}/work/pods/job-uid/0/{'0' * 8}-1111-2222-3333-444444444444"
    Path(directory).mkdir(parents=True)
    name = f"train.{term.world.cluster}.{directory.rpartition('/')[2]}"
    job_id = term.site.queue.submit("sleep 600\n", "-N", name, "-v", f"BATCHGATE_DIR={directory}")
    term.site.queue.reached(job_id, "R")

    term.await_ready()

    until(lambda: (term.turn(), term.site.queue.job(job_id)["job_state"])[1], lambda state: state == "F")
    assert "batchgate_agent_orphans_reaped_total 1.0" in term.world.metrics.text().decode()


def test_pods_are_counted_by_the_state_of_their_job(term: Term) -> None:
    records = term.lead._of(getpass.getuser()).records
    status = PodStatus(phase="Succeeded", started=T)
    for name, job_id in (("waits", ""), ("told", "1.s"), ("runs", "2.s"), ("also", "3.s"), ("over", "4.s")):
        records.add(outcomes.first(pod(name=name, uid=name, job_id=job_id)))
    records.add(outcomes.first(pod(name="done", uid="done", status=status)))
    for uid, one in (("runs", report(job_id="2.s")), ("also", report(job_id="3.s")), ("over", over(job_id="4.s"))):
        record = records.get(uid)
        assert record is not None
        named = replace(one, name=f"train.0a1b2c3d.{uid}")
        record.change(lambda facts: outcomes.reported(facts, named, T))  # noqa: B023 - called at once

    assert term.lead.jobs() == {
        "Waiting": 1,
        "Submitted": 1,
        str(JobState.RUNNING): 2,
        str(JobState.FINISHED): 1,
        "Succeeded": 1,
    }
