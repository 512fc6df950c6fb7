"""Batchgate is put on a real API server and taken off again: what was there before is there after, and no more."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

from router import names
from router.controlplane import installing, programs
from router.controlplane.plane import ControlPlane
from router.controlplane.start import control_plane
from tests.processes import started
from tests.webhook.servers import ROOT, until

SYSTEM = names.SYSTEM_NAMESPACE
NODE = "batch.demo.batchgate"
_PASSING = ("events", "endpoints", "endpointslices", "leases.kube-system", "componentstatuses")


def everything(plane: ControlPlane) -> set[str]:
    """Kind, namespace and name of each object, but for what the cluster itself makes and drops."""
    kinds = plane.kubectl("api-resources", "--verbs=list", "-o", "name").stdout.split()
    kept = ",".join(kind for kind in kinds if kind.partition(".")[0] not in _PASSING)
    found = json.loads(plane.kubectl("get", kept, "-A", "-o", "json").stdout)["items"]
    return {
        f"{one['kind']} {one['metadata'].get('namespace', '')}/{one['metadata']['name']}"
        for one in found
        if one["metadata"].get("namespace") != "kube-system"
    }


def batchgate(plane: ControlPlane, *words: str, kubeconfig: Path | None = None) -> tuple[int, str]:
    argv = [sys.executable, "-m", "router", *words, "--kubeconfig", str(kubeconfig or plane.kubeconfig())]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def node() -> dict[str, object]:
    labels = {"type": "virtual-kubelet", names.KEY_SITE: "demo", names.KEY_QUEUE: "batch"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE, "labels": labels},
        "spec": {"providerID": "batchgate://demo/batch"},
    }


def routed_pod() -> dict[str, object]:
    labels = {names.KEY_TARGET: names.TARGET_HPC}
    spec = {"nodeName": NODE, "containers": [{"name": "main", "image": "busybox:1.36"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "leaves", "labels": labels}, "spec": spec}


def test_what_was_there_before_is_there_after(control_plane_programs: programs.Programs, tmp_path: Path) -> None:
    with control_plane(tmp_path / "plane") as plane:
        before = until(lambda: everything(plane))
        installing.install(plane)
        for folder in ("certs", "webhook"):
            plane.kubectl("apply", "-k", str(installing.MANIFESTS / folder))
        assert batchgate(plane, "certs", "ensure")[0] == 0
        # cert-manager leaves the CA's Secret when its Certificate is deleted.
        plane.kubectl("create", "secret", "generic", names.WEBHOOK_ISSUER, "-n", SYSTEM)
        agent = installing.agent(plane)
        identity = agent.name.removesuffix(".yaml")
        plane.kubectl("create", "-f", "-", user=identity, stdin=json.dumps(node()))
        assert everything(plane) > before

        code, said = batchgate(plane, "uninstall", "--check")
        assert code == 0, said
        assert f"delete  Node {NODE}\n" in said
        assert said.endswith("Nothing was done (--check).\n")

        code, said = batchgate(plane, "uninstall", "--yes")
        assert code == 0, said
        assert "helm uninstall batchgate" in said
        for folder in ("webhook", "certs"):
            plane.kubectl("delete", "-k", str(installing.MANIFESTS / folder), "--ignore-not-found")
        code, said = batchgate(plane, "uninstall", "--yes")
        assert code == 0, said
        for name in (names.WEBHOOK_CA, names.WEBHOOK_ISSUER):
            assert f"delete  {name}\n" in said
        plane.kubectl("delete", "-k", str(installing.MANIFESTS / "base"), "--ignore-not-found")

        assert until(lambda: everything(plane) == before or None), everything(plane) ^ before


def test_a_pod_that_is_deleted_is_waited_for(control_plane_programs: programs.Programs, tmp_path: Path) -> None:
    with control_plane(tmp_path / "plane") as plane:
        plane.kubectl("create", "-f", "-", stdin=json.dumps(node()))
        until(lambda: plane.kubectl("get", "serviceaccount", "default", "--ignore-not-found").stdout)
        plane.kubectl("create", "-f", "-", stdin=json.dumps(routed_pod()))
        plane.kubectl("delete", "pod", "leaves", "--wait=false")
        refused = batchgate(plane, "uninstall", "--yes", "--wait=2s")
        waits = "Waiting at most {} for what is deleted: Pod default/leaves\n"
        assert refused[0] == 1
        assert waits.format("2s") in refused[1]
        assert "Error: deleted, but not ended yet: Pod default/leaves. Their agent ends them" in refused[1]

        words = ("uninstall", "--yes", "--wait=1m", "--kubeconfig", str(plane.kubeconfig()))
        argv = [sys.executable, "-m", "router", *words]
        with started(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as waiting:
            assert waiting.stdout is not None
            said = [*takewhile(lambda line: line != waits.format("1m"), waiting.stdout)]
            plane.kubectl("delete", "pod", "leaves", "--force", "--grace-period=0")
            said += waiting.stdout
            waiting.wait(60)
        assert waiting.returncode == 0, said
        assert f"delete  Node {NODE}\n" in said
