"""The cloud's node, on a real control plane: plain anywhere, real where this machine can have one."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from router.controlplane import cloudnode, confining, image, realnode
from router.controlplane.cloudnode import CloudNode, Kind
from router.controlplane.options import Options
from router.controlplane.plane import ControlPlane
from router.controlplane.programs import Programs
from router.controlplane.start import control_plane
from router.errors import ConfigError

SECONDS = 120


def await_true(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < until, f"not within {SECONDS} s: {what}"
        time.sleep(0.1)


def job(name: str, script: str) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", script]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 1}}
    spec = {"template": template, "backoffLimit": 0}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def condition(plane: ControlPlane, name: str) -> str:
    conditions = plane.get("job", name).get("status", {}).get("conditions", [])
    return next((one["type"] for one in conditions if one["type"] in {"Complete", "Failed"}), "")


@pytest.fixture(scope="module")
def small(control_plane_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A plane of its own, so that the shared one keeps having no node; nothing of it is left."""
    directory = tmp_path_factory.mktemp("cloud")
    with control_plane(directory / "plane", Options(node_grace_seconds=6)) as plane:
        yield plane
        bridge = f"bg{plane.place.ports.apiserver}"

    assert bridge not in _links()
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{bridge}"))
    assert str(directory) not in Path("/proc/mounts").read_text()
    assert not (directory / "plane").exists()
    assert [entry for entry in Path("/proc").glob("[0-9]*") if _belongs(entry, directory, bridge)] == []


def _links() -> str:
    return subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, timeout=30)


def _belongs(entry: Path, directory: Path, bridge: str) -> bool:
    try:
        told = (entry / "cmdline").read_bytes() + (entry / "cgroup").read_bytes()
    except OSError:
        return False
    return f"{directory}/".encode() in told or bridge.encode() in told


@pytest.fixture(scope="module")
def real(small: ControlPlane) -> CloudNode:
    if obstacle := realnode.obstacle():
        pytest.skip(f"no real node: {obstacle}")
    return cloudnode.join(small, Kind.REAL)


def test_jobs_run_on_a_real_node(small: ControlPlane, real: CloudNode) -> None:
    small.apply(job("good", "echo said by $(hostname); echo again >&2"), job("bad", "exit 7"), user="ada")

    await_true(lambda: condition(small, "good") == "Complete", "the Job is complete")
    await_true(lambda: condition(small, "bad") == "Failed", "the Job has failed")

    pods = {pod["metadata"]["labels"]["job-name"]: pod for pod in small.get("pods", user="ada")["items"]}
    assert real.real
    assert {pod["spec"]["nodeName"] for pod in pods.values()} == {real.name}
    assert pods["bad"]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
    lines = small.kubectl("logs", "job/good", user="ada").stdout.splitlines()
    assert sorted(lines) == ["again", f"said by {pods['good']['metadata']['name']}"]


def test_a_running_job_is_followed_and_deleted(small: ControlPlane, real: CloudNode) -> None:
    small.apply(job("long", "echo started; sleep 600"), user="ada")

    await_true(lambda: small.run_kubectl("logs", "job/long", user="ada").stdout == "started\n", "its log is there")
    assert small.kubectl("exec", "job/long", "--", "pidof", "sleep", user="ada").stdout
    small.kubectl("delete", "job", "long", user="ada")

    await_true(lambda: not small.get("pods", "-l", "job-name=long")["items"], "its Pod is gone")


HARMFUL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "hostPath": ({"volumes": [{"name": "v", "hostPath": {"path": "/tmp"}}]}, {}),
    "hostNetwork": ({"hostNetwork": True}, {}),
    "hostPID": ({"hostPID": True}, {}),
    "hostIPC": ({"hostIPC": True}, {}),
    "privileged": ({}, {"securityContext": {"privileged": True}}),
    "capabilities.add": ({}, {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}),
}


@pytest.mark.parametrize("field", HARMFUL)
def test_a_job_does_not_reach_the_machine(small: ControlPlane, real: CloudNode, field: str) -> None:
    name = f"harmful-{field.lower().replace('.', '-')}"
    harmful = job(name, "touch /v/written")
    pod, container = HARMFUL[field]
    harmful["spec"]["template"]["spec"] |= pod
    harmful["spec"]["template"]["spec"]["containers"][0] |= container
    small.apply(harmful, user="ada")

    def events() -> list[str]:
        found = small.get("events", "--field-selector", f"involvedObject.name={name}")["items"]
        return [event["message"] for event in found]

    await_true(lambda: bool(events()), "its Pod is refused")

    assert all(f"{field} {confining.SENTENCE}" in event for event in events())
    assert small.get("pods", "-l", f"job-name={name}")["items"] == []


def test_the_address_that_pods_know_of_the_node_outlives_other_pods(small: ControlPlane, real: CloudNode) -> None:
    """A bridge takes over the lowest address of its ports. Its Pods would ask for the new one half a minute later."""
    bridge, port = f"bg{small.place.ports.apiserver}", f"bp{small.place.ports.apiserver}"
    place = Path("/sys/class/net") / bridge / "address"
    before = place.read_text()

    _ip("link", "add", port, "address", "02:00:00:00:00:01", "type", "veth")
    try:
        _ip("link", "set", port, "master", bridge)
        assert place.read_text() == before
    finally:
        _ip("link", "delete", port)


def test_the_small_plane_has_what_it_must_not_leave(small: ControlPlane, real: CloudNode) -> None:
    """What the fixture looks for in the end is there while it runs, and a Job runs on to the end."""
    small.apply(job("left", "sleep 600"))
    await_true(lambda: bool(small.get("job", "left").get("status", {}).get("ready")), "it runs")
    bridge = f"bg{small.place.ports.apiserver}"

    assert bridge in _links()
    assert list(Path("/sys/fs/cgroup").glob(f"**/{bridge}"))
    assert [entry for entry in Path("/proc").glob("[0-9]*") if _belongs(entry, small.directory, bridge)]


def test_a_plain_node_stays_ready_and_runs_nothing(small: ControlPlane) -> None:
    node = cloudnode.join(small, Kind.PLAIN, name="cloud-2")
    waits = job("waits", "true")
    waits["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "cloud-2"}
    small.apply(waits, user="ada")

    def pods() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = small.get("pods", "-l", "job-name=waits")["items"]
        return found

    await_true(lambda: bool(pods()) and pods()[0]["spec"].get("nodeName") == "cloud-2", "its Pod is bound")
    renewed = _renewed(small)
    await_true(lambda: _renewed(small) != renewed, "the heartbeat goes on")
    assert (node.real, node.obstacle) == (False, "a plain Node object was asked for")
    assert realnode.is_ready(small, node.name)
    assert condition(small, "waits") == ""

    # Without a heartbeat a node of this plane is not ready after 6 seconds.
    node.component.end()
    await_true(lambda: not realnode.is_ready(small, node.name), "it is found not ready")


def _renewed(plane: ControlPlane) -> str:
    return str(plane.get("lease", "-n", "kube-node-lease", "cloud-2")["spec"]["renewTime"])


def test_what_is_asked_for_and_cannot_be_had_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(realnode, "obstacle", lambda: "only root can run a kubelet")

    with pytest.raises(ConfigError, match="no real node: only root can run a kubelet"):
        cloudnode.join(None, Kind.REAL)  # type: ignore[arg-type]


def test_an_image_needs_a_static_busybox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path: None)

    with pytest.raises(ConfigError, match="busybox-static"):
        image.busybox()
