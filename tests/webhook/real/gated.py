"""Jobs in a namespace behind the webhook, by kubectl as a user has it."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from router import names
from router.controlplane.options import ADA
from router.controlplane.plane import ControlPlane
from tests.kube.wire import await_true

Json = dict[str, Any]
IMAGE = "busybox:1.36"


def container(*, cpu: str | None = "4", name: str = "main", **fields: Any) -> Json:
    """A container; without ``cpu`` it asks for nothing."""
    asked = {"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}} if cpu else {}
    return {"name": name, "image": IMAGE, "command": ["sh", "-c", "echo done"], **asked, **fields}


def job(
    name: str = "solve",
    *,
    pod: Json | None = None,
    template: Json | None = None,
    metadata: Json | None = None,
    **spec: Any,
) -> Json:
    """A Job that a rule sends to HPC, unless its ``pod`` says otherwise."""
    inner = {"restartPolicy": "Never", "containers": [container()], **(pod or {})}
    named = {} if metadata and "generateName" in metadata else {"name": name}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**named, **(metadata or {})},
        "spec": {"template": {**({"metadata": template} if template else {}), "spec": inner}, **spec},
    }


@dataclass(frozen=True)
class Gated:
    """A namespace that opted in. Commands run as ada unless said otherwise."""

    plane: ControlPlane
    namespace: str
    public_key: Path

    def run(self, *words: str, sent: Json | None = None, user: str = ADA.name) -> subprocess.CompletedProcess[str]:
        """kubectl in this namespace, whatever its exit code is."""
        stdin = "" if sent is None else json.dumps(sent)
        return self.plane.run_kubectl(*words, "-n", self.namespace, user=user, stdin=stdin)

    def done(self, *words: str, sent: Json | None = None, user: str = ADA.name) -> subprocess.CompletedProcess[str]:
        """The same, where it must succeed."""
        run = self.run(*words, sent=sent, user=user)
        assert run.returncode == 0, run.stderr
        return run

    def create(self, sent: Json, *words: str) -> Json:
        """``kubectl create``; the object as it was stored."""
        made: Json = json.loads(self.done("create", "-f", "-", "-o", "json", *words, sent=sent).stdout)
        return made

    def get(self, name: str = "solve", kind: str = "job") -> Json:
        found: Json = json.loads(self.done("get", kind, name, "-o", "json").stdout)
        return found

    def denied(self, sent: Json, *words: str) -> str:
        """The sentence with which it is refused."""
        run = self.run(*(words or ("create",)), "-f", "-", sent=sent)
        assert run.returncode == 1, run.stdout
        return run.stderr

    def pods(self, name: str = "solve") -> list[Json]:
        """The Pods that the Job controller made."""
        listed = json.loads(self.done("get", "pods", "-l", f"job-name={name}", "-o", "json").stdout)
        found: list[Json] = listed["items"]
        return found


def gated(plane: ControlPlane, namespace: str, public_key: Path) -> Gated:
    """Have a namespace opt in, and wait until the API server knows."""
    plane.kubectl("label", "namespace", namespace, f"{names.LABEL_GATE}={names.GATE_ENABLED}")
    found = Gated(plane, namespace, public_key)
    probe = job(f"probe-{time.monotonic_ns()}")
    await_true(lambda: target(found.create(probe, "--dry-run=server")) == names.TARGET_HPC, "the webhook is asked")
    return found


def target(stored: Json) -> str | None:
    """``hpc``, ``cloud``, or None where the webhook changed nothing."""
    found: str | None = stored["metadata"].get("labels", {}).get(names.KEY_TARGET)
    return found


def template_annotations(stored: Json) -> Json:
    """Those of the Pod template."""
    found: Json = stored["spec"]["template"]["metadata"].get("annotations", {})
    return found


def script(stored: Json) -> str:
    """The batch script of a routed Job."""
    return str(template_annotations(stored)[names.KEY_SCRIPT])


def warnings(run: subprocess.CompletedProcess[str]) -> list[str]:
    """What kubectl says that the webhook says."""
    lines = run.stderr.splitlines()
    return [line.removeprefix("Warning: ") for line in lines if line.startswith("Warning: ")]
