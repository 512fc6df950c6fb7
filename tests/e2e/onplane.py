"""The same comparison without kind: the control plane with its real node, and all programs as processes of this machine."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from router import names
from router.controlplane import cloudnode, confining, realnode
from router.controlplane.installing import MANIFESTS
from router.controlplane.plane import ControlPlane
from router.controlplane.start import control_plane
from router.demo import stack as demo
from router.demo.site import SITES
from tests.e2e import site


@dataclass(frozen=True)
class OnPlane:
    """A control plane as its admin sees it."""

    plane: ControlPlane
    agent: str = names.AGENT_ACCOUNT
    """The account of the site's agent."""

    def kubectl(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return self.plane.run_kubectl(*words, stdin=stdin)

    def ok(self, *words: str, stdin: str = "") -> str:
        """The output of a command that must succeed."""
        done = self.kubectl(*words, stdin=stdin)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout


@contextlib.contextmanager
def running(folder: Path, places: tuple[str, str]) -> Iterator[OnPlane]:
    """Everything, with a namespace whose Jobs stay in the cloud and one whose Jobs are judged; all of it ends with the block."""
    archives = site.archives(folder)
    policy = folder / "policy"
    policy.mkdir()
    (policy / SITES).write_text(site.policy(site.sifs(*archives), folder / "work"))
    with contextlib.ExitStack() as held:
        plane = held.enter_context(control_plane(folder / "plane"))
        node = realnode.start(plane, cloudnode.NAME, cloudnode.IMAGES, archives)
        confining.confine(plane, node)
        for place in places:
            plane.kubectl("create", "namespace", place)
        queue = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="batchgate-e2e-")))
        held.enter_context(site.message_file())
        where = demo.Places(
            folder / "programs", queue, policy, places[1:], {"--cycle-seconds": "3s", "--quick-seconds": "1s"}
        )
        held.enter_context(demo.stack(plane, where))
        plane.kubectl("apply", "-k", str(MANIFESTS / "secrets"))
        yield OnPlane(plane)
