"""Which sites this agent can drive, and by which commands."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from router import policy
from router.agent.settings import AgentSettings
from router.agent.sites import commands_of, demand_account, demand_user, paced, site_of, system_of, terms_of, users_of
from router.errors import ConfigError, PolicyError
from router.host import sitehelper
from router.hpc import local, openpbs, torque
from router.policy.model import Policy
from router.policy.schema import Account, Retries
from router.reconcile.model import Terms
from router.startup.settings import Address


def loaded(retries: dict[str, Any] | None = None, **site: Any) -> Policy:
    """A policy of one site ``s``, with a rule ``big`` that sends Jobs there."""
    import yaml  # noqa: PLC0415

    fields = {"name": "s", "system": "local", "workDir": "/w", "runtime": "host", **site}
    fields["queues"] = [{"name": "q", "nodes": 1, "cpusPerNode": 1}]
    if fields["system"] != "local":
        fields["runtime"] = "apptainer"
    places = {"sites": [fields], "accounts": [{"users": ["ada"], "as": "ada"}]}
    big = {"name": "big", "when": "job.cpus == 1", "hpc": [{"queue": "q"}], **({"retries": retries} if retries else {})}
    rules = {"rules": [big, {"name": "rest", "cloud": True}]}
    return policy.load({"a.yaml": yaml.safe_dump(places), "b.yaml": yaml.safe_dump(rules)})


def test_a_site_that_can_be_driven() -> None:
    assert site_of(loaded(), "s").name == "s"
    assert system_of(site_of(loaded(), "s")) is local
    assert system_of(site_of(loaded(system="openpbs"), "s")) is openpbs


@pytest.mark.parametrize(
    ("site", "name", "words"),
    [
        ({}, "t", "the policy has no site 't'; its sites are: s"),
    ],
)
def test_a_site_that_cannot(site: dict[str, Any], name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        site_of(loaded(**site), name)


def test_users_are_those_whom_accounts_name_for_the_site() -> None:
    site = site_of(loaded(system="slurm", workDir="/w/{user}", access="sudo"), "s")
    accounts = [
        Account.model_validate({"users": ["*"], "as": user, "site": place})
        for user, place in (("ada", "*"), ("ben", "s"), ("eve", "t"))
    ]

    assert users_of(site, [*accounts, Account(users=("x",))], "agent") == {"ada", "ben"}
    assert users_of(site_of(loaded(), "s"), accounts, "agent") == {"agent"}, "an embedded queue has one user"


def test_nothing_real_is_run_as_root() -> None:
    demand_account(site_of(loaded(), "s"), "root")
    with pytest.raises(ConfigError, match="nothing is run as root"):
        demand_account(site_of(loaded(system="slurm"), "s"), "root")


def test_root_drives_the_embedded_queue_only() -> None:
    demand_user(site_of(loaded(), "s"), 0)
    demand_user(site_of(loaded(system="openpbs"), "s"), 1000)
    with pytest.raises(ConfigError, match="does not run as root"):
        demand_user(site_of(loaded(system="openpbs"), "s"), 0)


def test_the_commands_of_the_embedded_queue() -> None:
    site = site_of(loaded(), "s")

    plain = commands_of(site, Path("/q"), "").argv("qstat")
    assert plain[-5:] == ("BATCHGATE_LOCAL=/q", sys.executable, "-m", "router.local", "qstat")
    assert commands_of(site, Path("/q"), "python 'my wrapper.py'").prefix == ("python", "my wrapper.py")
    with pytest.raises(ConfigError, match="--local-state DIR"):
        commands_of(site, None, "")
    with pytest.raises(ConfigError, match="No closing quotation"):
        commands_of(site, Path("/q"), "python 'x")


def test_lost_nodes_are_excused_as_often_as_the_rule_says() -> None:
    base = Terms(fs_delay=7)

    assert terms_of(base, loaded({"disruptions": 2}), "big") == replace(base, disruptions=2)
    assert terms_of(base, loaded({"disruptions": 0}), "big") == replace(base, disruptions=0)
    assert terms_of(base, loaded({"onMemory": True}), "big") == replace(base, disruptions=Retries().disruptions)
    assert terms_of(base, loaded({"disruptions": 2}), "a rule of last week") == base
    assert base.disruptions == Retries().disruptions


@pytest.mark.parametrize(
    ("written", "expected"), [({}, (30, 5)), ({"minInterval": "10s"}, (30, 10)), ({"minInterval": "2m"}, (120, 120))]
)
def test_a_site_says_how_often_it_is_asked_at_most(written: dict[str, Any], expected: tuple[int, int]) -> None:
    address = Address("127.0.0.1", 0)
    given = AgentSettings("s", Path("policy"), Path("key"), address, address, "127.0.0.1")

    found = paced(given, site_of(loaded(**written), "s"))

    assert found == replace(given, cycle_seconds=expected[0], quick_seconds=expected[1])


@pytest.mark.parametrize("wrong", ["0", "2h", "soon"])
def test_an_interval_that_cannot_be(wrong: str) -> None:
    with pytest.raises(PolicyError, match="minInterval"):
        loaded(minInterval=wrong)


def test_the_commands_of_openpbs_are_those_of_an_ordinary_installation() -> None:
    assert commands_of(site_of(loaded(system="openpbs"), "s"), None, "") == openpbs.DEFAULT


@pytest.mark.parametrize(
    ("system", "fields", "environment"),
    [
        (
            "openpbs",
            {"commandPath": ["/cm/pbs/bin", "/x y"], "commandEnv": {"PBS_CONF_FILE": "/etc/pbs-1.conf"}},
            {
                "PATH": "/cm/pbs/bin:/x y:" + dict(openpbs.DEFAULT.environment)["PATH"],
                "PBS_CONF_FILE": "/etc/pbs-1.conf",
            },
        ),
        ("slurm", {"commandEnv": {"SLURM_CONF": "/s.conf"}}, {"SLURM_CONF": "/s.conf"}),
        ("torque", {"commandPath": ["/t"]}, {"PATH": "/t:" + dict(torque.DEFAULT.environment)["PATH"]}),
    ],
)
def test_commands_that_lie_elsewhere(system: str, fields: dict[str, Any], environment: dict[str, str]) -> None:
    site = site_of(loaded(system=system, **fields), "s")
    usual = system_of(site).DEFAULT

    found = commands_of(site, None, "")

    assert dict(found.environment) == {**dict(usual.environment), **environment}
    assert replace(found, environment=()) == replace(usual, environment=())
    assert [name for name in dict(found.environment) if sitehelper.VARIABLES.fullmatch(name) is None] == []
