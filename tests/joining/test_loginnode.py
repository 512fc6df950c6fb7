"""``site install`` on a login node under a real systemd, with a real API server and webhook: from nothing to Jobs."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from router import names
from router.cli import commands
from router.controlplane import installing
from router.controlplane.plane import ControlPlane
from router.demo import services
from tests.agent.agents import until
from tests.joining import loginnode
from tests.joining.loginnode import PROGRAM, LoginNode, login_node
from tests.policymap import PolicyMap, policy_map
from tests.publickeys import public_keys

OWN, SUDO, FAR = "own", "shared", "far"
"""The sites: the embedded queue as the agent's own account; with sudo for the user grace; over ssh as grace."""


def _quiet_ports(count: int) -> list[int]:
    """Ports that nobody listens on, and that the machine gives to no outgoing connection, where it has such.

    A unit that starts again needs its ports again: one that another test's connection has taken meanwhile is lost to it.
    """
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    found: list[int] = []
    for port in (*range(high + 1, 65536), *range(low - 1, 1024, -1), *range(low, high + 1)):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            break
    return found


SSHD_PORT, *_OTHERS = _quiet_ports(7)
PORTS = {site: (_OTHERS[2 * i], _OTHERS[2 * i + 1]) for i, site in enumerate((OWN, SUDO, FAR))}
"""For each site's agent: of the kubelet's API, of its figures."""
TIMES_FOLDER = "/etc/systemd/system/batchgate-agent-.service.d"
TIMES = """\
[Service]
Environment=BATCHGATE_AGENT_LEASE_SECONDS=4s BATCHGATE_AGENT_CYCLE_SECONDS=2s BATCHGATE_AGENT_QUICK_SECONDS=1s
"""
POLICY = f"""\
sites:
  - name: {OWN}
    system: local
    workDir: /srv/work
    runtime: host
    fsDelay: 1m
    queues: [{{name: batch, nodes: 1, cpusPerNode: 4, memoryPerNode: 8Gi, walltimeDefault: 30m, walltimeMax: 4h}}]
  - name: {SUDO}
    system: openpbs
    access: sudo
    workDir: /home/{{user}}/batchgate
    commandPath: [/opt/pbs/bin]
    fsDelay: 5s
    queues: [{{name: workq, nodes: 1, cpusPerNode: 4, memoryPerNode: 8Gi, walltimeDefault: 30m, walltimeMax: 4h}}]
  - name: {FAR}
    system: openpbs
    host: ssh://grace@127.0.0.1:{SSHD_PORT}
    knownHosts: /srv/ssh/known_hosts
    keys: /srv/ssh/key
    workDir: /home/{{user}}/far
    commandPath: [/opt/pbs/bin]
    fsDelay: 5s
    queues: [{{name: workq, nodes: 1, cpusPerNode: 4, memoryPerNode: 8Gi, walltimeDefault: 30m, walltimeMax: 4h}}]
accounts:
  - {{users: [ada], site: {OWN}, as: batchgate, shared: true}}
  - {{users: [ada], site: {SUDO}, as: grace, shared: true}}
  - {{users: [ada], site: {FAR}, as: grace, shared: true}}
rules:
  - {{name: never, when: job.totalCpus >= 1000, hpc: [{{site: {SUDO}, queue: workq}}]}}
  - {{name: rest, hpc: [{{site: {OWN}, queue: batch}}]}}
"""
QUEUES = {"queues": [{"name": "batch", "nodes": 1, "cpusPerNode": 4, "memory": 8 << 30, "walltimeMax": 14400}]}
WORKQ = {"queues": [{**QUEUES["queues"][0], "name": "workq"}]}
PBS = ("qsub", "qstat", "qselect", "qdel", "qsig")
NO_NODES = """#!/bin/sh
echo '{"timestamp": 0, "pbs_version": "23.06.06", "pbs_server": "here", "nodes": {}}'
"""
WRAPPER = '#!/bin/sh\nBATCHGATE_LOCAL=/home/grace/queue exec /opt/batchgate/bin/python -m router.local {name} "$@"\n'


