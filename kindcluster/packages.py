"""Installs the Debian packages that kind without Docker needs.

Shell: runs apt-get through ``bed.packages``, if a package is missing.
"""

from __future__ import annotations

from typing import Final

from bed import packages
from bed.layout import Layout as Apt
from kindcluster.commands import Tell, step
from kindcluster.layout import Layout

NAMES: Final = (
    *("podman", "runc", "containernetworking-plugins", "iptables", "iproute2", "procps", "util-linux"),
    *("mmdebstrap", "gcc", "libc6-dev", "busybox-static"),
)


def ensure(layout: Layout, tell: Tell) -> None:
    """Install missing packages. Raises bed.commands.BedError if apt fails; its output is in the state's ``log``."""
    if not packages.install_needed(NAMES):
        return
    apt = Apt(state=layout.state)
    apt.logs.mkdir(parents=True, exist_ok=True)
    with step(tell, f"Installing packages: {' '.join(NAMES)}."):
        packages.update(apt)
        packages.install(apt, NAMES)
