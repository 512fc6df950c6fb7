"""The way between the kind cluster and the bed: a pair of interfaces, and the bed's sshd on one of their addresses.

The cluster's network is a namespace from which nothing outside is reached, and the bed listens on loopback alone. A Pod
reaches the machine's end of the pair through its node, and the API server does. The machine reaches the node by a route.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kindcluster.layout import Layout
from tests.agent.bed.site import LAYOUT
from tests.agent.whole.waiting import until

HERE: Final = "10.213.0.1"
THERE: Final = "10.213.0.2"
"""The machine's end and the cluster's, in a network of their own."""
_LINK: Final = "bg-road"


@dataclass(frozen=True)
class Road:
    """``host``: the login node as the policy names it; ``known_hosts``: the file's text; ``server``: the API server's URL."""

    host: str
    known_hosts: str
    server: str


@contextmanager
def road(cluster: Layout, node: str) -> Iterator[Road]:
    """Make it; at the end it is gone.

    :param node: the address of the cluster's node
    """
    _do("ip", "link", "add", _LINK, "type", "veth", "peer", "name", f"{_LINK}-in", "netns", cluster.own)
    try:
        _do("ip", "address", "add", f"{HERE}/30", "dev", _LINK)
        _do("ip", "link", "set", _LINK, "up")
        inside = ("nsenter", f"--net={cluster.namespace}", "--", "ip")
        _do(*inside, "address", "add", f"{THERE}/30", "dev", f"{_LINK}-in")
        _do(*inside, "link", "set", f"{_LINK}-in", "up")
        _do("ip", "route", "add", f"{node}/32", "via", THERE)
        with _sshd():
            known = (LAYOUT.ssh / "known_hosts").read_text().replace("127.0.0.1", HERE)
            yield Road(f"{HERE}:{LAYOUT.ssh_port}", known, f"https://{node}:6443")
    finally:
        _do("ip", "link", "delete", _LINK)


@contextmanager
def _sshd() -> Iterator[None]:
    """The bed's sshd once more, with the same keys and accounts, on the pair's address."""
    with tempfile.TemporaryDirectory(prefix="bg-road-") as directory:
        file = Path(directory) / "sshd_config"
        text = (LAYOUT.ssh / "sshd_config").read_text()
        file.write_text(
            text.replace("ListenAddress 127.0.0.1", f"ListenAddress {HERE}").replace("sshd-own", "sshd-road")
        )
        log = (Path(directory) / "log").open("w")
        argv = ("unshare", "--uts", "sh", "-ec", 'hostname login1; exec /usr/sbin/sshd -D -e -f "$0"', str(file))
        with log, subprocess.Popen(argv, stderr=log) as sshd:
            try:
                until(lambda: "listening" in Path(log.name).read_text(), what="for sshd")
                yield
            finally:
                sshd.terminate()


def _do(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
