"""The webhook as its Deployment, on a real node of a real control plane, installed as ``manifests/README.md`` says."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from router import names
from router.controlplane import installing, realnode
from router.controlplane.plane import ControlPlane
from router.controlplane.programs import Programs
from tests.deployed import clusters
from tests.policies import LARGE_GO_TO_HPC

README = installing.MANIFESTS / "README.md"
OPERATING = installing.MANIFESTS.parent / "docs" / "operating.md"
KUBERNETES = "/etc/kubernetes/pki"
IMAGE = "batchgate.test/webhook:1"


@dataclass(frozen=True)
class Deployed:
    """The control plane, and the folder in which the admin has typed what the README says."""

    plane: ControlPlane
    folder: Path

    def type(self, line: str) -> str:
        """Run one line as a shell does; what it printed."""
        path = f"{Path(sys.executable).parent}:{self.plane.programs.kubectl.parent}:{os.environ['PATH']}"
        environment = {**self.plane.environment(), "PATH": path}
        done = subprocess.run(
            ["bash", "-c", line], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}{self.told()}"
        return done.stdout

    def told(self) -> str:
        """What helps where something went wrong: the Pods, and what they say."""
        system = f"--namespace={names.SYSTEM_NAMESPACE}"
        words = (
            ("get", "pods", "-o", "wide"),
            ("get", "events"),
            ("logs", "-l", "app.kubernetes.io/part-of=batchgate"),
        )
        return "".join(self.plane.run_kubectl(*one, system).stdout for one in words)


def blocks(page: Path, language: str, head: str) -> list[str]:
    """The blocks of a language in the part of a page below a heading."""
    text = page.read_text().partition(f"\n## {head}\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def written(page: Path, head: str) -> dict[str, str]:
    """The files that such a part shows: each names itself in a comment, up to a colon or comma."""
    found = {}
    for text in blocks(page, "yaml", head):
        match = re.match(r"# ([^\s:,]+)(.*)", text)
        assert match, text
        found[match[1] + match[2]] = text
    return found


def write_admission(directory: Path) -> Path:
    """The API server's files of docs/operating.md, for a plane in this directory whose certificates lie elsewhere."""
    folder = directory / "admission"
    folder.mkdir()
    for named, text in written(OPERATING, "Who may connect").items():
        if named.startswith(KUBERNETES):
            moved = text.replace(f"{KUBERNETES}/batchgate", str(folder)).replace(KUBERNETES, f"{directory}/plane/pki")
            (folder / Path(named).name).write_text(moved)
    return folder / "admission.yaml"


@pytest.fixture(scope="package")
def cluster(control_plane_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The API server shows webhooks its client certificate."""
    if obstacle := realnode.obstacle():
        pytest.skip(f"no real node: {obstacle}")
    directory = tmp_path_factory.mktemp("deployed")
    admission = write_admission(directory)
    with clusters.with_node(directory, IMAGE, f"--admission-control-config-file={admission}") as plane:
        yield plane


@pytest.fixture(scope="package")
def deployed(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    """Installed, and asked about the Jobs of namespace physics."""
    folder = tmp_path_factory.mktemp("admin")
    (folder / "manifests").symlink_to(installing.MANIFESTS)
    (folder / "policies").mkdir()
    (folder / "policies" / "all.yaml").write_text(LARGE_GO_TO_HPC)
    found = Deployed(cluster, folder)
    (script,) = blocks(README, "sh", "Install")
    for line in script.splitlines():
        if "-k site/" in line:
            _write_overlays(folder)
        found.type(line)
    return found


def _write_overlays(folder: Path) -> None:
    """The README's overlays, with what it tells to fill in."""
    name, _, tag = IMAGE.rpartition(":")
    ca = base64.b64encode((folder / "certs" / "ca.crt").read_bytes()).decode()
    for named, text in written(README, "Install").items():
        path = folder / named.partition(":")[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        filled = text.replace("registry.example.org/batchgate", name).replace('"1"', f'"{tag}"')
        path.write_text(filled.replace("value: CA ", f"value: {ca} "))
