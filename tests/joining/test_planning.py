"""What is put on a login node."""

from __future__ import annotations

from typing import Any

import pytest

from router.cli.output import as_yaml
from router.errors import ConfigError
from router.joining import planning
from router.joining.joinfile import Join
from router.joining.layout import Layout
from router.joining.planning import Record
from router.kube.tokens import Claims
from router.site.schema import Site

HPC = Layout("hpc")
QUEUE = {"name": "q", "nodes": 1, "cpusPerNode": 1, "memoryPerNode": "1Gi"}


def site(**changes: Any) -> Site:
    return Site.model_validate(
        {"name": "hpc", "system": "slurm", "workDir": "/scratch/{user}", "queues": [QUEUE], **changes}
    )


SSH = {"host": "ssh://login", "knownHosts": "/etc/batchgate/known_hosts", "keys": "/etc/batchgate/keys"}


def test_the_layout() -> None:
    names = ("etc", "kubeconfig", "ca", "public_keys", "record", "state", "token", "certificates", "queue")
    assert {name: getattr(HPC, name) for name in (*names, "unit", "unit_file", "sudoers")} == {
        "etc": "/etc/batchgate/hpc",
        "kubeconfig": "/etc/batchgate/hpc/kubeconfig",
        "ca": "/etc/batchgate/hpc/ca.crt",
        "public_keys": "/etc/batchgate/hpc/signing.pub",
        "record": "/etc/batchgate/hpc/installed.json",
        "state": "/var/lib/batchgate/hpc",
        "token": "/var/lib/batchgate/hpc/token",
        "certificates": "/var/lib/batchgate/hpc/kubelet",
        "queue": "/var/lib/batchgate/hpc/queue",
        "unit": "batchgate-agent-hpc.service",
        "unit_file": "/etc/systemd/system/batchgate-agent-hpc.service",
        "sudoers": "/etc/sudoers.d/batchgate-agent-hpc",
    }


def test_a_site_with_a_dot_has_none_in_the_name_for_sudo() -> None:
    assert "." not in Layout("My.Site").sudoers.removeprefix("/etc/sudoers.d")


@pytest.mark.parametrize(
    ("changes", "users", "named", "expected"),
    [
        ({"access": "sudo"}, {"ada", "ben"}, "", "batchgate"),
        ({"access": "sudo"}, {"ada", "ben"}, "agent", "agent"),
        ({"system": "local"}, set(), "", "batchgate"),
        ({}, {"ada"}, "", "ada"),
        ({}, {"ada", "ben"}, "ben", "ben"),
        ({**SSH, "host": "ssh://ada@login"}, {"ada"}, "", "batchgate"),
        ({**SSH, "access": "own-keys"}, {"ada", "ben"}, "", "batchgate"),
    ],
)
def test_the_account(changes: dict[str, Any], users: set[str], named: str, expected: str) -> None:
    assert planning.account_of(site(**changes), users, named) == expected


@pytest.mark.parametrize(
    ("users", "named", "expected"),
    [
        ({"ada", "ben"}, "", "accounts name ada, ben"),
        (set(), "", "accounts name nobody"),
        ({"ada"}, "eve", "accounts name ada"),
        ({"ada"}, "root", "the agent does not run as root; leave --user out, or name another account"),
    ],
)
def test_no_account(users: set[str], named: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        planning.account_of(site(), users, named)
    assert str(caught.value).endswith(expected)


HELPER, PULL = "/usr/local/libexec/batchgate/sitehelper", "/usr/local/libexec/batchgate/imagepull"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"access": "sudo"}, {"sitehelper": HELPER, "imagepull": PULL}),
        ({"access": "sudo", "pull": "job", "helper": "/opt/helper"}, {"sitehelper": "/opt/helper"}),
        ({}, {"imagepull": PULL}),
        ({"pull": "never"}, {}),
        ({"system": "local", "runtime": "host"}, {}),
        ({**SSH, "access": "own-keys"}, {}),
    ],
)
def test_what_a_site_expects_on_its_login_node(changes: dict[str, Any], expected: dict[str, str]) -> None:
    assert planning.programs(site(**changes)) == expected


