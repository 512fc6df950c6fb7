"""An agent with an account of its site's own, as `site add` makes it: it leads, and its credential renews itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from router import names
from router.cli import commands
from router.controlplane.plane import ControlPlane
from router.joining import joinfile
from router.kube import renewal, tokens
from router.kube.client import connect
from tests.agent.agents import AgentSite, Process, cleaned, until
from tests.local.conftest import queue as queue  # noqa: PLC0414 - a fixture
from tests.local.queue import EmbeddedQueue
from tests.policymap import policy_map
from tests.publickeys import public_keys

pytestmark = pytest.mark.timeout(900)
SITE = "renewing"
SYSTEM = names.SYSTEM_NAMESPACE
HASTY = "from router.kube import tokens; tokens.RENEWED_AT = 0.0; tokens.PAUSE_SECONDS = 1.0; from router.cli import main; main()"
"""The agent, for which each token is past its time, so that it asks for another one each second."""


def _add(plane: ControlPlane, directory: Path) -> joinfile.Join:
    file = directory / "join"
    words = ["site", "add", SITE, "--kubeconfig", str(plane.kubeconfig()), "-o", str(file), "--force"]
    done = CliRunner().invoke(commands, words)
    assert done.exit_code == 0, done.output
    return joinfile.parse(file.read_text(), str(file))


@pytest.fixture
def site(plane: ControlPlane, queue: EmbeddedQueue, tmp_path: Path) -> Iterator[AgentSite]:
    """A site whose agent has a kubeconfig with a token file."""
    kubeconfig = tmp_path / "kubeconfig"
    with (
        policy_map(plane) as config_map,
        cleaned(AgentSite(SITE, tmp_path / "site", queue, connect(str(plane.kubeconfig())), kubeconfig)) as made,
        public_keys(plane, made.public_key.read_text()),
    ):
        config_map.put({file.name: file.read_text() for file in made.policy.iterdir()})
        renewal.write(tmp_path / "token", _add(plane, tmp_path).token)
        document = yaml.safe_load(plane.kubeconfig().read_text())
        document["users"][0]["user"] = {"tokenFile": "token"}
        kubeconfig.write_text(yaml.safe_dump(document))
        yield made
    CliRunner().invoke(commands, ["site", "remove", SITE, "--kubeconfig", str(plane.kubeconfig())])


def _start(site: AgentSite) -> Process:
    argv = site.argv(policy=None, policy_configmap=names.POLICIES_CONFIG_MAP, renew_token="1h")
    argv = [sys.executable, "-c", HASTY, *argv[argv.index("agent") :]]
    log = site.root / "agent.log"
    with log.open("wb") as file:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=site.root)
    site.running.append(Process(process, log))
    return site.running[-1]


def test_the_credential_is_renewed_and_a_refusal_is_told_everywhere(
    plane: ControlPlane, site: AgentSite, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    first = token.read_text()
    agent = _start(site)
    agent.await_ready(leading=True)
    until(lambda: token.read_text() != first)
    until(lambda: site.condition(names.CONDITION_CREDENTIAL_ENDING), lambda status: status == "False")
    assert site.condition("Ready") == "True"
    assert 'batchgate_source_broken{source="credential"} 0.0' in agent.get("/metrics")[1]

    plane.kubectl("delete", "rolebinding", "-n", SYSTEM, f"{names.agent_account(SITE)}-token")

    until(lambda: site.condition(names.CONDITION_CREDENTIAL_ENDING), lambda status: status == "True")
    ends = tokens.claims(token.read_text()).expires
    told = f"the agent's credential ends {tokens.shown(ends)} and is not renewed: POST /api/v1/namespaces/{SYSTEM}/"
    said = agent.ready()
    assert (said["code"], str(said["credential"]).startswith(told)) == (200, True)
    metrics = agent.get("/metrics")[1]
    assert 'batchgate_source_broken{source="credential"} 1.0' in metrics
    assert float(metrics.partition("\nbatchgate_credential_expiry_timestamp_seconds ")[2].split()[0]) == ends
    assert len(agent.lines("the credential is not renewed")) == 1
    words = ["status", SITE, "--kubeconfig", str(plane.kubeconfig())]
    assert "CredentialEnding" in CliRunner().invoke(commands, words).stdout

    _add(plane, tmp_path)

    until(lambda: site.condition(names.CONDITION_CREDENTIAL_ENDING), lambda status: status == "False")
    assert "credential" not in agent.ready()


def test_a_kubeconfig_without_a_token_file(site: AgentSite, plane: ControlPlane) -> None:
    agent = site.start(kubeconfig=plane.kubeconfig(), renew_token="1h")

    assert agent.ended() == 2
    words = f"--renew-token: the user of kubeconfig {plane.kubeconfig()} has no tokenFile to renew"
    assert words in agent.log.read_text()
