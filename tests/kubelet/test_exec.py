"""kubectl exec, cp and attach through a real API server into real containers that a script started."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from router.demo import sandbox
from router.host import inside
from router.kubelet.runs import LoggedContainer, LoggedPod, RunState
from tests.kubelet.cluster import Cluster
from tests.script.builders import IMAGE, container, site, text_of, workload
from tests.script.running import Pod, wait_for

pytestmark = [
    pytest.mark.apptainer,
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer on this machine"),
]
PROGRAM = (sys.executable, "-I", inside.__file__)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("image") / "sandbox"
    sandbox.build(path)
    sandbox._add_programs(path, ("tar", "stty", "tty", "sha256sum", "head"))
    return path


class Running:
    """A Pod of the cluster with a container that runs, as the script starts it."""

    def __init__(self, cluster: Cluster, namespace: str, pod: Pod) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.pod = pod

    def kubectl(self, *words: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
        done = subprocess.run(
            [str(self.cluster.plane.programs.kubectl), *words, "-n", self.namespace],
            env=self.cluster.plane.environment("ada"), input=stdin, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr.decode()

    def exec(self, *words: str, options: tuple[str, ...] = (), stdin: bytes = b"") -> tuple[int, bytes, str]:
        done = subprocess.run(
            [str(self.cluster.plane.programs.kubectl), "exec", "-n", self.namespace, *options, "work", "--", *words],
            env=self.cluster.plane.environment("ada"), input=stdin, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr.decode()


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    made = Pod(tmp_path).make()
    yield made
    made.close()
    wait_for(lambda: not made.alive(), f"for the end of {made.alive()}")


@pytest.fixture
def running(cluster: Cluster, namespace: str, pod: Pod, image: Path) -> Iterator[Running]:
    known = cluster.pod(namespace, "work", LoggedContainer("main", RunState.RUNNING, 0))
    status = {"phase": "Running", "conditions": [], "containerStatuses": []}
    cluster.api.patch(f"/api/v1/namespaces/{namespace}/pods/work/status", {"status": status})
    spec = container("/bin/sh", "-c", "echo begun; while :; do sleep 1; done", env=[{"name": "FOO", "value": "a b"}])
    pod.start(text_of(workload(spec), site(images=[{"match": IMAGE, "path": str(image)}])))
    pod.awaits_log("begun")
    cluster.site.known[namespace, "work"] = replace(known, directory=_directory(pod, known))
    cluster.site.entrance, cluster.site.contained = PROGRAM, True
    yield Running(cluster, namespace, pod)
    cluster.site.entrance = None


def _directory(pod: Pod, known: LoggedPod) -> object:
    return replace(known.directory, work_dir=str(pod.work), job_uid="job-uid", pod_uid="pod-uid")


def test_a_command_runs_in_the_container(running: Running) -> None:
    assert running.exec("sh", "-c", 'echo "$FOO" in $PWD; echo wrong >&2; exit 7') == (
        7,
        b"a b in /\n",
        "wrong\ncommand terminated with exit code 7\n",
    )
