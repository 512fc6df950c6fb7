"""What a container of an unprivileged user may do, as on a site: it is not root, has no capabilities and gains none."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from router.demo import sandbox

pytestmark = [
    pytest.mark.apptainer,
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer on this machine"),
    pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user"),
]
USER = 1000


def test_a_container_has_no_privileges_and_gains_none() -> None:
    """So ``runAsNonRoot``, ``allowPrivilegeEscalation: false`` and dropped capabilities hold in any case."""
    with TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        sandbox.build(image := Path(place) / "image")
        become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
        words = ["apptainer", "--quiet", "exec", "--cleanenv", "--no-home", str(image), "/bin/sh", "-c"]
        done = subprocess.run(
            [*become, *words, "cat /proc/self/status"], capture_output=True, text=True, check=False, cwd="/"
        )

    assert done.returncode == 0, done.stderr
    status = dict(line.split(":\t", 1) for line in done.stdout.splitlines() if ":\t" in line)
    assert status["Uid"].split() == [str(USER)] * 4
    assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