@dataclass(frozen=True)
class Scene:
    """A cluster with webhook, and a login node without an agent."""

    plane: ControlPlane
    node: LoginNode
    namespace: str
    before: set[str]
    """The files with names of ours that the machine has had already."""

    def add(self, site: str, directory: Path) -> Path:
        """``site add``; returns the join file, which is on the login node as /root/SITE.join."""
        file = directory / f"{site}.join"
        words = ["site", "add", site, "--kubeconfig", str(self.plane.kubeconfig()), "-o", str(file), "--force"]
        done = CliRunner().invoke(commands, words)
        assert done.exit_code == 0, done.output
        self.node.put(f"/root/{site}.join", file.read_text(), 0o600)
        return file

    def install(self, site: str, *words: str) -> loginnode.Run:
        """The first ``site install`` of a site on the login node."""
        listen, metrics = PORTS[site]
        place = ("--listen", f"127.0.0.1:{listen}", "--metrics", f"127.0.0.1:{metrics}")
        return self.node.batchgate("site", "install", site, "--from", f"/root/{site}.join", *place, *words)

    def install_again(self, site: str, *words: str) -> loginnode.Run:
        """A later one, which needs neither the join file nor the options."""
        return self.node.batchgate("site", "install", site, *words)

    def await_reached(self, site: str) -> None:
        """Wait until the site's Nodes are Ready and its batch system answers; on failure with the unit's log."""
        wanted = {"Ready": "True", names.CONDITION_HPC_UNAVAILABLE: "False"}
        try:
            until(lambda: {kind: self.condition(site, kind) for kind in wanted} == wanted)
        except AssertionError as error:
            log = self.node.run("journalctl", "-o", "cat", "-n", "80").out
            raise AssertionError(log) from error

    def condition(self, site: str, kind: str) -> str:
        """The status of a condition of the site's Nodes; empty where they differ or have none."""
        found = self.plane.get("nodes", "-l", f"{names.KEY_SITE}={site}")["items"]
        told = [one for node in found for one in node["status"].get("conditions", ()) if one["type"] == kind]
        return str(told[0]["status"]) if len({one["status"] for one in told}) == 1 else ""

    def job(self, name: str, *command: str) -> dict[str, Any]:
        """A Job that runs a command."""
        container = {"name": "c", "image": "none", "command": list(command)}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        }

    def run_job(self, name: str) -> dict[str, Any]:
        """Run a Job of ada's to its end; returns it."""
        job = self.job(name, "id", "-un")
        self.plane.kubectl("create", "-f", "-", user="ada", stdin=json.dumps(job))
        self.plane.kubectl("wait", "--for=condition=Complete", "--timeout=110s", "-n", self.namespace, f"job/{name}")
        return dict(self.plane.get("job", "-n", self.namespace, name))

    def logs(self, job: str) -> str:
        """What the Job's Pod has printed."""
        return str(self.plane.kubectl("logs", "-n", self.namespace, f"job/{job}").stdout)


@pytest.fixture(scope="module")
def node(control_plane_programs: object) -> Iterator[LoginNode]:
    if why := loginnode.obstacle():
        pytest.skip(f"no systemd in a container: {why}")
    with login_node() as found:
        yield found


