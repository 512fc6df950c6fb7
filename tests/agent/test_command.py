"""The command line: what cannot work is one line and exit code 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from router.agent.settings import AgentSettings
from router.cli import agent as command
from router.cli import commands

NEEDED = ("--site", "s", "--public-key", "signing.pub", "--address", "127.0.0.1")


def invoke(*words: str, **environment: str) -> Result:
    return CliRunner().invoke(commands, ["agent", *words], env=environment)


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> list[AgentSettings]:
    """What the program would be started with."""
    taken: list[AgentSettings] = []
    monkeypatch.setattr("router.agent.leader.program.run", taken.append)
    return taken


def test_defaults(settings: list[AgentSettings]) -> None:
    assert invoke(*NEEDED).exit_code == 0

    (found,) = settings
    assert (found.site, found.public_key, found.address) == ("s", Path("signing.pub"), "127.0.0.1")
    assert (found.lease_seconds, found.cycle_seconds, found.quick_seconds) == (15, 30, 5)
    assert (str(found.listen), str(found.metrics), found.cluster) == (":10250", ":8080", None)


def test_everything_can_come_from_the_environment(settings: list[AgentSettings]) -> None:
    environment: dict[str, Any] = {
        "BATCHGATE_SITE": "s",
        "BATCHGATE_AGENT_PUBLIC_KEY": "a.pub",
        "BATCHGATE_PUBLIC_KEY": "b.pub",
        "BATCHGATE_AGENT_LISTEN": "10.0.0.7:10250",
        "BATCHGATE_CYCLE_SECONDS": "1m",
        "BATCHGATE_LOCAL": "queue",
        "BATCHGATE_CLUSTER_ID": "0a1b2c3d",
    }

    assert invoke(**environment).exit_code == 0

    (found,) = settings
    assert (found.public_key, found.address, found.cycle_seconds) == (Path("a.pub"), "10.0.0.7", 60)
    assert (found.local_state, found.cluster) == (Path("queue").absolute(), "0a1b2c3d")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Missing option '--site'"),
        ((*NEEDED[:4],), "name the IP under which the API server reaches this machine: --address IP"),
        ((*NEEDED[:4], "--listen", "0.0.0.0:1"), "name the IP under which"),
        ((*NEEDED, "--address", "host.example.org"), "'host.example.org' is no IP address"),
        ((*NEEDED, "--address", "::"), "'::' is no IP address"),
        ((*NEEDED, "--listen", "nowhere"), "'nowhere' is no address to listen on"),
        ((*NEEDED, "--cluster-id", "XYZ"), "eight hex digits were expected"),
        ((*NEEDED, "--quick-seconds", "40"), "quick means more often"),
        ((*NEEDED, "--lease-seconds", "0"), "is zero"),
        ((*NEEDED, "--cycle-seconds", "soon"), "soon"),
        ((*NEEDED, "--policy", "/no/such/directory"), "there is no such policy directory"),
        ((*NEEDED, "--policy", "p", "--policy-configmap", "c"), "each say where the policy is; give one of them"),
    ],
)
def test_what_cannot_work_is_told(words: tuple[str, ...], said: str) -> None:
    done = invoke(*words)

    assert (done.exit_code, "Traceback" in done.output) == (2, False)
    assert said in done.output


def test_the_help_has_every_option_of_the_settings() -> None:
    done = invoke("--help")

    assert done.exit_code == 0
    for option in command.agent.params:
        assert option.opts[0] in done.output
