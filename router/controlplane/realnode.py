"""A real cloud node: kubelet, containerd and runc, for root on Linux.

Shell: writes configuration files, starts one process below the plane's keeper. That process is the first in its own PID
and mount namespaces: when it ends in any way, all processes and mounts of containers end too. The network is the
machine's, with a bridge for the node.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from router.certs.issuing import Pair, make_server_certificate
from router.controlplane import credentials, image, ports
from router.controlplane.arguments import ADDRESS, SERVICE_ADDRESS
from router.controlplane.plane import ControlPlane, await_condition
from router.controlplane.processes import Component
from router.errors import ConfigError

PACKAGES: Final = ("containerd", "runc", "containernetworking-plugins", "busybox-static")
"""Debian's packages. Versions that are known to work with this kubelet: containerd 1.6, runc 1.1."""
_PLUGINS: Final = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
_PROGRAMS: Final = ("containerd", "ctr", "runc", "unshare", "ip", "mount")
_SUBNETS: Final = ipaddress.IPv4Network("10.192.0.0/11")
"""The range for the node's own /24, which must overlap no route of this machine."""
_SERVICE: Final = f"{SERVICE_ADDRESS}/32"
_SECONDS: Final = 30

_INIT: Final = """
set -eu
mount --make-rshared /
for folder in /run /var/lib/cni /var/lib/kubelet /var/log/pods /var/log/containers; do
    mkdir -p "$folder" && mount -t tmpfs tmpfs "$folder"
done
for controller in /sys/fs/cgroup/*/; do
    if [ -e "$controller/tasks" ]; then mkdir -p "$controller/$NODE_GROUP"; fi
done
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then mkdir -p "/sys/fs/cgroup/$NODE_GROUP"; fi
# The kubelet makes sockets below its directory, whose paths may have 107 bytes.
mkdir -p "$NODE_FILES/kubelet" /run/kubelet
mount --bind "$NODE_FILES/kubelet" /run/kubelet
# With an address of its own; otherwise it takes over the lowest of its Pods', and a Pod that ends changes it. For half a
# minute the others would then send their answers to the former one.
ip link add "$NODE_BRIDGE" address "$NODE_MAC" type bridge
ip address add "$NODE_ADDRESS" dev "$NODE_BRIDGE"
ip address add "$NODE_SERVICE" dev "$NODE_BRIDGE"
ip link set "$NODE_BRIDGE" up
containerd --config "$NODE_FILES/containerd.toml" &
until ctr --address "$NODE_SOCKET" version >/dev/null 2>&1; do sleep 0.1; done
for archive in "$NODE_FILES"/images/*.tar; do
    ctr --address "$NODE_SOCKET" --namespace k8s.io images import "$archive"
done
kubelet=0
"$NODE_KUBELET" "$@" || kubelet=$?
echo "the kubelet has ended with exit code $kubelet" >&2
exit 1
"""
"""The script of the first process. Its tmpfs mounts are private: sockets of shims, network namespaces, address leases.
"""

_CLEAN: Final = r"""
ip link delete "$1"
for group in /sys/fs/cgroup/"$1" /sys/fs/cgroup/*/"$1"; do
    if [ -d "$group" ]; then find "$group" -depth -type d -exec rmdir {} \;; fi
done
"""


@dataclass(frozen=True, slots=True)
class Network:
    """The node's bridge: its name, and its network with the bridge's own address."""

    bridge: str
    interface: ipaddress.IPv4Interface

    @property
    def mac(self) -> str:
        """A locally administered Ethernet address, made from the bridge's own IP address."""
        return ":".join(f"{part:02x}" for part in (0x0A, 0x58, *self.interface.ip.packed))


def obstacle() -> str:
    """Why this machine cannot have a real node; empty if it can."""
    if os.geteuid() != 0:
        return "only root can run a kubelet"
    if found := lacking():
        return f"it lacks {', '.join(found)}; Debian's packages are {' '.join(PACKAGES)}"
    return ""