@pytest.fixture(scope="module")
def scene(plane: ControlPlane, node: LoginNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("login-node")
    policy = directory / "policy"
    policy.mkdir()
    (policy / "policy.yaml").write_text(POLICY)
    namespace = "login-node"
    plane.make_namespaces({namespace: ("researchers",)})
    with policy_map(plane) as found, services.webhook(policy, directory / "webhook") as webhook:
        found.put({"policy.yaml": POLICY})
        installing.register(plane, webhook.url, webhook.ca_file, (namespace,))
        with public_keys(plane, (directory / "webhook" / "signing.pub").read_text()):
            yield Scene(plane, node, namespace, _ours(node))
        installing.unregister(plane, (namespace,))
        plane.kubectl("delete", "namespace", namespace, "--wait=false")
        plane.kubectl("delete", "nodes", "-l", "type=virtual-kubelet")


def _ours(node: LoginNode) -> set[str]:
    """Without a kind cluster's folder: it is the machine's, made and taken away by others at any time."""
    named = ("-name", "*batchgate*", "-o", "-name", "sitehelper")
    found = node.must("find", "/etc", "/usr/local", *named) + node.must("find", "/var/lib", "-maxdepth", "1", *named)
    return {path for path in found.splitlines() if not path.endswith("-kind")}


def _writable(node: LoginNode, pid: str) -> set[str]:
    """Of some directories those that root itself could write, seen from a process: what systemd leaves it."""
    places = (
        "/etc",
        "/usr",
        "/home",
        "/srv",
        "/tmp",
        *(f"/var/lib/batchgate{rest}" for rest in ("", f"/{FAR}", f"/{SUDO}")),
    )
    told = {place: node.run("nsenter", "--target", pid, "--mount", "test", "-w", place).rc for place in places}
    return {place for place, code in told.items() if code == 0}


def _approve(plane: ControlPlane) -> None:
    """As an admin does who runs the approver once; the account of the site's agent made the request."""
    done = CliRunner().invoke(
        commands, ["certs", "approve", "--address", "127.0.0.1", "--kubeconfig", str(plane.kubeconfig())]
    )
    assert done.exit_code == 0, done.output


def test_from_nothing_to_a_job(scene: Scene, tmp_path: Path) -> None:
    scene.add(OWN, tmp_path)
    scene.node.must("install", "-d", "-m", "0755", "/srv/work")
    # For all sites, as an admin may: times that suit a test.
    scene.node.must("install", "-d", TIMES_FOLDER)
    scene.node.put(f"{TIMES_FOLDER}/times.conf", TIMES)

    files = scene.install(OWN, "--no-start")

    assert files.rc == 0, files.err
    assert "account batchgate: made\n" in files.out
    assert scene.node.must("getent", "passwd", "batchgate").split(":")[4:] == [
        "Batchgate agent",
        "/nonexistent",
        "/usr/sbin/nologin\n",
    ]
    state = f"/var/lib/batchgate/{OWN}"
    modes = scene.node.must(
        "stat", "-c", "%a %U:%G %n", f"/etc/batchgate/{OWN}", f"/etc/batchgate/{OWN}/kubeconfig", state
    )
    assert modes.splitlines() == [
        f"750 root:batchgate /etc/batchgate/{OWN}",
        f"640 root:batchgate /etc/batchgate/{OWN}/kubeconfig",
        f"700 batchgate:batchgate {state}",
    ]
    assert scene.node.must("stat", "-c", "%a %U:%G", f"{state}/token") == "600 batchgate:batchgate\n"
    scene.node.must("systemd-analyze", "verify", f"/etc/systemd/system/batchgate-agent-{OWN}.service")
    scene.node.must("chown", "batchgate", "/srv/work")
    _declare(scene.node, "batchgate", f"{state}/queue", QUEUES)

    done = scene.install(OWN)

    assert done.rc == 0, done.out + done.err
    assert re.search(r"^probe +batchgate +ok ", done.out, re.MULTILINE)
    waits = "certificate: waits for: kubectl certificate approve batchgate-kubelet-"
    assert (f"\nagent of site {OWN}: leads\n" in done.out, waits in done.out) == (True, True), done.out + done.err
    scene.await_reached(OWN)
    _approve(scene.plane)
    job = scene.run_job("first")
    assert job["metadata"]["labels"][names.KEY_SITE] == OWN
    assert until(lambda: scene.plane.run_kubectl("logs", "-n", scene.namespace, "job/first").stdout) == "batchgate\n"


def _declare(node: LoginNode, user: str, directory: str, queues: dict[str, Any]) -> None:
    """Declare the queues of an embedded queue, as its user."""
    define = (PROGRAM, "local", "--directory", directory, "queues", "--define", "-")
    node.must("setpriv", "--reuid", user, "--regid", user, "--init-groups", *define, stdin=json.dumps(queues))


def test_a_second_time_changes_nothing(scene: Scene) -> None:
    pid = scene.node.must("systemctl", "show", "-P", "MainPID", f"batchgate-agent-{OWN}")
    scene.node.must("rm", f"/root/{OWN}.join")

    done = scene.install_again(OWN, "--no-check")

    assert (done.rc, "All of it was there already\n" in done.out, ": made" in done.out) == (0, True, False)
    assert scene.node.must("systemctl", "show", "-P", "MainPID", f"batchgate-agent-{OWN}") == pid


def test_the_check_by_hand(scene: Scene) -> None:
    words = ("--policy-configmap", "batchgate-policies", "--kubeconfig", f"/etc/batchgate/{OWN}/kubeconfig")
    state = ("--local-state", f"/var/lib/batchgate/{OWN}/queue")

    done = scene.node.run("sudo", "-u", "batchgate", PROGRAM, "site", "check", OWN, *words, *state)

    assert (done.rc, f"agents of site {OWN} may submit" in done.err) == (0, True), done.out + done.err


def test_systemd_starts_it_again_when_it_is_killed(scene: Scene) -> None:
    unit = f"batchgate-agent-{OWN}"
    before = scene.node.must("systemctl", "show", "-P", "MainPID", unit)

    scene.node.must("systemctl", "kill", "--signal=KILL", "--kill-whom=main", unit)

    until(lambda: scene.node.run("systemctl", "show", "-P", "MainPID", unit).out not in (before, "0\n"))
    until(lambda: '"leading": true' in scene.node.run("curl", "-s", f"127.0.0.1:{PORTS[OWN][1]}/readyz").out)
    scene.run_job("after-a-kill")


def test_it_comes_back_after_a_boot(scene: Scene) -> None:
    scene.node.reboot()

    assert scene.node.must("systemctl", "is-active", f"batchgate-agent-{OWN}") == "active\n"
    until(lambda: '"leading": true' in scene.node.run("curl", "-s", f"127.0.0.1:{PORTS[OWN][1]}/readyz").out)
    scene.run_job("after-a-boot")


def test_a_credential_that_was_taken_away_comes_back_with_another_file(scene: Scene, tmp_path: Path) -> None:
    """As after a theft, and as after a machine was off for too long: the account's old tokens are worth nothing."""
    words = ["site", "remove", OWN, "--kubeconfig", str(scene.plane.kubeconfig())]
    assert CliRunner().invoke(commands, words).exit_code == 0
    log = ("journalctl", "-u", f"batchgate-agent-{OWN}", "-o", "cat", "-n", "200")
    until(lambda: "Unauthorized" in scene.node.must(*log))
    early = scene.install_again(OWN, "--no-check")
    assert (early.rc, "the site's account is gone, or another one; run `batchgate site add" in early.err) == (2, True)
    scene.add(OWN, tmp_path)

    done = scene.install_again(OWN, "--no-check", "--from", f"/root/{OWN}.join")

    assert (done.rc, f"/var/lib/batchgate/{OWN}/token: corrected\n" in done.out) == (0, True), done.err
    until(lambda: '"leading": true' in scene.node.run("curl", "-s", f"127.0.0.1:{PORTS[OWN][1]}/readyz").out)
    scene.run_job("after-a-theft")


def test_with_sudo_the_unit_acts_as_its_users(scene: Scene, tmp_path: Path) -> None:
    """The commands are the embedded queue's, of the user grace: the agent reaches them by sudo alone."""
    node = scene.node
    node.must("useradd", "--create-home", "--uid", "2345", "--password", "*", "grace")
    node.must("install", "-d", "/opt/pbs/bin")
    for name in PBS:
        node.put(f"/opt/pbs/bin/{name}", WRAPPER.format(name=name), 0o755)
    node.put("/opt/pbs/bin/pbsnodes", NO_NODES, 0o755)
    _declare(node, "grace", "/home/grace/queue", WORKQ)
    scene.add(SUDO, tmp_path)

    done = scene.install(SUDO, "--no-check")

    assert done.rc == 0, done.out + done.err
    assert node.must("sh", "-c", f"grep -v '^#' /etc/sudoers.d/batchgate-agent-{SUDO}") == (
        "Defaults!/usr/local/libexec/batchgate/sitehelper !requiretty, env_reset\n"
        'batchgate ALL=(grace) NOPASSWD: /usr/local/libexec/batchgate/sitehelper ""\n'
    )
    assert node.must("stat", "-c", "%a %U:%G", f"/etc/sudoers.d/batchgate-agent-{SUDO}") == "440 root:root\n"
    scene.await_reached(SUDO)
    pid = node.must("systemctl", "show", "-P", "MainPID", f"batchgate-agent-{SUDO}").strip()
    assert node.must("sh", "-c", f"grep NoNewPrivs /proc/{pid}/status") == "NoNewPrivs:\t0\n"
    assert _writable(node, pid) == {f"/var/lib/batchgate/{SUDO}", "/var/lib/batchgate", "/home", "/srv", "/tmp"}
    helper = "pgrep -u grace -f /usr/local/libexec/batchgate/sitehelper"
    assert until(lambda: node.run("sh", "-c", helper).out)


def test_over_ssh_with_every_switch_of_systemd_on(scene: Scene, tmp_path: Path) -> None:
    node = scene.node
    if node.run("test", "-x", "/usr/sbin/sshd").rc:
        pytest.skip("needs sshd: the package openssh-server")
    node.must("install", "-d", "/srv/ssh", "/run/sshd")
    for name in ("host", "key"):
        node.must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"/srv/ssh/{name}")
    sshd = ("/usr/sbin/sshd", "-D", "-e", "-h", "/srv/ssh/host", "-p", str(SSHD_PORT), "-o", "ListenAddress=127.0.0.1")
    node.must("systemd-run", "--quiet", "--unit", "far", *sshd, "-o", "UsePAM=no", "-f", "/dev/null")
    node.must("sh", "-c", f"echo [127.0.0.1]:{SSHD_PORT} $(cut -d' ' -f1,2 /srv/ssh/host.pub) > /srv/ssh/known_hosts")
    node.must(
        "sh", "-c", "install -d -o grace ~grace/.ssh && install -o grace /srv/ssh/key.pub ~grace/.ssh/authorized_keys"
    )
    scene.add(FAR, tmp_path)

    first = scene.install(FAR, "--no-start")

    words = "/srv/ssh/key: batchgate cannot read it; put the private key there, owner batchgate, mode 0600"
    assert (first.rc, first.err) == (0, f"Warning: {words} (docs/hosts.md, ssh). No key is made here\n")
    node.must("chown", "batchgate", "/srv/ssh/key")
    again = scene.install_again(FAR, "--no-check")
    assert (again.rc, again.err) == (0, ""), again.err
    scene.await_reached(FAR)
    pid = node.must("systemctl", "show", "-P", "MainPID", f"batchgate-agent-{FAR}").strip()
    status = node.must("grep", "-E", "^(NoNewPrivs|CapBnd|Seccomp):", f"/proc/{pid}/status")
    assert status.split() == ["CapBnd:", "0000000000000000", "NoNewPrivs:", "1", "Seccomp:", "2"]
    assert _writable(node, pid) == {f"/var/lib/batchgate/{FAR}", "/tmp"}


