"""A cluster, and an admin who types the commands of ``docs/install.md`` into a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from router import names
from router.controlplane import programs, realnode
from router.controlplane.plane import ControlPlane
from tests.chart.rendering import ROOT
from tests.deployed import clusters
from tests.policies import LARGE_GO_TO_HPC

IMAGE = "batchgate.test/batchgate"
TAG = "1"
PAGE = ROOT / "docs" / "install.md"
POLICY = LARGE_GO_TO_HPC.replace("ssh://login", "ssh://192.0.2.1").replace(
    "batchgate/known_", "batchgate/known-hosts/known_"
)
VALUES: dict[str, Any] = {
    "image": {"repository": IMAGE, "tag": TAG, "pullPolicy": "Never"},
    "agents": [
        {"site": "demo", "ssh": {"keysSecret": "hpc-keys", "knownHostsConfigMap": "hpc-known-hosts"}},
    ],
}


@dataclass(frozen=True)
class Admin:
    """The control plane, and the folder in which the admin types."""

    plane: ControlPlane
    folder: Path

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run one line as a shell does."""
        places = [Path(sys.executable).parent, self.plane.programs.kubectl.parent, programs.find_helm().parent]
        path = ":".join([*map(str, places), os.environ["PATH"]])
        home = {f"HELM_{name}_HOME": str(self.folder / "helm" / name) for name in ("CONFIG", "CACHE", "DATA")}
        environment = {**self.plane.environment(), **home, "PATH": path}
        return subprocess.run(
            ["bash", "-c", line], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )

    def type(self, line: str) -> str:
        """Run one line, which succeeds; what it printed."""
        done = self.run(line)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}{self.told()}"
        return done.stdout

    def told(self) -> str:
        """What helps where something went wrong: the Pods, and what they say."""
        system = f"--namespace={names.SYSTEM_NAMESPACE}"
        words = [("get", "pods", "-o", "wide"), ("get", "events", "--sort-by=.lastTimestamp")]
        words += [("logs", "--tail=40", "--prefix", "--timestamps", "-l", f"app.kubernetes.io/name=batchgate-{one}")
                  for one in ("webhook", "agent", "certs", "rotation", "uninstall")]  # fmt: skip
        return "".join(self.plane.run_kubectl(*one, system).stdout for one in words)

    def values(self, more: dict[str, Any]) -> None:
        """Have these values in values.yaml, beside those that are always there."""
        (self.folder / "values.yaml").write_text(yaml.safe_dump(VALUES | more))


@pytest.fixture(scope="package")
def admin(control_plane_programs: programs.Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    """Before anything is installed, with what `docs/install.md` says to have ready."""
    if obstacle := realnode.obstacle():
        pytest.skip(f"no real node: {obstacle}")
    folder = tmp_path_factory.mktemp("admin")
    (folder / "charts").symlink_to(ROOT / "charts")
    (folder / "policies").mkdir()
    (folder / "policies" / "all.yaml").write_text(POLICY)
    (folder / "keys").mkdir()
    (folder / "keys" / "ada").write_text("a key\n")
    (folder / "known_hosts").write_text("192.0.2.1 ssh-ed25519 AAAA\n")
    directory = tmp_path_factory.mktemp("chart")
    with clusters.with_node(directory, f"{IMAGE}:{TAG}") as plane:
        plane.make_namespaces({"physics": ("researchers",)})
        found = Admin(plane, folder)
        found.values({})
        yield found