def lacking() -> list[str]:
    """The programs that a node needs and this machine lacks, in words."""
    found = [name for name in _PROGRAMS if shutil.which(name, path=_path()) is None]
    if _plugins() is None:
        found.append("the plugin bridge of CNI")
    try:
        image.busybox()
    except ConfigError:
        found.append("a static busybox")
    return found


def _path() -> str:
    """The PATH of root's programs, also for a caller whose PATH lacks them."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def start(plane: ControlPlane, name: str, images: Sequence[str], archives: Sequence[Path] = ()) -> Component:
    """Start the node and wait until it is Ready.

    There is no kube-proxy: its Pods reach the Service ``kubernetes`` only if a process listens at that address on the
    node's bridge.

    :param images: names of images for Jobs; each is a static busybox, as the node cannot pull images
    :param archives: Docker archives of other images for Pods
    :raises ConfigError: the node does not become Ready; with the end of its log
    """
    files = plane.directory / name
    files.mkdir(mode=0o700)
    network = _free_network(plane)
    kubelet_port, health_port = ports.free(2, ADDRESS)
    _write_certificate(plane, files, network)
    _put_images(files / "images", images, archives)
    (files / "containerd.toml").write_text(_containerd(files))
    (files / "cni").mkdir()
    (files / "cni" / "10-bridge.conflist").write_text(json.dumps(_cni(network)))
    (files / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet(plane, files, network, (kubelet_port, health_port))))
    kubeconfig = plane.certificate(credentials.node(name))
    arguments = {
        "config": files / "kubelet.yaml",
        "kubeconfig": kubeconfig,
        "root-dir": "/run/kubelet",
        "hostname-override": name,
        "node-ip": network.interface.ip,
        "cert-dir": files,
    }
    environment = {
        "PATH": _path(),
        "HOME": str(files),
        "NODE_FILES": str(files),
        "NODE_SOCKET": "/run/containerd.sock",
        "NODE_BRIDGE": network.bridge,
        "NODE_ADDRESS": str(network.interface),
        "NODE_MAC": network.mac,
        "NODE_SERVICE": _SERVICE,
        "NODE_GROUP": network.bridge,
        "NODE_KUBELET": str(plane.programs.kubelet),
    }
    argv = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "--propagation", "slave"]
    argv += ["/bin/sh", "-c", _INIT, "node", *(f"--{key}={value}" for key, value in arguments.items())]
    component = Component(name, argv, plane.place.logs, environment, plane.keeper)
    clean = ["/bin/sh", "-c", _CLEAN, "clean", network.bridge]
    plane.keeper.ask(do="at-end", argv=clean)
    component.start()
    await_condition(component, lambda: is_ready(plane, name))
    return component


def _put_images(folder: Path, images: Sequence[str], archives: Sequence[Path]) -> None:
    folder.mkdir()
    image.write(folder / "busybox.tar", images)
    for number, archive in enumerate(archives):
        (folder / f"{number}.tar").symlink_to(archive.resolve())


def is_ready(plane: ControlPlane, name: str) -> bool:
    """Whether a Node exists and is Ready."""
    path = "{.status.conditions[?(@.type=='Ready')].status}"
    return plane.run_kubectl("get", "node", name, "-o", f"jsonpath={path}").stdout == "True"


def _plugins() -> Path | None:
    return next((folder for folder in _PLUGINS if (folder / "bridge").exists()), None)


def _free_network(plane: ControlPlane) -> Network:
    told = subprocess.run(
        ["ip", "-json", "-4", "route", "show", "table", "all"],
        capture_output=True,
        text=True,
        check=True,
        timeout=_SECONDS,
    )
    taken = [
        ipaddress.IPv4Network(route["dst"], strict=False)
        for route in json.loads(told.stdout)
        if route["dst"] != "default"
    ]
    # Two planes that start at once begin their search at different subnets.
    subnets = list(_SUBNETS.subnets(new_prefix=24))
    first = plane.place.ports.apiserver % len(subnets)
    for subnet in [*subnets[first:], *subnets[:first]]:
        if not any(subnet.overlaps(other) for other in taken):
            return Network(f"bg{plane.place.ports.apiserver}", ipaddress.IPv4Interface(f"{subnet[1]}/24"))
    raise ConfigError(f"no free network in {_SUBNETS} for a node")


def _write_certificate(plane: ControlPlane, files: Path, network: Network) -> None:
    ca = Pair(plane.ca_file.read_bytes(), plane.place.pki("ca.key").read_bytes())
    pair = make_server_certificate(ca, [str(network.interface.ip)], datetime.now(UTC))
    for name, content in (("serving.crt", pair.public), ("serving.key", pair.private)):
        (files / name).touch(mode=0o600)
        (files / name).write_bytes(content)


def _containerd(files: Path) -> str:
    """The configuration of containerd 1.6 in TOML, whose strings may be written as in JSON."""
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    tables: dict[str, dict[str, Any]] = {
        "grpc": {"address": "/run/containerd.sock"},
        'plugins."io.containerd.internal.v1.opt"': {"path": str(files / "opt")},
        # Without this every sandbox fails on a machine where containerd may not lower oom_score_adj.
        cri: {"sandbox_image": image.PAUSE, "restrict_oom_score_adj": True},
        f"{cri}.cni": {"bin_dir": str(_plugins()), "conf_dir": str(files / "cni")},
        f"{cri}.containerd": {"snapshotter": "overlayfs"},
        f"{cri}.containerd.runtimes.runc": {"runtime_type": "io.containerd.runc.v2"},
    }
    lines = ["version = 2", f"root = {json.dumps(str(files / 'containerd'))}", 'state = "/run/containerd-state"']
    for table, values in tables.items():
        lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _cni(network: Network) -> dict[str, Any]:
    subnet = {"subnet": str(network.interface.network), "gateway": str(network.interface.ip)}
    bridge = {
        "type": "bridge",
        "bridge": network.bridge,
        "isGateway": True,
        # Pods reach only this machine, so addresses need no translation.
        "ipMasq": False,
        "ipam": {"type": "host-local", "ranges": [[subnet]], "routes": [{"dst": _SERVICE}]},
    }
    return {"cniVersion": "0.4.0", "name": "batchgate", "plugins": [bridge]}


def _kubelet(plane: ControlPlane, files: Path, network: Network, listening: Sequence[int]) -> dict[str, Any]:
    kubelet_port, health_port = listening
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": str(network.interface.ip),
        "port": kubelet_port,
        "healthzBindAddress": str(network.interface.ip),
        "healthzPort": health_port,
        "authentication": {
            "x509": {"clientCAFile": str(plane.ca_file)},
            "webhook": {"enabled": True},
            "anonymous": {"enabled": False},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(files / "serving.crt"),
        "tlsPrivateKeyFile": str(files / "serving.key"),
        "containerRuntimeEndpoint": "unix:///run/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{network.bridge}",
        "failCgroupV1": False,
        "failSwapOn": False,
        # The node shares the machine with other programs.
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": False,
        "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%", "memory.available": "50Mi"},
        "imageGCHighThresholdPercent": 100,
        "resolvConf": "",
        # No server listens there, so queries fail at once. Without an address every Pod gets a warning.
        "clusterDNS": [str(network.interface.ip)],
        "clusterDomain": "cluster.local",
        "podLogsDir": str(files / "pod-logs"),
        "makeIPTablesUtilChains": False,
        # The kubelet renews the Lease four times in this period.
        "nodeLeaseDurationSeconds": plane.options.node_grace_seconds or 40,
        "syncFrequency": "10s",
    }
