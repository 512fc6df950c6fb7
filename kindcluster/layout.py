"""Defines a cluster's name and its paths.

Pure: values.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).resolve().parents[1]
"""The checkout."""
MODULES: Final = Path(__file__).resolve().parent / "modules"
"""The Go modules that pin kind, CoreDNS and the programs of Kubernetes that only a node of kind needs."""
NODE_IMAGE: Final = "localhost/batchgate/node"
"""The name of the node image that is made here; its tag is its key."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The name and the paths of one cluster.

    :param name: the cluster's name in kind; part of the names of its network, network namespace and state
    :param files: what its user needs: kubeconfig, kubectl, log
    :param states: where the state of podman lies, in a directory of its own
    :param runs: where podman keeps what ends with the machine, in a directory of its own
    :param namespaces: where iproute2 keeps network namespaces
    """

    name: str = "batchgate"
    files: Path = SOURCE / "build" / "kind"
    states: Path = Path("/var/lib")
    runs: Path = Path("/run")
    namespaces: Path = Path("/run/netns")

    @property
    def own(self) -> str:
        """The name of the cluster's network namespace, and of podman's network in it."""
        return f"{self.name}-kind"

    @property
    def namespace(self) -> Path:
        """The file that stands for the network namespace."""
        return self.namespaces / self.own

    @property
    def state(self) -> Path:
        """Podman's containers, its network and its configuration."""
        return self.states / self.own

    @property
    def running(self) -> Path:
        """Podman's run directory."""
        return self.runs / self.own

    @property
    def leases(self) -> Path:
        """Where the CNI plugin host-local notes the addresses of podman's network."""
        return self.states / "cni" / "networks" / self.own

    @property
    def containers_conf(self) -> Path:
        """Podman's configuration for this cluster alone."""
        return self.state / "containers.conf"

    @property
    def storage_conf(self) -> Path:
        """Where podman keeps this cluster's containers, and where it finds the node image."""
        return self.state / "storage.conf"

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the cluster's admin."""
        return self.files / "kubeconfig"

    @property
    def configuration(self) -> Path:
        """The configuration that kind is given."""
        return self.files / "kind.yaml"

    @property
    def log(self) -> Path:
        """What kind says."""
        return self.files / "kind.log"

    @property
    def programs(self) -> Path:
        """A directory for PATH, with a kubectl that reaches the cluster."""
        return self.files / "bin"

    @property
    def variables(self) -> Path:
        """What a shell reads with ``.`` to use the cluster."""
        return self.files.with_suffix(".env")
