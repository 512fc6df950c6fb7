"""A site for agents of a test's own: its policy, keys and queue, and what the real API server shows of it."""

from __future__ import annotations

import getpass
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from router import names
from router.kube.client import Api
from tests.local.queue import EmbeddedQueue
from tests.local.queue import until as until_soon

SECONDS = 90.0
"""A start takes two seconds where the machine has nothing else to do."""
NODES = "/api/v1/nodes"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{names.SYSTEM_NAMESPACE}/leases"


def until(observe: Any, holds: Any = bool) -> Any:
    """The first observation that holds."""
    return until_soon(observe, holds, seconds=SECONDS)


@dataclass
class AgentSite:
    """What an agent is told, on disk; ``api`` is the admin's, ``kubeconfig`` the agent's."""

    name: str
    root: Path
    queue: EmbeddedQueue
    api: Api
    kubeconfig: Path
    running: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        for directory in (self.root, self.policy):
            directory.mkdir()
        public = Ed25519PrivateKey.generate().public_key()
        self.public_key.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        self.write()

    @property
    def policy(self) -> Path:
        return self.root / "policy"

    @property
    def public_key(self) -> Path:
        return self.root / "signing.pub"

    @property
    def lease(self) -> str:
        return f"{LEASES}/batchgate-{self.name}"

    def write(self, *more: str, rule: str = "busy", name: str = "") -> None:
        """The policy: a site with the queue ``workq``, and more queues of the same kind."""
        queue = {"nodes": 1, "cpusPerNode": 4, "memoryPerNode": "4Gi", "walltimeMax": "1h"}
        site = {
            "name": name or self.name,
            "system": "local",
            "runtime": "host",
            "workDir": str(self.root / "work"),
            "queues": [{"name": one, **queue} for one in ("workq", *more)],
        }
        rules = [{"name": rule, "when": "job.cpus >= 2", "hpc": [{"queue": "workq"}]}, {"name": "rest", "cloud": True}]
        policy = {
            "sites": [site],
            "accounts": [{"users": ["ada"], "site": name or self.name, "as": getpass.getuser()}],
            "rules": rules,
        }
        new = self.root / "new"
        new.write_text(yaml.safe_dump(policy))
        new.replace(self.policy / "policy.yaml")

    def argv(self, identity: str = "agent", *, self_signed: bool = True, **changes: object) -> list[str]:
        """The command line of an agent."""
        options = {
            "site": self.name,
            "policy": self.policy,
            "public-key": self.public_key,
            "kubeconfig": self.kubeconfig,
            "identity": identity,
            "listen": "127.0.0.1:0",
            "metrics": "127.0.0.1:0",
            "address": "127.0.0.1",
            "lease-seconds": 15,
            "cycle-seconds": 1,
            "quick-seconds": 1,
            "local-state": self.queue.directory,
            **{key.replace("_", "-"): value for key, value in changes.items()},
        }
        given = {key: value for key, value in options.items() if value is not None}
        words = [str(word) for key, value in given.items() for word in (f"--{key}", value)]
        flags = ["--self-signed"] if self_signed else []
        return [sys.executable, "-m", "router", "agent", *flags, *words]

    def start(self, identity: str = "agent", *, self_signed: bool = True, **changes: object) -> Process:
        """A process of its own, which ends with the test."""
        argv = self.argv(identity, self_signed=self_signed, **changes)
        log = self.root / f"{identity}.{len(self.running)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=self.root)
        self.running.append(Process(process, log))
        return self.running[-1]

    def nodes(self) -> list[str]:
        """The queues whose Nodes there are."""
        site = f"{names.KEY_SITE}={self.name}"
        return sorted(
            one["metadata"]["labels"][names.KEY_QUEUE] for one in self.api.get(NODES, labelSelector=site)["items"]
        )

    def condition(self, kind: str) -> str:
        """A condition of the Node of ``workq``: True, False, or nothing."""
        node = self.api.find(f"{NODES}/{names.node_name(self.name, 'workq')}") or {}
        conditions = (node.get("status") or {}).get("conditions") or ()
        return next((str(one["status"]) for one in conditions if one["type"] == kind), "")

    def holder(self) -> str:
        """Who holds the site's Lease."""
        return str(((self.api.find(self.lease) or {}).get("spec") or {}).get("holderIdentity") or "")

    def clean(self) -> None:
        """Nothing is left of it in the cluster, and no process."""
        for one in self.running:
            one.kill()
        for queue in self.nodes():
            self.api.delete(f"{NODES}/{names.node_name(self.name, queue)}")
        if self.api.find(self.lease) is not None:
            self.api.delete(self.lease)


@dataclass
class Process:
    """An agent that was started."""

    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    def terminate(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.terminate()
        return self.process.wait(SECONDS)

    def ended(self) -> int:
        """The exit code, waited for."""
        return self.process.wait(SECONDS)

    def lines(self, message: str) -> list[dict[str, Any]]:
        """Its log lines with this message."""
        lines = self.log.read_text().rpartition("\n")[0].splitlines()  # the last one may be half written
        values = [json.loads(line) for line in lines if line.startswith("{")]
        return [value for value in values if value["message"] == message]

    def get(self, path: str) -> tuple[int, str]:
        """What it serves for probes and Prometheus: (0, "") while it serves nothing."""
        served = self.lines("metrics")
        if not served:
            return 0, ""
        try:
            with urllib.request.urlopen(f"http://{served[-1]['address']}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def ready(self) -> dict[str, Any]:
        """What ``/readyz`` says."""
        code, body = self.get("/readyz")
        return {"code": code, **(json.loads(body) if body else {})}

    def await_ready(self, *, leading: bool) -> None:
        until(self.ready, lambda said: said == {"code": 200, "ok": True, "leading": leading} or self._has_ended())
        assert not self._has_ended(), self.log.read_text()[-2000:]

    def _has_ended(self) -> bool:
        return self.process.poll() is not None


@contextmanager
def cleaned(site: AgentSite) -> Iterator[AgentSite]:
    """The site, of which nothing is left in the end."""
    try:
        yield site
    finally:
        site.clean()
