"""``batchgate agent`` as whole processes over a real API server and a real embedded queue: from start to end."""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from router import names
from router.cli import commands
from router.controlplane import installing
from router.controlplane.plane import ControlPlane
from router.kube.client import connect
from router.kubelet import csr
from tests.agent.agents import AgentSite, Process, cleaned, until
from tests.local.conftest import queue as queue  # noqa: PLC0414 - a fixture
from tests.local.queue import EmbeddedQueue

pytestmark = pytest.mark.timeout(600)
_NUMBERS = itertools.count(1)


@pytest.fixture
def site(plane: ControlPlane, queue: EmbeddedQueue, tmp_path: Path) -> Iterator[AgentSite]:
    name = f"program{next(_NUMBERS)}"
    api = connect(str(plane.kubeconfig()))
    with cleaned(AgentSite(name, tmp_path / "site", queue, api, installing.agent(plane))) as made:
        yield made


def test_from_its_start_to_its_handing_over(site: AgentSite) -> None:
    first = site.start("first")
    first.await_ready(leading=True)
    second = site.start("second")
    second.await_ready(leading=False)

    assert site.nodes() == ["workq"]
    assert site.holder().startswith("first_")
    assert (first.get("/livez")[0], second.get("/livez")[0]) == (200, 200)
    assert "batchgate_agent_leading 1.0" in first.get("/metrics")[1]
    assert "batchgate_agent_leading 0.0" in second.get("/metrics")[1]

    assert first.terminate() == 0
    second.await_ready(leading=True)
    assert site.holder().startswith("second_")
    assert second.terminate() == 0
    assert site.holder() == ""


def test_a_policy_that_changes_for_its_site_starts_the_program_anew(site: AgentSite) -> None:
    """In the same process, as whoever watches over it must not take it for dead; with the new queues."""
    agent = site.start()
    agent.await_ready(leading=True)
    before = Path(f"/proc/{agent.process.pid}/cmdline").read_bytes()

    site.write("more")

    until(site.nodes, lambda queues: queues == ["more", "workq"])
    agent.await_ready(leading=True)
    assert len(agent.lines("starting anew, as the policy has changed for this site")) == 1
    assert len(agent.lines("leading")) == 2
    assert Path(f"/proc/{agent.process.pid}/cmdline").read_bytes() == before
    assert agent.terminate() == 0


def test_a_standby_starts_anew_too(site: AgentSite) -> None:
    """Else it would lead with the policy of its start."""
    leader, standby = site.start("leader"), site.start("standby")
    until(lambda: [one.ready().get("leading") for one in (leader, standby)], lambda said: set(said) == {True, False})

    site.write("more")

    for one in (leader, standby):
        until(lambda: one.lines("starting anew, as the policy has changed for this site"))  # noqa: B023 - used at once
        until(one.ready, lambda said: said["code"] == 200)


def test_a_certificate_that_waits_is_shown_by_leader_and_standby(site: AgentSite) -> None:
    """Logs cannot be read until an admin approves; a standby asks at once, so that it need not wait when it leads."""
    agents = [site.start(name, self_signed=False, lease_seconds=60) for name in ("first", "second")]
    asked = [until(partial(asked_by, one)) for one in agents]
    try:
        assert len(set(asked)) == 2
        until(lambda: ready(agents), lambda said: said == {(200, True), (200, False)})

        for request in asked:
            approve(site, request)
        until(lambda: [one.ready() for one in agents], lambda said: all(serves(one) for one in said))
    finally:
        for one in agents:
            one.kill()
        for request in asked:  # the cluster is shared
            site.api.delete(f"{csr.PATH}/{request}")


def ready(agents: Sequence[Process]) -> set[tuple[int, bool]]:
    """Code of each one's ``/readyz``, and whether it leads."""
    return {(said["code"], bool(said.get("leading"))) for said in (one.ready() for one in agents)}


def serves(said: Mapping[str, object]) -> bool:
    return said["code"] == 200 and "certificate" not in said


def asked_by(agent: Process) -> str:
    """The request that this agent says to wait for."""
    return str(agent.ready().get("certificate", "")).removeprefix("waits for: kubectl certificate approve ")


