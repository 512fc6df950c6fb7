"""Writes the texts of configuration files: podman's, kind's, and what a shell reads.

Pure.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from kindcluster.layout import Layout

_MOST_FILES: Final = 1048576
_MOST_PROCESSES: Final = 32768
"""Podman lowers its own limit to this before it starts a container, and cannot raise it again."""


def containers_conf(layout: Layout, *, files: int, processes: int) -> str:
    """Podman's containers.conf for one cluster.

    :param files: this process's hard limit of open files; negative: none
    :param processes: the same for processes
    """
    # A root without CAP_SYS_RESOURCE raises no limit, and podman's own defaults are above many machines' limits.
    limits = [f"nofile={_capped(files, _MOST_FILES)}", f"nproc={_capped(processes, _MOST_PROCESSES)}"]
    both = [f"{limit}:{limit.partition('=')[2]}" for limit in limits]
    # Podman allows a container 2,048 processes, which is too few for a hundred Pods; kind's node is a whole machine.
    # Debian 12's crun starts nothing where cgroups are of both versions; runc does.
    return (
        f"[containers]\ndefault_ulimits = {json.dumps(both)}\npids_limit = 0\n"
        f"[network]\nnetwork_config_dir = {json.dumps(str(layout.state / 'networks'))}\n"
        f"[engine]\nevents_logger = {json.dumps('none')}\nruntime = {json.dumps('runc')}\n"
    )


def storage_conf(layout: Layout, store: Path) -> str:
    """Podman's storage.conf for one cluster.

    :param store: where the node image is kept, which podman only reads
    """
    return (
        f'[storage]\ndriver = "overlay"\nrunroot = {json.dumps(str(layout.running))}\n'
        f"graphroot = {json.dumps(str(layout.state / 'storage'))}\n"
        f"[storage.options]\nadditionalimagestores = {json.dumps([str(store)])}\n"
    )


def cluster(image: str) -> str:
    """Kind's configuration of a cluster with one node.

    :param image: the node image; empty: the one that kind's release publishes
    """
    node = {"role": "control-plane", **({"image": image} if image else {})}
    kubelet = {"kind": "KubeletConfiguration", "failCgroupV1": False}
    values = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [node],
        "networking": {"ipFamily": "ipv4"},
        # From 1.35 on the kubelet refuses cgroup v1 unless it is told otherwise; with cgroup v2 this says nothing.
        "kubeadmConfigPatches": [yaml.safe_dump(kubelet)],
    }
    return yaml.safe_dump(values, sort_keys=False)


def kubectl_script(argv: Sequence[str]) -> str:
    """A kubectl that reaches the cluster from any shell."""
    return f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n'


def variables(layout: Layout) -> str:
    """What a shell reads with ``.`` to use the cluster."""
    path = shlex.quote(str(layout.programs))
    return f"export KUBECONFIG={shlex.quote(str(layout.kubeconfig))}\nexport PATH={path}:$PATH\n"


def _capped(limit: int, most: int) -> int:
    return most if limit < 0 else min(limit, most)