def test_a_helper_with_settings_of_the_site_keeps_them(scene: Scene) -> None:
    place = "/usr/local/libexec/batchgate/sitehelper"
    scene.node.must("sed", "-i", "s/^LEAST_UID = 1000 .*/LEAST_UID = 2000/; $a # of another release", place)

    done = scene.install_again(SUDO, "--no-check")

    assert (done.rc, f"{place}: corrected\n" in done.out) == (0, True)
    kept = scene.node.must("grep", "-E", "^LEAST_UID =|of another release", place)
    assert kept == "LEAST_UID = 2000\n"


def test_what_a_site_needs_no_more_is_removed(scene: Scene) -> None:
    """Here the rule for sudo, when the policy changes the site's access."""
    one_user = POLICY.replace("    access: sudo\n", "").replace("/home/{user}/batchgate", "/srv/work")
    policy = PolicyMap(scene.plane)
    policy.change({"policy.yaml": one_user})
    try:
        done = scene.install_again(SUDO, "--no-start")
    finally:
        policy.change({"policy.yaml": POLICY})
    rule = f"/etc/sudoers.d/batchgate-agent-{SUDO}"
    assert (done.rc, f"{rule}: removed\n" in done.out, "account grace: unchanged\n" in done.out) == (0, True, True)

    again = scene.install_again(SUDO, "--no-check")
    assert (again.rc, f"{rule}: made\n" in again.out, f"{SUDO}.service: runs" in again.out) == (0, True, False)
    scene.await_reached(SUDO)


