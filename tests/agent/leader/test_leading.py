"""A term as the leader, in this process: a real API server and a real embedded queue, and all that runs while it lasts."""

from __future__ import annotations

import getpass
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

import pytest

from router import names, policy
from router.agent import sites
from router.agent.batch.commands import BatchCommands
from router.agent.files import cleaning
from router.agent.lastcheck import CheckRecord
from router.agent.leader.leading import Lead
from router.agent.metrics import Metrics
from router.agent.settings import AgentSettings
from router.agent.users.nowhere import Nowhere
from router.agent.users.seats import Seat, Seats
from router.agent.users.world import World
from router.controlplane import installing
from router.controlplane.plane import ControlPlane
from router.errors import ApiError
from router.host import Host
from router.host.local import LocalHost
from router.kube.client import Api, Json, connect
from router.kube.election import Election
from router.kube.events import Recorder
from router.placement import signing
from router.preflight import Line, Mark
from router.reconcile import outcomes, resting
from router.reconcile.model import Terms
from router.startup.policyfiles import read_directory
from router.startup.settings import Address
from tests.agent.agents import AgentSite, cleaned, until
from tests.local.conftest import queue as queue  # noqa: PLC0414 - a fixture
from tests.local.queue import EmbeddedQueue
from tests.reconcile.given import pod

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
        return Seat(name, root, host, BatchCommands(host, sites.system_of(ours), commands, name, 60, metrics))

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
def site(plane: ControlPlane, queue: EmbeddedQueue, tmp_path: Path) -> Iterator[AgentSite]:
    name = f"leading{next(_NUMBERS)}"
    seeing = replace(queue, environment={"BATCHGATE_LOCAL_FAULTS": "ignore"})
    made = AgentSite(name, tmp_path / "site", seeing, connect(str(plane.kubeconfig())), installing.agent(plane))
    with cleaned(made):
        yield made


@pytest.fixture
def term(site: AgentSite) -> Iterator[Term]:
    with leading(site, world_of(site)) as found:
        yield found


@contextmanager
def leading(site: AgentSite, world: World) -> Iterator[Term]:
    """A term that has begun."""
    lead = Lead(world)
    with ExitStack() as ended:
        world.election.start()
        ended.callback(world.election.release)
        world.recorder.start()
        ended.callback(world.recorder.stop, 2)
        lead.stand_by()
        ended.callback(lead._kubelet.stop)  # else served to the end of the process
        assert world.election.wait(60)
        lead.start()
        ended.callback(lead.stop, 10)
        yield Term(site, world, lead)


def test_a_term(term: Term) -> None:
    """Nodes first; planning once the Pods and the jobs are known; everything alive; and the end of it all."""
    lead = term.lead
    assert lead.ready != ""

    term.await_ready()

    assert lead.problem == ""
    assert term.site.nodes() == ["workq"]
    assert lead.figures.jobs() == {}
    assert 0 <= lead.figures.ages()["pods"] < 100
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


class Blind(Api):
    """The API as for an agent without the right to list Pods."""

    def __init__(self, api: Api) -> None:
        self.__dict__.update(vars(api))

    def pages(
        self, path: str, left: Callable[[int | None], None] = lambda _: None, /, *, limit: int = 500, **query: object
    ) -> Iterator[tuple[list[Json], str]]:
        if path == "/api/v1/pods":
            raise ApiError(403, "Forbidden", "pods is forbidden", f"GET {path}")
        return super().pages(path, left, limit=limit, **query)


