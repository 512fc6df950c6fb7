"""A site for which every Job of the cluster is: the embedded queue and Apptainer on this machine, its agent as a process.

The agent is in the cluster's network namespace, so that the API server reaches it; its files and programs are this machine's.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from kindcluster import cluster, provider
from router.controlplane import image
from router.joining import joinfile
from tests.agent.whole.waiting import until
from tests.together.installed import Installed

SITE: Final = "e2e"
QUEUE: Final = "batch"
AGENT: Final = "batchgate-agent-e2e"
"""The account that ``site add`` makes."""
SUITE: Final = tuple(
    f"registry.k8s.io/e2e-test-images/{name}" for name in ("agnhost:2.63.0", "busybox:1.37.0-1", "busybox:1.36.1-1")
)
"""Images of the suite. All are busybox here: its texts need ``[[`` and ``$RANDOM``, and some run on the cloud node."""
PAUSE: Final = "registry.k8s.io/pause:3.10.2"
_PORT: Final = 10350
_METRICS: Final = 8181
_AGAIN: Final = """
trap 'kill "$pid"; wait; exit' TERM
while :; do "$@" & pid=$!; wait "$pid"; sleep 1; done
"""
"""As a unit does: an agent that has lost the lead, as the API server did not answer in time, ends and is started again."""
_NODES: Final = {"nodes": 8, "cpusPerNode": 16}


@dataclass(frozen=True)
class Images:
    """What containers are made of, as SIF files."""

    busybox: Path
    pause: Path


def images(installed: Installed, folder: Path) -> Images:
    """Make the images, and bring those of the suite to the cloud node under the suite's names."""
    made = archives(folder)
    cluster.load(installed.layout, installed.provider, list(made), print)
    return sifs(*made)


def archives(folder: Path) -> tuple[Path, Path]:
    """The images of the suite, and the one that pauses, as archives."""
    suite, pause = folder / "suite.tar", folder / "pause.tar"
    layer = folder / "busybox.layer"
    image.write_busybox_layer(layer, image.busybox())
    image.write_images(suite, [image.Image(SUITE, layer, command=("sh",))])
    image.write_images(pause, [image.Image((PAUSE,), layer, command=("sleep", "2147483647"))])
    return suite, pause


def sifs(suite: Path, pause: Path) -> Images:
    """The same for Apptainer."""
    return Images(_sif(suite), _sif(pause))


def _sif(archive: Path) -> Path:
    made = archive.with_suffix(".sif")
    _run(["apptainer", "--quiet", "build", "--force", str(made), f"docker-archive://{archive}"])
    return made


def policy(made: Images, work: Path) -> str:
    """Every Job goes to HPC, whoever creates it, as this machine's root, who alone uses the embedded queue."""
    site = {
        "name": SITE,
        "system": "local",
        "runtime": "apptainer",
        "workDir": str(work),
        "margin": "5s",
        "secrets": "stage",
        "images": [{"match": "registry.k8s.io/pause:*", "path": str(made.pause)}, {"match": "*", "path": str(made.busybox)}],
        "queues": [{"name": QUEUE, **_NODES, "memoryPerNode": "64Gi", "walltimeDefault": "30m", "walltimeMax": "4h"}],
    }  # fmt: skip
    everybody = {"groups": ["system:authenticated"], "as": "root", "shared": True}
    # The suite asks why a Job failed at its deadline: only a deadline that counts from the creation is the Job controller's own.
    rule = {"name": "all", "hpc": [{"queue": QUEUE}], "defaults": {"cpus": 1, "memory": "64Mi"}, "deadline": "total"}
    return str(yaml.safe_dump({"sites": [site], "accounts": [everybody], "rules": [rule]}))


def values(text: str) -> dict[str, Any]:
    """Of the chart: Jobs of all namespaces are judged, as the suite makes its own."""
    return {
        "image": {"repository": "localhost/batchgate", "pullPolicy": "Never"},
        "policies": {"all.yaml": text},
        "registration": {"namespaces": "opt-out"},
        "secrets": {"enabled": True},
    }


@contextlib.contextmanager
def message_file() -> Iterator[None]:
    """The file on which programs' last words are bound, as an admin makes it on nodes (docs/script.md)."""
    file = Path("/dev/termination-log")
    made = not file.exists()
    file.touch()
    try:
        yield
    finally:
        if made:
            file.unlink()


@contextlib.contextmanager
def agent(installed: Installed, text: str, folder: Path) -> Iterator[None]:
    """Add the site, and run its agent with the embedded queue; at the end both are gone."""
    gateway, server = _addresses(installed)
    folder.joinpath("policy").mkdir()
    folder.joinpath("policy", "all.yaml").write_text(text)
    kubeconfig, keys = _join(installed, server, folder)
    queue = {"name": QUEUE, **_NODES, "memory": 64 << 30, "walltimeDefault": 1800, "walltimeMax": 14400}
    environment = {**os.environ, "BATCHGATE_LOCAL": str(folder / "queue")}
    local = [sys.executable, "-m", "router.local"]
    _run([*local, "queues", "--define", "-"], json.dumps({"queues": [queue]}), environment)
    options = {
        "--site": SITE,
        "--policy": folder / "policy",
        "--public-key": keys,
        "--kubeconfig": kubeconfig,
        "--listen": f"{gateway}:{_PORT}",
        "--address": gateway,
        "--metrics": f"{gateway}:{_METRICS}",
        "--cycle-seconds": "3s",
        "--quick-seconds": "1s",
        "--log-format": "text",
    }
    inside = provider.inside(installed.layout, installed.provider)
    words = [str(word) for pair in options.items() for word in pair]
    argv = [*inside, "sh", "-c", _AGAIN, "sh", sys.executable, "-m", "router", "agent", "--self-signed", *words]
    with (folder / "agent.log").open("wb") as log:
        process = subprocess.Popen(argv, env=environment, stdout=log, stderr=log)
    try:
        until(lambda: _ready(installed), what=f"for the virtual node; see {folder / 'agent.log'}")
        yield
    finally:
        process.terminate()
        process.wait(120)
        _run([*local, "stop", "--delete"], environment=environment)
        installed.kubectl("delete", "nodes", "-l", f"batchgate.dev/site={SITE}")
        installed.batchgate("site", "remove", SITE)


def _ready(installed: Installed) -> bool:
    words = ("wait", "--for=condition=Ready", "nodes", "-l", f"batchgate.dev/site={SITE}", "--timeout=1s")
    return installed.kubectl(*words).returncode == 0


def _addresses(installed: Installed) -> tuple[str, str]:
    """Of the network namespace's end of the nodes' network, and of the API server."""
    (node,) = json.loads(installed.ok("get", "nodes", "-l", "node-role.kubernetes.io/control-plane", "-o", "json"))[
        "items"
    ]
    address = next(one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP")
    inside = provider.inside(installed.layout, installed.provider)
    found = json.loads(_run([*inside, "ip", "-json", "route", "get", address]))
    return str(found[0]["prefsrc"]), f"https://{address}:6443"


def _join(installed: Installed, server: str, folder: Path) -> tuple[Path, Path]:
    """What the agent needs: a kubeconfig of the site's account, and the keys that verify signatures."""
    file, keys, kubeconfig = folder / "join", folder / "keys.pub", folder / "kubeconfig"
    added = installed.batchgate("site", "add", SITE, "--server", server, "--output", str(file))
    assert added.returncode == 0, added.stderr
    join = joinfile.parse(file.read_text(), str(file))
    keys.write_text(join.public_keys)
    token = installed.ok("-n", join.namespace, "create", "token", AGENT, "--duration", "8h").strip()
    authority = base64.b64encode(join.ca.encode()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kind", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": AGENT, "user": {"token": token}}],
        "contexts": [{"name": "kind", "context": {"cluster": "kind", "user": AGENT}}],
        "current-context": "kind",
    }
    kubeconfig.touch(0o600)
    kubeconfig.write_text(json.dumps(document))
    return kubeconfig, keys


def _run(argv: list[str], stdin: str = "", environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(argv, input=stdin, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
    return done.stdout
