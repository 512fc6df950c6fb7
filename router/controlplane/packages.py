"""Installs the Debian packages that a real cloud node needs.

Shell: runs apt-get, only as root on Debian or a derivative, and only if a package is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable

from router.controlplane import realnode

_SECONDS = 600


def ensure(tell: Callable[[str], None]) -> None:
    """Install missing packages if possible; else ``tell`` why Jobs in the cloud will not run. Raises no error."""
    if os.geteuid() == 0 and realnode.lacking() and shutil.which("apt-get"):
        tell(f"Installing {' '.join(realnode.PACKAGES)} for a real node of the cloud.")
        problem = _install()
        if problem:
            tell(f"apt-get failed: {problem}")
    if obstacle := realnode.obstacle():
        tell(f"No real node of the cloud here ({obstacle}): Jobs that stay in the cloud are shown, and do not run.")


def _install() -> str:
    """Install the packages; returns the error, or empty. No package is removed, as another containerd may be in use."""
    words = ["install", "-y", "-qq", "--no-install-recommends", "--no-remove", *realnode.PACKAGES]
    said = _apt(words)
    if said:
        # The machine's list of packages may be missing or outdated.
        said = _apt(["update", "-qq"]) or _apt(words)
    return said


def _apt(words: list[str]) -> str:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            ["apt-get", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"apt-get {words[0]} has not ended within {_SECONDS} s"
    return done.stderr.strip() or f"exit code {done.returncode}" if done.returncode else ""
