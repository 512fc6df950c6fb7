"""The state of queues, from a real embedded queue to a real ConfigMap, and from there into the webhook's rules."""

from __future__ import annotations

import getpass
import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from router import names, policy
from router.agent.batch.commands import BatchCommands
from router.agent.metrics import Metrics
from router.agent.nodes.queuestate import Board, QueueStatePublisher, document, entries
from router.cli import commands
from router.controlplane import installing
from router.controlplane.plane import ControlPlane
from router.errors import NotFound, Unavailable
from router.host.local import LocalHost
from router.hpc import BatchSystem, QueueReport, local
from router.kube.client import Api, connect
from router.policy.schema import Account
from router.site import schema
from router.webhook.watched import WatchedQueues
from tests.kube.wire import await_true
from tests.local.conftest import queue as queue  # noqa: PLC0414 - a fixture
from tests.local.queue import EmbeddedQueue, until

SITE = "queue-state-site"
KEY = f"{SITE}.json"
LOG = logging.getLogger("batchgate.test")
IDLE = {"site": SITE, "queue": "workq", "up": True, "freeNodes": 2, "queuedJobs": 0, "runningJobs": 0}


# --- pure --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (QueueReport("q", enabled=True, started=True), {"up": True}),
        (QueueReport("q", enabled=True, started=False), {"up": False}),
        (QueueReport("q", enabled=False, started=True), {"up": False}),
        (
            QueueReport("q", enabled=True, started=True, free_nodes=0, queued=3, running=4),
            {"up": True, "freeNodes": 0, "queuedJobs": 3, "runningJobs": 4},
        ),
        (QueueReport("q", enabled=True, started=True, waited=0), {"up": True, "waitSeconds": 0}),
        (QueueReport("q", enabled=True, started=True, waited=179), {"up": True, "waitSeconds": 120}),
    ],
)
def test_what_is_not_known_is_left_out(state: QueueReport, expected: dict[str, Any]) -> None:
    assert entries("s", ["q"], {"q": state, "other": state}) == [{"site": "s", "queue": "q", **expected}]


def test_a_declared_queue_that_the_batch_system_does_not_name_takes_no_job() -> None:
    found = {"q": QueueReport("q", enabled=True, started=True)}

    assert entries("s", ["gone", "q"], found)[0] == {"site": "s", "queue": "gone", "up": False}
    assert entries("s", ["gone", "q"], {}) == []  # it says nothing of any queue


figures = st.none() | st.integers(0, 10**9)
states = st.builds(
    QueueReport,
    name=st.just("q"),
    enabled=st.booleans(),
    started=st.booleans(),
    free_nodes=figures,
    queued=figures,
    running=figures,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), states, min_size=1), st.integers(0, 4 * 10**9))
def test_the_webhook_reads_what_the_agent_writes(found: dict[str, QueueReport], asked: int) -> None:
    read = policy.queue_states(document(entries("s", sorted(found), found), asked), "the document")

    assert read.time == asked
    assert {
        queue: (one.up, one.free_nodes, one.queued_jobs, one.running_jobs) for (_, queue), one in read.states.items()
    } == {name: (one.enabled and one.started, one.free_nodes, one.queued, one.running) for name, one in found.items()}


# --- the real parts ----------------------------------------------------------------------------------------------


def declared(*public: str) -> schema.Site:
    """The site in the policy."""
    images = [{"match": "lab/*", "path": "/images/lab.sif"}]
    queues = [{"name": "workq", "nodes": 2, "cpusPerNode": 4, "walltimeMax": 3600}]
    site = {"name": SITE, "system": "local", "workDir": "/work", "public": public, "images": images, "queues": queues}
    return schema.Site.model_validate(site)


@dataclass
class Site:
    """An embedded queue, and whether the agent may ask it now."""

    queue: EmbeddedQueue
    api: Api
    batch: BatchCommands
    board: Board
    ready: bool = True

    def publisher(self, **changes: Any) -> QueueStatePublisher:
        return QueueStatePublisher(
            self.api, self.batch.queues, replace(self.board, **changes), ready=lambda: self.ready
        )

    def published(self) -> dict[str, Any]:
        """The document in the cluster; empty where there is none."""
        path = f"/api/v1/namespaces/{self.board.namespace}/configmaps/{names.QUEUES_CONFIG_MAP}"
        found: dict[str, Any] = json.loads((self.api.get(path).get("data") or {}).get(KEY, "{}"))
        return found

    @property
    def asked(self) -> float:
        """How many commands were run."""
        return sum(
            float(self.batch.metrics.commands.labels("queues", outcome)._value.get())
            for outcome in ("ok", "unavailable", "failed", "not understood")
        )


