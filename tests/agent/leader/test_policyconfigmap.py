"""An agent with no policy files: the program, the ConfigMap on a real API server, the agent's own rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from router import names, policy
from router.cli import commands
from router.controlplane import installing
from router.controlplane.plane import ControlPlane
from router.kube.client import connect
from tests.agent.agents import NODES, AgentSite, Process, cleaned, until
from tests.local.conftest import queue as queue  # noqa: PLC0414 - a fixture
from tests.local.queue import EmbeddedQueue
from tests.policymap import PLACE, PolicyMap, policy_map

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def site(plane: ControlPlane, queue: EmbeddedQueue, tmp_path: Path) -> Iterator[AgentSite]:
    api = connect(str(plane.kubeconfig()))
    with cleaned(AgentSite("watching", tmp_path / "site", queue, api, installing.agent(plane))) as made:
        yield made


@pytest.fixture
def config_map(plane: ControlPlane) -> Iterator[PolicyMap]:
    with policy_map(plane) as found:
        yield found


def _texts(site: AgentSite) -> dict[str, str]:
    return {file.name: file.read_text() for file in site.policy.iterdir()}


def _published(site: AgentSite) -> str:
    """The policy of the agent, as its Node shows it."""
    node = site.api.get(f"{NODES}/{names.node_name(site.name, 'workq')}")
    return str((node["metadata"].get("annotations") or {}).get(names.NODE_POLICY, ""))


def _started(site: AgentSite) -> Process:
    return site.start(policy=None, policy_configmap=names.POLICIES_CONFIG_MAP)


def _errors(agent: Process, message: str) -> list[str]:
    return [str(line["error"]) for line in agent.lines(message)]


def test_it_waits_for_the_config_map_follows_it_and_keeps_the_last_good_policy(
    site: AgentSite, config_map: PolicyMap
) -> None:
    agent = _started(site)
    missing = f"there is no {PLACE}; kubectl create configmap, or batchgate policy apply, makes it"
    waits = {"code": 503, "ok": False, "problem": f"waits for the policy: {missing}"}
    until(agent.ready, lambda said: said == waits)
    assert agent.get("/livez")[0] == 200
    assert site.nodes() == []

    config_map.put(_texts(site))
    agent.await_ready(leading=True)
    assert _errors(agent, "waiting for the policy") == [missing]
    assert site.nodes() == ["workq"]
    until(lambda: _published(site), lambda digest: digest == policy.load(_texts(site)).digest)
    until(lambda: site.condition(names.CONDITION_POLICY_DIFFERS))

    config_map.change({"rules.yaml": "rules: 7\n"})
    until(lambda: "policy" in agent.ready())
    said = agent.ready()
    assert (said["code"], said["leading"]) == (200, True)
    assert said["policy"].startswith("rules.yaml:1:8: ")
    assert _errors(agent, "reload failed; the last good one stays in force") == [said["policy"]]
    metrics = agent.get("/metrics")[1]
    assert 'batchgate_source_broken{source="policy"} 1.0' in metrics
    assert 'batchgate_reload_failures_total{source="policy"} 2.0' in metrics

    config_map.delete()
    until(agent.ready, lambda said: said.get("policy") == missing)
    assert site.nodes() == ["workq"]

    site.write("more")
    config_map.put(_texts(site))  # it is repaired, and has changed for the site
    until(site.nodes, lambda queues: queues == ["more", "workq"])
    agent.await_ready(leading=True)
    assert agent.terminate() == 0


def test_an_applied_policy_is_waited_for(plane: ControlPlane, site: AgentSite, config_map: PolicyMap) -> None:
    config_map.put(_texts(site))
    agent = _started(site)
    agent.await_ready(leading=True)

    site.write(rule="other")
    words = ["policy", "apply", str(site.policy), "--yes", "--kubeconfig", str(plane.kubeconfig())]
    done = CliRunner().invoke(commands, words)

    assert done.exit_code == 0, done.output
    assert "agent watching has it in force" in done.stdout.splitlines()
    assert _published(site) == policy.load(_texts(site)).digest
    assert agent.lines("starting anew, as the policy has changed for this site") == []
    assert agent.terminate() == 0


def test_one_that_waits_ends_when_it_is_told_to(site: AgentSite, config_map: PolicyMap) -> None:
    config_map.put({"rules.yaml": "rules: 7\n"})
    agent = _started(site)
    until(lambda: _errors(agent, "waiting for the policy"))

    assert agent.terminate() == 0