def test_an_agent_that_cannot_see_its_pods_has_no_ready_node(site: AgentSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nobody but its log says why new Jobs stay where they are."""
    monkeypatch.setattr("router.agent.leader.leading._BLIND_SECONDS", 0.5)
    world = world_of(site)
    with leading(site, replace(world, api=Blind(world.api))) as term:
        until(term.turn, lambda _: site.condition("Ready") == "False")

        (node,) = site.api.get("/api/v1/nodes", labelSelector=f"{names.KEY_SITE}={site.name}")["items"]
        (ready,) = [one for one in node["status"]["conditions"] if one["type"] == "Ready"]
        words = "the agent cannot see its Pods: GET /api/v1/pods: pods is forbidden (403 Forbidden)"
        assert (ready["reason"], ready["message"]) == ("PodsNotSeen", words)


def test_an_agent_that_loses_sight_of_its_pods_tells_rules_that_its_queues_are_closed(
    term: Term, monkeypatch: pytest.MonkeyPatch
) -> None:
    term.await_ready()
    seen = until(term.lead._queues, lambda found: found != {})
    monkeypatch.setattr("router.agent.leader.leading._BLIND_SECONDS", -1.0)
    term.lead._pods.watch.problem = "pods is forbidden"

    blind = term.lead._queues()

    assert [[one.enabled for one in found.values()] for found in (seen, blind)] == [[True], [False]]


def test_a_site_whose_last_check_failed_is_refused_until_another_finds_it_mended(term: Term) -> None:
    """Its Nodes say so, and to rules its queues are down. A site that was never checked is not refused."""
    term.await_ready()
    until(lambda: term.site.condition(names.CONDITION_SITE_REFUSED), lambda status: status == "False")
    full = Line("work-directory", "ada", Mark.MUST, "the disk is full", "room", "make room")
    record = CheckRecord(term.world.api, term.world.settings.namespace, term.site.name)

    record.keep([full], ["ada"], "2026-03-01T12:00:00Z", whole=True)

    until(lambda: term.site.condition(names.CONDITION_SITE_REFUSED), lambda status: status == "True")
    assert [state.enabled for state in term.lead._queues().values()] == [False]
    rank = Line("launcher/open-mpi", "ada", Mark.MUST, "exit code 1", "2 ranks", "mend it")
    record.keep([replace(full, mark=Mark.OK), rank], ["ada"], "2026-03-01T13:00:00Z", whole=True)
    until(lambda: term.site.condition(names.CONDITION_MPI_REFUSED), lambda status: status == "True")
    until(lambda: term.site.condition(names.CONDITION_SITE_REFUSED), lambda status: status == "False")
    assert [(state.enabled, state.waited) for state in term.lead._queues().values()] == [(True, 0)]
    assert term.lead.problem == ""
    place = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps/{names.CHECKS_CONFIG_MAP}"
    term.site.api.patch(place, {"data": {f"{term.site.name}.json": None}})


def test_a_thread_that_has_ended_is_a_reason_to_start_anew(term: Term) -> None:
    term.await_ready()
    assert term.lead.problem == ""

    term.lead._pods.watch.stop()

    until(lambda: term.lead.problem, lambda problem: problem == "ended: watch")


def test_the_end_needs_no_thread(term: Term, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the machine's limit of threads, too, the next leader takes over at once."""
    term.await_ready()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    term.lead.stop(10)

    # The threads have been told to end; none is waited for, and a busy machine may take a moment for each.
    until(lambda: term.lead.problem, lambda problem: problem.startswith("ended: watch, daemonsets, nodes, queue state"))


def submit_without_a_pod(term: Term) -> str:
    """A batch job of this cluster, which runs; its id."""
    directory = f"{term.site.root}/work/pods/job-uid/0/{'0' * 8}-1111-2222-3333-444444444444"
    Path(directory).mkdir(parents=True)
    name = f"train.{term.world.cluster}.{directory.rpartition('/')[2]}"
    job_id = term.site.queue.submit("sleep 600\n", "-N", name, "-v", f"BATCHGATE_DIR={directory}")
    term.site.queue.reached(job_id, "R")
    return job_id


def test_a_job_without_a_pod_is_cancelled_in_the_end(term: Term) -> None:
    """What an earlier leader has submitted for a Pod that is gone."""
    job_id = submit_without_a_pod(term)

    term.await_ready()

    until(lambda: (term.turn(), term.site.queue.job(job_id)["job_state"])[1], lambda state: state == "F")
    assert "batchgate_agent_orphans_reaped_total 1.0" in term.world.metrics.text().decode()


class Opened(LocalHost):
    """This machine, as if a connection to it had to be opened."""

    def __init__(self, root: PurePath | str) -> None:
        super().__init__(root)
        self.open = False

    def names(self, path: PurePath | str) -> list[str]:
        self.open = True
        return super().names(path)

    def rest(self, seconds: float) -> None:
        self.open = self.open and seconds > 0


class Hanging(LocalHost):
    """This machine, with a clock that does not answer before it is let go: so long nobody is left at rest here."""

    def __init__(self, root: PurePath | str) -> None:
        super().__init__(root)
        self.go = threading.Event()

    def clock(self) -> float:
        self.go.wait()
        return super().clock()


OTHER = "~other"


@contextmanager
def two_users(site: AgentSite, host: Host) -> Iterator[Term]:
    """A term with this very user, whose files are there, and with one who is never left at rest."""
    me, world = getpass.getuser(), world_of(site)
    hanging = Hanging(site.root / "other")
    own = replace(world.seats.of(me), host=host)
    other = replace(own, user=OTHER, root=str(site.root / "other"), host=hanging)
    seats = Seats([me, OTHER], make={me: own, OTHER: other}.__getitem__, refusal=lambda user: "")
    try:
        with leading(site, replace(world, seats=seats)) as term:
            yield term
    finally:
        hanging.go.set()


def threads_of(user: str) -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == f"attending {user}"]


def test_a_user_without_jobs_is_left_at_rest_and_visited(site: AgentSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that an earlier leader has left, of which no Pod tells, is found when the user is visited."""
    monkeypatch.setattr(cleaning, "SECONDS", 0.5)
    me, host = getpass.getuser(), Opened(site.root / "work")
    with two_users(site, host) as term:
        term.await_ready()

        until(lambda: (term.turn(), host.open, threads_of(me)), lambda seen: seen == ("", False, []))

        assert threads_of(OTHER) == [f"attending {OTHER}"]
        assert term.lead.problem == ""
        assert set(term.lead._queues()) == {"workq"}
        job_id = submit_without_a_pod(term)
        monkeypatch.setattr(resting, "ROUND_SECONDS", 0.0)
        until(lambda: (term.turn(), site.queue.job(job_id)["job_state"])[1], lambda state: state == "F")
        assert host.open
        monkeypatch.setattr(resting, "ROUND_SECONDS", 3600.0)
        until(lambda: (term.turn(), term.lead.records.all()), lambda seen: seen == ("", []))


def test_a_user_at_rest_is_attended_to_again_when_a_pod_comes(site: AgentSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can be told of a Pod that nobody has signed, but whose records it is among is attended to until it is gone."""
    monkeypatch.setattr(cleaning, "SECONDS", 0.5)
    me, host = getpass.getuser(), Opened(site.root / "work")
    with two_users(site, host) as term:
        term.await_ready()
        until(lambda: (term.turn(), host.open, threads_of(me)), lambda seen: seen == ("", False, []))
        records = term.lead._of(me).records

        record = records.add(outcomes.first(pod(name="new", uid="new")))
        term.lead._wake("new")

        until(lambda: (host.open, threads_of(me)), lambda seen: seen == (True, [f"attending {me}"]))
        assert (term.turn(), term.lead.problem) == ("", "")
        for _ in range(3):
            term.turn()
        assert threads_of(me), "it is not left at rest while the Pod is not over"
        records.drop(record)