def approve(site: AgentSite, name: str) -> None:
    request = site.api.get(f"{csr.PATH}/{name}")
    request["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Tests"}]}
    site.api.replace(f"{csr.PATH}/{name}/approval", request)


def test_a_policy_that_changes_for_others_is_read_and_no_more(site: AgentSite) -> None:
    agent = site.start()
    agent.await_ready(leading=True)

    site.write(rule="new")
    until(lambda: agent.lines("reloaded"))
    (site.policy / "broken.yaml").write_text("rules: 7\n")
    until(lambda: agent.lines("reload failed; the last good one stays in force"))
    (site.policy / "broken.yaml").unlink()
    site.write(name="elsewhere")
    until(lambda: len(agent.lines("reloaded")), lambda count: count >= 2)

    # Each line of the log is of a look at the policy that is over; the next one would start it anew.
    turns = agent.get("/metrics")
    until(lambda: agent.get("/metrics"), lambda later: later != turns)
    agent.await_ready(leading=True)
    assert agent.lines("starting anew, as the policy has changed for this site") == []
    assert len(agent.lines("leading")) == 1


def test_whoever_loses_the_lead_ends_and_asks_to_be_started_anew(site: AgentSite) -> None:
    agent = site.start()
    agent.await_ready(leading=True)
    lease = site.api.get(site.lease)
    stolen = {**lease["spec"], "holderIdentity": "somebody-else"}

    site.api.patch(site.lease, {"spec": stolen})

    assert agent.ended() == 1
    assert len(agent.lines("the lead is lost")) == 1
    assert site.holder() == "somebody-else"


def test_an_end_comes_through_while_the_api_server_is_away(site: AgentSite) -> None:
    kubeconfig = site.root / "kubeconfig"
    text = site.kubeconfig.read_text()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    kubeconfig.write_text("\n".join(_elsewhere(line, port) for line in text.splitlines()))
    agent = site.start(kubeconfig=kubeconfig)
    until(lambda: agent.lines("waiting for the API server"))

    assert agent.ready()["code"] == 200
    assert agent.terminate() == 0


def _elsewhere(line: str, port: int) -> str:
    head, found, _ = line.partition("server: ")
    return f"{head}{found}https://127.0.0.1:{port}" if found else line


def _refused(argv: list[str]) -> str:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done
    return done.stderr


def test_what_cannot_work_ends_at_once(site: AgentSite, tmp_path: Path) -> None:
    no_key = tmp_path / "no.pub"
    no_key.write_text("no key\n")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "a.yaml").write_text("sites: 7\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        told: dict[str, dict[str, Any]] = {
            "the policy has no site 'other'; its sites are: ": {"site": "other"},
            "no.pub": {"public_key": no_key},
            "a.yaml:1": {"policy": broken},
            f"cannot listen on {address}": {"metrics": address},
            "no-kubeconfig": {"kubeconfig": tmp_path / "no-kubeconfig"},
        }
        for words, changes in told.items():
            assert words in _refused(site.argv(**changes))


def test_a_line_of_its_log_is_json_with_the_time(site: AgentSite) -> None:
    agent = site.start()
    (adopted,) = until(lambda: agent.lines("adopted"))

    lines = [json.loads(line) for line in agent.log.read_text().rpartition("\n")[0].splitlines()]

    assert all({"time", "level", "message"} <= set(line) for line in lines)
    assert adopted["pods"] == 0


def test_a_broken_public_key_is_told_while_the_last_one_stays_in_force(site: AgentSite) -> None:
    agent = site.start()
    agent.await_ready(leading=True)

    site.public_key.write_text("garbage\n")

    said = until(agent.ready, lambda found: "public-key" in found)
    words = f"public key {site.public_key}: holds no public key in PEM; make a pair with: batchgate certs create"
    assert (said["code"], str(said["public-key"]).startswith(words)) == (200, True)
    until(lambda: site.condition(names.CONDITION_SOURCE_BROKEN), lambda status: status == "True")
    status = ["status", site.name, "--kubeconfig", str(site.kubeconfig)]
    assert "SourceBroken since" in CliRunner().invoke(commands, status).stdout