def test_what_cannot_be_is_one_sentence(scene: Scene, tmp_path: Path) -> None:
    node = scene.node
    node.must("cp", "-r", "/opt/batchgate", "/opt/closed")
    node.must("chmod", "0700", "/opt/closed")
    node.put("/root/broken.join", "site: own\n")
    other = tmp_path / "other"
    other.mkdir()
    join = scene.add(OWN, other).read_text()
    services.batchgate("certs", "create", str(other / "pki"), "--host-name", "x")
    ca = (other / "pki" / "ca.crt").read_text().replace("\n", "\n  ").strip()
    node.put("/root/foreign.join", re.sub(r"(?s)ca: \|\n.*?(?=publicKeys)", f"ca: |\n  {ca}\n", join), 0o600)
    node.must("mkdir", "-p", f"/var/lib/batchgate/{OWN}/kept")
    node.must("mv", f"/var/lib/batchgate/{OWN}/token", f"/var/lib/batchgate/{OWN}/kept/")
    try:
        said = {
            "no account": ("--from", f"/root/{OWN}.join", "--user", "nobody-at-all"),
            "closed": ("--from", f"/root/{OWN}.join", "--program", "/opt/closed/bin/batchgate"),
            "broken": ("--from", "/root/broken.join"),
            "missing": ("--from", "/root/none.join"),
            "another": ("--from", f"/root/{SUDO}.join"),
            "foreign": ("--from", "/root/foreign.join"),
        }
        found = {what: node.batchgate("site", "install", OWN, *words) for what, words in said.items()}
    finally:
        node.must("mv", f"/var/lib/batchgate/{OWN}/kept/token", f"/var/lib/batchgate/{OWN}/token")
        node.must("rmdir", f"/var/lib/batchgate/{OWN}/kept")
    assert {what: done.rc for what, done in found.items()} == dict.fromkeys(said, 2)
    words = {what: done.err.splitlines()[-1] for what, done in found.items()}
    assert words["no account"] == "Error: there is no account 'nobody-at-all' on this machine"
    assert words["closed"].startswith(
        "Error: batchgate cannot run /opt/closed/bin/batchgate: it may not enter /opt/closed. Install batchgate where"
    )
    assert words["broken"] == "Error: /root/broken.join: has no apiVersion; make another one with `batchgate site add`"
    assert words["missing"] == "Error: /root/none.join: the join file cannot be read: No such file or directory"
    assert (
        words["another"] == f"Error: /root/{SUDO}.join: is for site '{SUDO}', not '{OWN}'; name the site that it is for"
    )
    assert "shows a certificate that the join file's CA has not signed" in words["foreign"]