def batch_of(queue: EmbeddedQueue, tmp_path: Path, system: BatchSystem = local) -> BatchCommands:
    commands = local.commands_of(str(queue.directory), prefix=(sys.executable, "-m", "router.local"))
    return BatchCommands(LocalHost(str(tmp_path / "site")), system, commands, getpass.getuser(), 60, Metrics())


@pytest.fixture
def site(plane: ControlPlane, queue: EmbeddedQueue, tmp_path: Path) -> Iterator[Site]:
    """As the agent's own account, with no more rights than it has, where the manifests have the ConfigMap."""
    agent = connect(str(installing.agent(plane)))
    yield Site(queue, agent, batch_of(queue, tmp_path), Board(names.SYSTEM_NAMESPACE, declared()))
    patch = json.dumps({"data": {KEY: None}})
    plane.kubectl(
        "patch", "configmap", names.QUEUES_CONFIG_MAP, "-n", names.SYSTEM_NAMESPACE, "--type=merge", "-p", patch
    )


def test_figures_are_written_when_they_change_or_grow_old(site: Site) -> None:
    published = site.publisher()
    assert published.look()
    first = site.published()
    assert first["queues"] == [IDLE]

    assert not published.look()  # nothing changed
    assert site.published() == first

    job = site.queue.run("qsub", "-l", "select=1:ncpus=1", "--", "/bin/sleep", "600")
    assert job.rc == 0, job
    until(lambda: site.batch.queues()["workq"].running, lambda running: running == 1)
    assert published.look()
    assert site.published()["queues"] == [{**IDLE, "freeNodes": 1, "runningJobs": 1}]

    old = site.publisher(renewed=0)
    assert (old.look(), old.look()) == (True, True)  # what holds is written again before it counts as unknown


def test_nothing_is_asked_while_the_agent_does_not_lead_or_gets_no_answer(site: Site) -> None:
    site.ready = False

    assert not site.publisher().look()
    assert (site.asked, site.published()) == (0, {})


def test_a_queue_that_is_switched_off_is_down(site: Site) -> None:
    state = {"name": "workq", "nodes": 2, "cpusPerNode": 4, "started": False}
    assert site.queue.run("queues", "--define", "-", stdin=json.dumps({"queues": [state]})).rc == 0

    assert site.publisher().look()

    assert site.published()["queues"] == [{**IDLE, "up": False}]


def test_an_answer_that_does_not_come_leaves_what_is_published(site: Site, tmp_path: Path) -> None:
    assert site.publisher().look()
    before = site.published()
    commands = local.commands_of(str(site.queue.directory), prefix=("/bin/sh", "-c", "exit 255", "--"))
    mute = BatchCommands(LocalHost(str(tmp_path / "other")), local, commands, getpass.getuser(), 60, Metrics())

    with pytest.raises(Unavailable):
        QueueStatePublisher(site.api, mute.queues, site.board, ready=lambda: True).look()

    assert site.published() == before


def test_a_batch_system_that_tells_nothing_of_queues_has_nothing_published(site: Site) -> None:
    assert not QueueStatePublisher(site.api, dict, site.board, ready=lambda: True).look()
    assert site.published() == {}


def test_a_config_map_that_is_missing_is_told_and_looked_for_again(
    plane: ControlPlane, site: Site, namespace: str
) -> None:
    admin = connect(str(plane.kubeconfig()))
    board = replace(site.board, namespace=namespace, every=0.1)
    publisher = QueueStatePublisher(admin, site.batch.queues, board, ready=lambda: True)
    with pytest.raises(NotFound):
        publisher.look()

    publisher.start()
    try:
        await_true(lambda: publisher.problem, "a problem")
        words = f"there is no ConfigMap {namespace}/batchgate-queues; manifests/base has it"
        assert publisher.problem.startswith(words)

        plane.kubectl("create", "configmap", names.QUEUES_CONFIG_MAP, "-n", namespace)
        await_true(lambda: publisher.problem == "", "the end of it")
        await_true(lambda: admin_document(admin, namespace) == [IDLE], "the document")
    finally:
        publisher.stop()
    await_true(lambda: not publisher.alive, "the thread's end")