@pytest.mark.parametrize(
    ("join", "cluster"),
    [
        (
            Join("hpc", "ns", "https://api", "", "PEM", "KEY", "T"),
            {"server": "https://api", "certificate-authority": "/etc/batchgate/hpc/ca.crt"},
        ),
        (
            Join("hpc", "ns", "https://api", "name", "", "KEY", "T"),
            {"server": "https://api", "tls-server-name": "name"},
        ),
    ],
)
def test_the_kubeconfig_names_the_credential_and_holds_none(join: Join, cluster: dict[str, str]) -> None:
    assert planning.kubeconfig(join, HPC) == {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": "agent", "user": {"tokenFile": "/var/lib/batchgate/hpc/token"}}],
        "contexts": [{"name": "agent", "context": {"cluster": "cluster", "user": "agent", "namespace": "ns"}}],
        "current-context": "agent",
    }


WANTED = Claims("ns", "a", 1000, 2000)


@pytest.mark.parametrize(
    ("held", "now", "expected"),
    [
        (None, 1000, False),
        (WANTED, 1000, True),
        (WANTED, 1499, True),
        (WANTED, 1500, False),
        (Claims("ns", "b", 1000, 2000), 1000, False),
    ],
)
def test_whether_the_credential_that_is_there_stays(held: Claims | None, now: float, expected: bool) -> None:
    assert planning.is_usable(held, WANTED, now) == expected


@pytest.mark.parametrize(
    ("program", "changes", "expected"),
    [
        ("/opt/batchgate/bin/batchgate", SSH, False),
        ("/home/me/bin/batchgate", SSH, True),
        ("/opt/batchgate/bin/batchgate", {**SSH, "keys": "/root/keys"}, True),
        ("/opt/batchgate/bin/batchgate", {**SSH, "knownHosts": "/home/x/known_hosts"}, True),
    ],
)
def test_whether_a_unit_must_see_homes(program: str, changes: dict[str, Any], expected: bool) -> None:
    assert planning.sees_homes(program, site(access="own-keys", **changes)) == expected


def test_what_other_sites_use_is_not_removed() -> None:
    own = ["/etc/batchgate/hpc/installed.json", "/etc/batchgate/hpc/kubeconfig", HELPER, PULL]

    assert planning.removable(HPC, own, [HELPER]) == ("/etc/batchgate/hpc/kubeconfig", PULL)


def test_a_record_is_read_as_it_was_written() -> None:
    record = Record("1.0", {"listen": ":10250", "self_signed": False}, ("/a", "/b"))

    assert planning.read_record(planning.write_record(record), "x") == record


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"release": "1", "options": 1, "files": []}', '{"release": "1", "options": {}, "files": 1}'],
)
def test_what_is_no_record(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        planning.read_record(text, "x")
    assert str(caught.value) == "x: is not what `site install` writes; remove it, and install again"


@pytest.mark.parametrize(
    "join",
    [
        Join("hpc", "ns", "https://api", "", "PEM", "KEY", "T"),
        Join("hpc", "ns", "https://api", "name", "", "KEY", "T"),
    ],
)
def test_a_join_file_is_not_needed_a_second_time(join: Join) -> None:
    configuration = as_yaml([planning.kubeconfig(join, HPC)])

    assert planning.installed_join("hpc", configuration, join.ca, join.public_keys, join.token) == join


@pytest.mark.parametrize("text", ["", "[]", "clusters: []", "{", "clusters: [{cluster: 1}]"])
def test_a_kubeconfig_of_somebody_else(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        planning.installed_join("hpc", text, "", "KEY", "T")
    assert str(caught.value).endswith("name a join file with --from")