def test_without_root(scene: Scene) -> None:
    words = (PROGRAM, "site", "install", OWN, "--from", "/root/none.join")

    done = scene.node.run("setpriv", "--reuid", "65534", "--clear-groups", *words)

    assert done.err == "Error: this makes accounts and units: run it as root, or look with --dry-run\n"


def test_it_is_taken_off_again(scene: Scene) -> None:
    node = scene.node
    job = scene.job("lives", "sleep", "600")
    scene.plane.kubectl("create", "-f", "-", user="ada", stdin=json.dumps(job))
    until(lambda: scene.plane.get("pods", "-n", scene.namespace, "-l", "job-name=lives")["items"])
    refused = node.batchgate("site", "uninstall", OWN)
    words = f"1 Pods of site {OWN} live: {scene.namespace}/lives-"
    assert (refused.rc, words in refused.err) == (2, True), refused.err
    scene.plane.kubectl("delete", "job", "-n", scene.namespace, "lives", "--wait")
    until(lambda: not scene.plane.get("pods", "-n", scene.namespace, "-l", "job-name=lives")["items"])
    if not node.run("test", "-d", f"/etc/batchgate/{FAR}").rc:
        assert node.batchgate("site", "uninstall", FAR).rc == 0
    queue = "kill $(pgrep -u batchgate -f pbs.py)"
    first = node.batchgate("site", "uninstall", OWN)
    node.must("sh", "-c", queue)  # it outlives the agent for five idle minutes, and keeps the account in use
    assert (first.rc, "account batchgate" in first.out) == (0, False)
    assert node.run("systemctl", "is-active", f"batchgate-agent-{SUDO}").out == "active\n"

    second = node.batchgate("site", "uninstall", SUDO)

    assert (second.rc, "account batchgate: removed\n" in second.out) == (0, True), second.err
    left = _ours(node) - scene.before
    assert left == {"/var/lib/batchgate", TIMES_FOLDER}
    kept = node.must("find", "/var/lib/batchgate", "-maxdepth", "2")
    assert kept.split() == [f"/var/lib/batchgate{path}" for path in ("", f"/{OWN}", f"/{OWN}/queue")]
    gone = node.batchgate("site", "uninstall", OWN)
    assert gone.err.startswith(f"Error: no agent of a site '{OWN}' was installed on this machine")
