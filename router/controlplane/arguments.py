"""Makes the command line of each component.

Pure: turns paths, ports and options into argv. The flags are those of Kubernetes 1.36 and etcd 3.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from router.controlplane.options import APISERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER, Options
from router.controlplane.programs import Programs

ADDRESS: Final = "127.0.0.1"
SERVICE_RANGE: Final = "10.96.0.0/16"
SERVICE_ADDRESS: Final = "10.96.0.1"
"""The first address of the range: Service ``kubernetes``."""

_QPS: Final = ("--kube-api-qps=500", "--kube-api-burst=1000")


@dataclass(frozen=True, slots=True)
class Ports:
    """The port of each component on loopback."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int


@dataclass(frozen=True, slots=True)
class PlaneFiles:
    """The files and ports of one plane."""

    directory: Path
    ports: Ports

    def pki(self, name: str) -> Path:
        """The path of a certificate or key."""
        return self.directory / "pki" / name

    def kubeconfig(self, name: str) -> Path:
        """The kubeconfig of an identity; colons in its name become underscores."""
        return self.directory / "kubeconfig" / f"{name.replace(':', '_')}.yaml"

    @property
    def logs(self) -> Path:
        """The directory of the components' logs."""
        return self.directory / "logs"

    @property
    def server(self) -> str:
        """The API server's URL."""
        return f"https://{ADDRESS}:{self.ports.apiserver}"


def all_of(programs: Programs, place: PlaneFiles, options: Options) -> dict[str, list[str]]:
    """Every component's argv, in the order of starting."""
    argvs = {
        ETCD: [str(programs.etcd), *_etcd(place)],
        APISERVER: [str(programs.apiserver), *_apiserver(place, options)],
        CONTROLLER_MANAGER: [str(programs.controller_manager), *_controller_manager(place, options)],
        SCHEDULER: [str(programs.scheduler), *_scheduler(place, options)],
    }
    return {name: [*argv, *options.arguments.get(name, ())] for name, argv in argvs.items()}


def _etcd(place: PlaneFiles) -> list[str]:
    client = f"https://{ADDRESS}:{place.ports.etcd}"
    peer = f"https://{ADDRESS}:{place.ports.etcd_peer}"
    return _flags(
        {
            "name": "batchgate",
            "data-dir": place.directory / "etcd",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"batchgate={peer}",
            "cert-file": place.pki("etcd.crt"),
            "key-file": place.pki("etcd.key"),
            "trusted-ca-file": place.pki("etcd-ca.crt"),
            "client-cert-auth": "true",
            "peer-cert-file": place.pki("etcd.crt"),
            "peer-key-file": place.pki("etcd.key"),
            "peer-trusted-ca-file": place.pki("etcd-ca.crt"),
            # The data lives only as long as the plane, so it need not survive a loss of power.
            "unsafe-no-fsync": "true",
            "log-level": "warn",
        }
    )


def _apiserver(place: PlaneFiles, options: Options) -> list[str]:
    flags: dict[str, object] = {
        "bind-address": ADDRESS,
        "advertise-address": ADDRESS,
        "secure-port": place.ports.apiserver,
        "tls-cert-file": place.pki("apiserver.crt"),
        "tls-private-key-file": place.pki("apiserver.key"),
        "client-ca-file": place.pki("ca.crt"),
        "etcd-servers": f"https://{ADDRESS}:{place.ports.etcd}",
        "etcd-cafile": place.pki("etcd-ca.crt"),
        "etcd-certfile": place.pki("apiserver-etcd-client.crt"),
        "etcd-keyfile": place.pki("apiserver-etcd-client.key"),
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": "true",
        # The Service `kubernetes` stays without an endpoint, as Pods could not reach a loopback address.
        "endpoint-reconciler-type": "none",
        "service-cluster-ip-range": SERVICE_RANGE,
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-account-key-file": place.pki("service-account.pub"),
        "service-account-signing-key-file": place.pki("service-account.key"),
        "kubelet-certificate-authority": place.pki("ca.crt"),
        "kubelet-client-certificate": place.pki("apiserver-kubelet-client.crt"),
        "kubelet-client-key": place.pki("apiserver-kubelet-client.key"),
        # By default the API server first tries a node's Hostname, which does not resolve here.
        "kubelet-preferred-address-types": "InternalIP",
        "requestheader-client-ca-file": place.pki("front-proxy-ca.crt"),
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "proxy-client-cert-file": place.pki("front-proxy-client.crt"),
        "proxy-client-key-file": place.pki("front-proxy-client.key"),
    }
    if options.eviction_seconds is not None:
        flags["default-not-ready-toleration-seconds"] = options.eviction_seconds
        flags["default-unreachable-toleration-seconds"] = options.eviction_seconds
    return _flags(flags)


def _controller_manager(place: PlaneFiles, options: Options) -> list[str]:
    flags: dict[str, object] = {
        **_client(place, "system:kube-controller-manager"),
        "secure-port": place.ports.controller_manager,
        # As with kubeadm, each controller has its own service account.
        "use-service-account-credentials": "true",
        "service-account-private-key-file": place.pki("service-account.key"),
        "root-ca-file": place.pki("ca.crt"),
        "cluster-signing-cert-file": place.pki("ca.crt"),
        "cluster-signing-key-file": place.pki("ca.key"),
        "controllers": "*,-node-ipam-controller,-cloud-node-lifecycle-controller",
    }
    if options.node_grace_seconds is not None:
        flags["node-monitor-grace-period"] = f"{options.node_grace_seconds}s"
        flags["node-monitor-period"] = "1s"
    limits = [*_QPS, "--concurrent-job-syncs=20"] if options.raised_limits else []
    return [*_flags(flags), *limits]


def _scheduler(place: PlaneFiles, options: Options) -> list[str]:
    flags = {**_client(place, "system:kube-scheduler"), "secure-port": place.ports.scheduler}
    return [*_flags(flags), *(_QPS if options.raised_limits else ())]


def _client(place: PlaneFiles, identity: str) -> dict[str, object]:
    own = place.kubeconfig(identity)
    return {
        "kubeconfig": own,
        "authentication-kubeconfig": own,
        "authorization-kubeconfig": own,
        "bind-address": ADDRESS,
        "cert-dir": place.directory / "pki" / "self-signed",
        "leader-elect": "false",
    }


def _flags(flags: Mapping[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in flags.items()]
