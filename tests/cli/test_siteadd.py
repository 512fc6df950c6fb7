"""``batchgate site add`` and ``site remove`` on a real control plane."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from router import names
from router.cli import commands
from router.controlplane.plane import ControlPlane, write_kubeconfig
from router.joining import accounts, joinfile
from router.kube import tokens
from tests import publickeys
from tests.agent.agents import until
from tests.policymap import PolicyMap, policy_map
from tests.publickeys import public_keys

SITE = "hpc"
SYSTEM = names.SYSTEM_NAMESPACE
ACCOUNT = f"{names.AGENT_ACCOUNT}-{SITE}"
USER = f"{names.SERVICE_ACCOUNT}{SYSTEM}:{ACCOUNT}"
POLICY = f"""\
sites:
  - name: {SITE}
    system: slurm
    workDir: /scratch/{{user}}
    queues: [{{name: batch, nodes: 2, cpusPerNode: 4, memoryPerNode: 8Gi, walltimeMax: 4h}}]
rules: [{{name: rest, cloud: true}}]
"""
KEY = """\
-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
"""
OBJECTS = [one.words for one in accounts.objects(SITE, SYSTEM)]


@pytest.fixture(autouse=True)
def installed(plane: ControlPlane) -> Iterator[PolicyMap]:
    """The policy and the public key in the cluster, and afterwards nothing of the site."""
    with policy_map(plane) as found, public_keys(plane, KEY):
        found.put({"a.yaml": POLICY})
        yield found
        CliRunner().invoke(commands, ["site", "remove", SITE, "--kubeconfig", str(plane.kubeconfig())])


def _site(plane: ControlPlane, *words: str) -> Result:
    return CliRunner().invoke(commands, ["site", *words, "--kubeconfig", str(plane.kubeconfig())])


def _added(plane: ControlPlane, file: Path, *words: str) -> joinfile.Join:
    done = _site(plane, "add", SITE, "-o", str(file), *words)
    assert done.exit_code == 0, done.output
    return joinfile.parse(file.read_text(), str(file))


def _as(plane: ControlPlane, join: joinfile.Join) -> str:
    write_kubeconfig(plane.place, USER, {"token": join.token})
    return USER


def _may(plane: ControlPlane, user: str, *words: str) -> bool:
    return plane.run_kubectl("auth", "can-i", *words, user=user).stdout.strip() == "yes"


def test_what_it_makes_and_says(plane: ControlPlane, tmp_path: Path) -> None:
    file = tmp_path / "hpc.join"

    done = _site(plane, "add", SITE, "-o", str(file))

    join = joinfile.parse(file.read_text(), str(file))
    held = tokens.claims(join.token)
    assert (done.exit_code, join) == (
        0,
        joinfile.Join(SITE, SYSTEM, plane.server, "", plane.ca_file.read_text(), KEY, join.token),
    )
    assert (held.user, held.expires - held.issued, stat.S_IMODE(file.stat().st_mode)) == (USER, 3600, 0o600)
    assert done.stdout == "".join(f"{words}: made\n" for words in OBJECTS) + (
        f"\n{file} holds a credential until {tokens.shown(held.expires)}. Bring it to the login node, and there, as root, "
        f"run:\n\n    batchgate site install {SITE} --from hpc.join\n\n"
    )
    words = f"Warning: {plane.server} is this machine alone; name the URL for the login node with --server\n"
    assert (done.stderr, join.token in done.output) == (words, False)


def test_a_second_time_nothing_changes_but_the_file(plane: ControlPlane, tmp_path: Path) -> None:
    file = tmp_path / "hpc.join"
    _added(plane, file)
    before = file.read_text()

    refused = _site(plane, "add", SITE, "-o", str(file))
    assert (refused.exit_code, refused.stderr) == (2, f"Error: {file} exists; --force replaces it\n")
    assert file.read_text() == before

    done = _site(
        plane, "add", SITE, "-o", str(file), "--force", "--lifetime", "20m", "--server", "https://api.example.org"
    )
    held = joinfile.parse(file.read_text(), "")
    assert (done.exit_code, done.stderr, held.server) == (0, "", "https://api.example.org")
    assert done.stdout.startswith("".join(f"{words}: unchanged\n" for words in OBJECTS))
    claims = tokens.claims(held.token)
    assert claims.expires - claims.issued == 1200


def test_what_was_changed_is_corrected(plane: ControlPlane, tmp_path: Path) -> None:
    _added(plane, tmp_path / "first")
    role = json.dumps([{"op": "replace", "path": "/rules/0/resourceNames", "value": ["default"]}])
    plane.kubectl("patch", "role", "-n", SYSTEM, f"{ACCOUNT}-token", "--type=json", "-p", role)

    done = _site(plane, "add", SITE, "-o", str(tmp_path / "second"))

    assert f"Role {SYSTEM}/{ACCOUNT}-token: corrected\n" in done.stdout
    assert plane.get("role", "-n", SYSTEM, f"{ACCOUNT}-token")["rules"][0]["resourceNames"] == [ACCOUNT]


def test_the_credential_may_do_what_an_agent_does_and_nothing_else(plane: ControlPlane, tmp_path: Path) -> None:
    user = _as(plane, _added(plane, tmp_path / "join"))

    allowed = {
        "nodes of ours": ("create", "nodes"),
        "Pods": ("delete", "pods", "-A"),
        "the policy": ("watch", f"configmaps/{names.POLICIES_CONFIG_MAP}", "-n", SYSTEM),
        "heartbeats": ("update", "leases", "-n", names.NODE_LEASES),
        "client CA": ("get", "configmaps/extension-apiserver-authentication", "-n", "kube-system"),
        "its own token": ("create", f"serviceaccounts/{ACCOUNT}", "--subresource=token", "-n", SYSTEM),
    }
    refused = {
        "tokens of the other agents": (
            "create",
            f"serviceaccounts/{names.AGENT_ACCOUNT}",
            "--subresource=token",
            "-n",
            SYSTEM,
        ),
        "tokens of the webhook": (
            "create",
            f"serviceaccounts/{names.WEBHOOK_ACCOUNT}",
            "--subresource=token",
            "-n",
            SYSTEM,
        ),
        "tokens elsewhere": ("create", f"serviceaccounts/{ACCOUNT}", "--subresource=token", "-n", "default"),
        "Secrets": ("get", "secrets", "-A"),
        "the policy, to write": ("update", f"configmaps/{names.POLICIES_CONFIG_MAP}", "-n", SYSTEM),
        "Nodes, to delete": ("delete", "nodes"),
        "roles": ("create", "rolebindings", "-n", SYSTEM),
        "accounts": ("create", "serviceaccounts", "-n", SYSTEM),
    }
    assert {what for what, words in allowed.items() if not _may(plane, user, *words)} == set()
    assert {what for what, words in refused.items() if _may(plane, user, *words)} == set()

    # And in deed, as what `can-i` says and what is done are two things.
    own = plane.run_kubectl("create", "token", ACCOUNT, "-n", SYSTEM, user=user)
    other = plane.run_kubectl("create", "token", names.AGENT_ACCOUNT, "-n", SYSTEM, user=user)
    assert (own.returncode, other.returncode) == (0, 1)
    assert "forbidden" in other.stderr
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"batch.other{names.NODE_SUFFIX}"}}
    there = plane.run_kubectl("create", "--dry-run=server", "-f", "-", user=user, stdin=json.dumps(node))
    assert "of its own site" in there.stderr


def test_the_agents_rights_are_those_of_every_agent(plane: ControlPlane, tmp_path: Path) -> None:
    """The same rules, by the same roles: nothing is copied."""
    _added(plane, tmp_path / "join")

    def bound(account: str) -> set[tuple[str, str, str]]:
        kinds = plane.get("rolebindings,clusterrolebindings", "-A")["items"]
        subject = {"kind": "ServiceAccount", "name": account, "namespace": SYSTEM}
        return {
            (one["metadata"].get("namespace", ""), one["roleRef"]["kind"], one["roleRef"]["name"])
            for one in kinds
            if subject in one.get("subjects", ())
        }

    assert bound(ACCOUNT) == bound(names.AGENT_ACCOUNT) | {(SYSTEM, "Role", f"{ACCOUNT}-token")}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nope",), "the policy has no site 'nope'; its sites are: hpc"),
        (
            (SITE, "--server", "http://api.example.org"),
            "http://api.example.org is no https:// URL; name one with --server",
        ),
        ((SITE, "--namespace", "none"), "the cluster has no Namespace none; install the chart"),
        ((SITE, "--policy", "/none"), "/none"),
        ((SITE, "--public-key", "/none"), "/none: the public key cannot be read"),
        ((SITE, "--lifetime", "soon"), "soon"),
    ],
)
def test_what_cannot_be(plane: ControlPlane, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    file = tmp_path / "join"

    done = _site(plane, "add", *words, "-o", str(file))

    assert (done.exit_code, file.exists(), "Traceback" in done.output) == (2, False, False)
    assert said in done.stderr
    assert plane.run_kubectl("get", "serviceaccount", "-n", SYSTEM, ACCOUNT).returncode == 1


def test_a_cluster_without_policy_or_keys(plane: ControlPlane, installed: PolicyMap, tmp_path: Path) -> None:
    plane.kubectl("delete", *publickeys.NAME)
    no_keys = _site(plane, "add", SITE, "-o", str(tmp_path / "join"))
    installed.delete()
    no_policy = _site(plane, "add", SITE, "-o", str(tmp_path / "join"))

    assert "with signing.pub; `batchgate certs ensure` makes it, or name the file with --public-key" in no_keys.stderr
    assert "there is no ConfigMap batchgate-system/batchgate-policies; `batchgate policy apply DIR`" in no_policy.stderr

    files = tmp_path / "files"
    files.mkdir()
    (files / "a.yaml").write_text(POLICY)
    (tmp_path / "key").write_text(KEY)
    _added(plane, tmp_path / "join", "--policy", str(files), "--public-key", str(tmp_path / "key"))


def test_a_dry_run_makes_nothing(plane: ControlPlane, tmp_path: Path) -> None:
    done = _site(plane, "add", SITE, "-o", str(tmp_path / "join"), "--dry-run")

    assert (done.exit_code, done.stdout.count("---"), list(tmp_path.iterdir())) == (0, len(OBJECTS) - 1, [])
    assert plane.run_kubectl("get", "serviceaccount", "-n", SYSTEM, ACCOUNT).returncode == 1
    plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=done.stdout)


def test_its_removal_ends_the_credential(plane: ControlPlane, tmp_path: Path) -> None:
    user = _as(plane, _added(plane, tmp_path / "join"))
    assert plane.run_kubectl("auth", "whoami", user=user).returncode == 0

    done = _site(plane, "remove", SITE)

    assert (done.exit_code, done.stdout) == (
        0,
        "".join(f"{words}: deleted\n" for words in reversed(OBJECTS))
        + f"\nOn the login node, as root: batchgate site uninstall {SITE}\n",
    )
    until(lambda: plane.run_kubectl("auth", "whoami", user=user).returncode)
    again = _site(plane, "remove", SITE)
    assert (again.exit_code, again.stderr) == (
        2,
        "Error: the cluster has no account of agents of a site 'hpc'; `batchgate site add` would make it\n",
    )


def test_it_goes_with_the_rest_of_batchgate(plane: ControlPlane, tmp_path: Path) -> None:
    _added(plane, tmp_path / "join")

    done = CliRunner().invoke(commands, ["uninstall", "--check", "--kubeconfig", str(plane.kubeconfig())])

    listed = [line.removeprefix("delete  ") for line in done.stdout.splitlines() if ACCOUNT in line]
    assert listed == list(reversed(OBJECTS))


def test_it_stays_while_pods_of_the_site_live(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    _added(plane, tmp_path / "join")
    labels = {names.KEY_SITE: SITE}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "lives", "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "busybox:1.36"}], "nodeSelector": {"no": "such"}},
    }
    plane.kubectl(
        "create", "-f", "-", "--as=system:serviceaccount:kube-system:job-controller", "--as-group=system:masters",
        stdin=json.dumps(pod),
    )  # fmt: skip

    done = _site(plane, "remove", SITE)

    words = f"1 Pods of site hpc live: {namespace}/lives. Wait until they have ended, or delete their Jobs"
    assert (done.exit_code, done.stderr) == (1, f"Error: {words}. Nothing was done\n")
    assert plane.run_kubectl("get", "serviceaccount", "-n", SYSTEM, ACCOUNT).returncode == 0
    forced = _site(plane, "remove", SITE, "--force")
    assert (forced.exit_code, f"ServiceAccount {SYSTEM}/{ACCOUNT}: deleted\n" in forced.stdout) == (0, True)
