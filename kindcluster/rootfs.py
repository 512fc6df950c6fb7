"""Makes the root file system of kind's node: Debian's packages, and what kind's own node image adds to them.

Shell: runs mmdebstrap and commands in the new root. Follows ``images/base/Dockerfile`` of kind's source, with Debian's
containerd, runc and CNI plugins in place of builds from their repositories.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bed import image as debian
from kindcluster import commands, podnetwork

RELEASE: Final = "bookworm"
PACKAGES: Final = (
    *("systemd", "conntrack", "iptables", "nftables", "iproute2", "ethtool", "util-linux", "mount", "kmod"),
    *("libseccomp2", "pigz", "e2fsprogs", "bash", "ca-certificates", "curl", "jq", "procps", "hostname"),
    *("containerd", "runc", "containernetworking-plugins"),
)
_EXECUTABLE: Final = ("usr/local/bin", "kind/bin")
_UNWANTED: Final = (
    "lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
    "lib/systemd/system/multi-user.target.wants/*",
    "etc/systemd/system/*.wants/*",
    "lib/systemd/system/local-fs.target.wants/*",
    "lib/systemd/system/sockets.target.wants/*udev*",
    "lib/systemd/system/sockets.target.wants/*initctl*",
    "lib/systemd/system/basic.target.wants/*",
    # kind's unit of this name is in /etc.
    "lib/systemd/system/containerd.service",
)
"""Units and links that do not fit a container."""
_SERVICES: Final = ("kubelet.service", "containerd.service", "undo-mount-hacks.service")
_PLUGINS: Final = ("host-local", "loopback", "ptp", "portmap")
_LINKS: Final = {
    "sbin/init": "/lib/systemd/systemd",
    "usr/local/bin/containerd": "/usr/bin/containerd",
    "usr/local/bin/ctr": "/usr/bin/ctr",
    "usr/local/bin/containerd-shim-runc-v2": "/usr/bin/containerd-shim-runc-v2",
    "usr/local/sbin/runc": "/usr/sbin/runc",
    **{f"opt/cni/bin/{name}": f"/usr/lib/cni/{name}" for name in _PLUGINS},
}
"""Where kind's node image has what Debian has elsewhere."""


def make(root: Path, kind_source: Path, programs: Mapping[str, Path], version: str) -> None:
    """Make the root file system.

    :param root: a folder that does not exist yet
    :param kind_source: the source of kind
    :param programs: kubeadm, kubelet and kubectl
    :param version: Kubernetes' version
    :raises KindError: a command fails; also the errors of mmdebstrap
    """
    debian.bootstrap(root, RELEASE, PACKAGES)
    _add_files(root, kind_source / "images" / "base" / "files")
    _arrange_units(root)
    _write_links(root)
    for name, program in programs.items():
        shutil.copy(program, root / "usr" / "bin" / name)
    _write(root / "kind" / "version", version)
    _write(root / "etc" / "cni" / "net.d" / "10-kindnet.conflist", podnetwork.configuration())
    _write(root / "kind" / "manifests" / "default-cni.yaml", podnetwork.manifest())
    (root / "etc" / "kubernetes" / "manifests").mkdir(parents=True)
    _configure_containerd(root)


def container(specification: dict[str, Any]) -> dict[str, Any]:
    """Containerd's default specification of a container, with kind's hook and without limits of its own. Pure.

    A limit above the node's own could not be set by a root that lacks CAP_SYS_RESOURCE.
    """
    process = {key: value for key, value in specification["process"].items() if key != "rlimits"}
    hooks = specification.get("hooks", {})
    ours = {"path": "/kind/bin/mount-product-files.sh"}
    return {
        **specification,
        "process": process,
        "hooks": {**hooks, "createContainer": [*hooks.get("createContainer", []), ours]},
    }


def _add_files(root: Path, files: Path) -> None:
    for source in sorted(path for path in files.rglob("*") if path.is_file()):
        name = source.relative_to(files)
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        # Go's cache of modules is read-only and has no executable files.
        shutil.copyfile(source, target)
        target.chmod(0o755 if str(name.parent) in _EXECUTABLE else 0o644)


def _arrange_units(root: Path) -> None:
    for pattern in _UNWANTED:
        for unit in root.glob(pattern):
            unit.unlink()
    with (root / "etc" / "systemd" / "journald.conf").open("a") as stream:
        stream.write("ReadKMsg=no\n")
    commands.run(["chroot", root, "systemctl", "--quiet", "enable", *_SERVICES])
    # It would register formats of programs with the kernel, for the whole machine.
    commands.run(["chroot", root, "systemctl", "--quiet", "mask", "systemd-binfmt.service"])


def _write_links(root: Path) -> None:
    for name, target in _LINKS.items():
        link = root / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def _configure_containerd(root: Path) -> None:
    specification = json.loads(commands.run(["chroot", root, "ctr", "oci", "spec"]))
    folder = root / "etc" / "containerd"
    _write(folder / "cri-base.json", json.dumps(container(specification)))
    # Without CAP_SYS_RESOURCE nobody lowers an oom_score_adj. kind does the same for clusters without root.
    config = (folder / "config.toml").read_text()
    _write(folder / "config.toml", config.replace("restrict_oom_score_adj = false", "restrict_oom_score_adj = true"))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
