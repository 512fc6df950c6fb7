"""Batchgate on the kind cluster in front of the bed: the release, an admin's commands, a user's, and Jobs."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from bed.layout import OPERATOR, USERS
from kindcluster import cluster, provider
from kindcluster.installing import CHART
from kindcluster.layout import Layout
from kindcluster.provider import Provider
from router.controlplane import programs
from router.names import SYSTEM_NAMESPACE
from tests.agent.bed.site import LAYOUT as BED
from tests.agent.bed.site import NODES, QUEUE
from tests.together.road import Road

SITE, LOGIN = "hpc", "login"
"""One Slurm as two sites: reached over ssh by an agent in the cluster, and by an agent of its login node with sudo."""
NAMESPACE: Final = "together"
USER: Final = "ada"
DEPLOYMENT: Final = f"deployment/batchgate-agent-{SITE}"
ACCOUNT: Final = USERS[0]
"""Of ada, on the bed."""
_SECONDS: Final = 300.0


def policy(road: Road) -> dict[str, Any]:
    """Both sites, ada's account, and a label by which Jobs choose the login node's agent."""
    both = {
        "system": "slurm",
        "runtime": "apptainer",
        "images": [{"match": "*", "path": str(BED.image)}],
        "margin": "5s",
        "fsDelay": "5s",
        "mpi": [{"name": "open-mpi", "launcher": "openmpi", "env": {"OMPI_MCA_btl_tcp_if_include": "lo"}}],
        "queues": [{"name": QUEUE, **NODES}],
    }
    keys = {"keys": "/etc/batchgate/keys", "knownHosts": "/etc/batchgate/known-hosts/known_hosts"}
    work = str(BED.work / "{user}")
    far = {
        "name": SITE,
        "host": f"ssh://{road.host}",
        "access": "own-keys",
        "observer": OPERATOR,
        "workDir": work,
        **keys,
    }
    near = {"name": LOGIN, "access": "sudo", "workDir": f"{work}/login"}
    return {
        "sites": [far | both | {"resultsDir": "/results"}, near | both],
        "accounts": [{"users": [USER], "site": site, "as": ACCOUNT} for site in (SITE, LOGIN)],
        "rules": [
            {"name": "near", "when": "'near' in job.labels", "hpc": [{"site": LOGIN, "queue": QUEUE}]},
            {"name": "far", "hpc": [{"site": SITE, "queue": QUEUE}]},
        ],
    }


def values(road: Road, address: str) -> dict[str, Any]:
    """Of the chart.

    :param address: of the login node's agent, whose request for a certificate the approver is to take
    """
    ssh = {"keysSecret": "hpc-keys", "knownHostsConfigMap": "hpc-known-hosts"}
    return {
        "image": {"repository": "localhost/batchgate", "pullPolicy": "Never"},
        "policies": {"all.yaml": yaml.safe_dump(policy(road))},
        "agents": [{"site": SITE, "ssh": ssh, "resultsClaim": "hpc-results"}],
        "approver": {"enabled": True, "addresses": [address]},
    }


def beside(road: Road) -> list[dict[str, Any]]:
    """What an admin makes before: keys, known hosts, a volume for results, a namespace where ada may work."""
    keys = {name: (BED.keys / name).read_bytes() for name in (*USERS, OPERATOR)}
    ours = {"namespace": SYSTEM_NAMESPACE}
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "by-hand"}
    claim = {"resources": {"requests": volume["capacity"]}, "volumeName": "hpc-results"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    return [
        _object("Namespace", {"name": NAMESPACE, "labels": {"batchgate.dev/gate": "enabled"}}),
        _object(
            "RoleBinding",
            {"name": USER, "namespace": NAMESPACE},
            "rbac.authorization.k8s.io/v1",
            roleRef=role,
            subjects=[{"apiGroup": role["apiGroup"], "kind": "User", "name": USER}],
        ),
        _object("Secret", {"name": "hpc-keys", **ours}, data={name: base64.b64encode(key).decode() for name, key in keys.items()}),
        _object("ConfigMap", {"name": "hpc-known-hosts", **ours}, data={"known_hosts": road.known_hosts}),
        _object("PersistentVolume", {"name": "hpc-results"}, spec=volume | {"hostPath": {"path": "/tmp"}}),  # all may write there
        _object("PersistentVolumeClaim", {"name": "hpc-results", **ours}, spec=_without(volume, "capacity") | claim),
    ]  # fmt: skip


def _object(kind: str, metadata: Mapping[str, Any], version: str = "v1", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": dict(metadata), **fields}


def _without(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != key}


@dataclass(frozen=True)
class Installed:
    """The release, and the cluster that it is in."""

    layout: Layout
    provider: Provider

    def kubectl(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """As the cluster's admin."""
        return _run(cluster.kubectl(self.layout, self.provider, words), stdin)

    def ok(self, *words: str, stdin: str = "") -> str:
        """The output of a command that must succeed."""
        done = self.kubectl(*words, stdin=stdin)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout

    def ada(self, *words: str, stdin: str = "") -> str:
        """The same, as ada in her namespace."""
        return self.ok("--as", USER, "--namespace", NAMESPACE, *words, stdin=stdin)

    def batchgate(self, *words: str) -> subprocess.CompletedProcess[str]:
        """As the cluster's admin."""
        inside = provider.inside(self.layout, self.provider)
        return _run([*inside, "env", f"KUBECONFIG={self.layout.kubeconfig}", sys.executable, "-m", "router", *words])

    def upgrade(self, wanted: Mapping[str, Any], file: Path) -> None:
        """``helm upgrade`` of the release to these values alone."""
        file.write_text(yaml.safe_dump(dict(wanted)))
        argv = provider.helm(self.layout, self.provider, programs.find_helm(), CHART, file, {})
        done = _run([*argv, "--reset-values"])
        assert done.returncode == 0, done.stderr

    def pod(self, job: str) -> dict[str, Any]:
        """The one Pod of a Job of ada's."""
        (found,) = json.loads(self.ada("get", "pods", "-l", f"job-name={job}", "-o", "json"))["items"]
        return dict(found)

    def wait(self, job: str, condition: str = "complete") -> None:
        self.ada("wait", f"--for=condition={condition}", f"job/{job}", "--timeout=150s")


def job(name: str, *command: str, near: bool = False, cpus: int = 2, nodes: int = 1, **container: Any) -> str:
    """A Job as JSON. Its files below ``out`` are results; the ConfigMap ``words`` is there as WORD and as a file."""
    main = {
        "name": "main",
        "image": "any/image:1",
        "workingDir": "/work",
        "command": list(command),
        "env": [{"name": "WORD", "valueFrom": {"configMapKeyRef": {"name": "words", "key": "word"}}}],
        "resources": {"requests": {"cpu": str(cpus), "memory": f"{cpus * 160}Mi"}},
        "volumeMounts": [{"name": "work", "mountPath": "/work"}, {"name": "words", "mountPath": "/words"}],
        **container,
    }
    volumes = [{"name": "work", "emptyDir": {}}, {"name": "words", "configMap": {"name": "words"}}]
    template = {"spec": {"restartPolicy": "Never", "containers": [main], "volumes": volumes}}
    annotations = {"batchgate.dev/results": "out/*"} | ({"batchgate.dev/nodes": str(nodes)} if nodes > 1 else {})
    metadata = {"name": name, "labels": {"near": "yes"} if near else {}, "annotations": annotations}
    spec = {"backoffLimit": 0, "template": template}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})


def _run(argv: list[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=_SECONDS, check=False)
