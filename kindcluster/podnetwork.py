"""Defines the network of the node's Pods, which is fixed in the node image.

Pure. kind's own daemon for it, kindnetd, comes as an image of a registry only. A single node needs no routes to others,
so what the daemon would write for a node is written here. There are no network policies.
"""

from __future__ import annotations

import json
from typing import Any, Final

import yaml

PODS: Final = "10.244.0.0/24"
"""The addresses of the node's Pods, from the network that kind plans by default."""


def configuration() -> str:
    """The configuration of the network for containerd. The API server reaches each Pod through the node's routes."""
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni-ipam-state",
        "routes": [{"dst": "0.0.0.0/0"}],
        "ranges": [[{"subnet": PODS}]],
    }
    plugins: list[dict[str, Any]] = [
        {"type": "ptp", "ipMasq": True, "mtu": 1500, "ipam": addresses},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "0.3.1", "name": "kindnet", "plugins": plugins}, indent=2) + "\n"


def manifest() -> str:
    """What kind applies as the cluster's network: a note, as the network is already in the node image."""
    note = {"note": "The network of the one node is fixed in its /etc/cni/net.d."}
    metadata = {"name": "fixed-network", "namespace": "kube-system"}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": note})