def admin_document(admin: Api, namespace: str) -> list[dict[str, Any]]:
    found = admin.get(f"/api/v1/namespaces/{namespace}/configmaps/{names.QUEUES_CONFIG_MAP}")
    read: list[dict[str, Any]] = json.loads((found.get("data") or {}).get(KEY, '{"queues": []}'))["queues"]
    return read


MANIFESTS = Path(__file__).parents[3] / "manifests"
QUEUE_HEAD = "SITE QUEUE STATE FREE QUEUED RUNNING WAITS NODES CORES MEMORY GPUS WALLTIME RUNS AS"
ACCOUNTS = (Account.model_validate({"users": ["ada"], "as": "ada1", "account": "physics"}),)


@pytest.fixture
def place(plane: ControlPlane) -> Iterator[None]:
    """The ConfigMap that everybody may read, as an admin makes it."""
    plane.kubectl("apply", "-k", str(MANIFESTS / "public"))
    yield
    plane.kubectl("delete", "-k", str(MANIFESTS / "public"))


def asked_by(plane: ControlPlane, user: str, *words: str) -> Result:
    return CliRunner().invoke(commands, [*words, "--kubeconfig", str(plane.kubeconfig(user)), "-n", "default"])


def lines(result: Result) -> list[str]:
    """What was printed, with single spaces."""
    assert result.exit_code == 0, result.output
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_everybody_reads_what_the_policy_tells_of_the_site(plane: ControlPlane, site: Site, place: None) -> None:
    """Written with the agent's rights, read with those of users who may see no Node."""
    board = replace(site.board, site=declared("queues", "images", "accounts"), accounts=lambda: ACCOUNTS)
    publisher = QueueStatePublisher(site.api, site.batch.queues, board, ready=lambda: True)
    assert publisher.look()

    row = f"{SITE} workq open 2 0 0 - 2 4 - - 1h"
    assert lines(asked_by(plane, "ada", "queues")) == [QUEUE_HEAD, f"{row} ada1 (account physics)"]
    assert lines(asked_by(plane, "ben", "queues", SITE)) == [QUEUE_HEAD, f"{row} -"]
    assert lines(asked_by(plane, "ben", "images")) == [
        "SITE IMAGE COMES FROM",
        f"{SITE} lab/* a file of the site",
        f"{SITE} any other a registry; pulled on the site before the Job is submitted",
    ]
    (offer,) = json.loads(asked_by(plane, "ada", "queues", "-o", "json").stdout)["queues"]
    assert (offer["user"], offer["freeNodes"], offer["cpusPerNode"], offer["state"]) == ("ada1", 2, 4, "open")
    refused = asked_by(plane, "ada", "queues", "elsewhere")
    assert (refused.exit_code, f"known are: {SITE}" in refused.stderr) == (2, True)

    silent = replace(board, site=declared())
    assert QueueStatePublisher(site.api, site.batch.queues, silent, ready=lambda: True).look()
    assert "ConfigMap batchgate-system/batchgate-public is empty" in asked_by(plane, "ada", "queues").stderr


def test_without_the_admins_will_nothing_is_told(
    plane: ControlPlane, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    board = replace(site.board, site=declared("queues"))
    publisher = QueueStatePublisher(site.api, site.batch.queues, board, ready=lambda: True)

    with caplog.at_level(logging.WARNING, "batchgate.agent"):
        assert publisher.look()
        publisher.look()

    assert [record.getMessage() for record in caplog.records] == ["what the site tells everybody is not published"]
    refused = asked_by(plane, "ada", "queues")
    assert (refused.exit_code, "batchgate-public" in refused.stderr, "docs/queues.md" in refused.stderr) == (
        2,
        True,
        True,
    )


def test_the_webhook_knows_what_the_agent_has_published(plane: ControlPlane, site: Site) -> None:
    """With the rights that the manifests give to each of the two."""
    webhook = connect(str(installing.webhook(plane)))
    watched = WatchedQueues(webhook, names.SYSTEM_NAMESPACE, 600, LOG)
    watched.start()
    publisher = site.publisher(every=0.2)
    publisher.start()
    try:
        await_true(lambda: (SITE, "workq") in watched.value.states, "the state of the queue")
        assert watched.value.states[SITE, "workq"].free_nodes == 2
        site.queue.run("qsub", "-l", "select=2:ncpus=4", "--", "/bin/sleep", "600")
        await_true(lambda: watched.value.states[SITE, "workq"].free_nodes == 0, "what the job takes")
    finally:
        publisher.stop()
        await_true(lambda: not publisher.alive, "the thread's end")
        for watch in watched.watches:
            watch.stop()
