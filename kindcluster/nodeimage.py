"""Makes the node image once, and keeps it in a store of podman's in the user's cache.

Shell: the order of the steps. The folder is named by a digest of all pins and of this recipe. It appears whole or not
at all; of two processes, the second waits for the first.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kindcluster import commands, images, mounts, programs, rootfs
from kindcluster.commands import Tell, step
from kindcluster.layout import NODE_IMAGE, SOURCE
from router.controlplane import building, cloudnode, image
from router.controlplane import programs as plane

_RECIPE: Final = (
    SOURCE / "bed/image.py",
    *(SOURCE / "router/controlplane" / f"{name}.py" for name in ("cloudnode", "image")),
    *(SOURCE / "kindcluster" / f"{name}.py" for name in ("images", "nodeimage", "podnetwork", "rootfs")),
)
EXAMPLES: Final = tuple(f"docker.io/library/{name}" for name in cloudnode.IMAGES)
"""The images of the examples' containers; each is a static busybox, as no registry is reached from the node."""
_PREFIX: Final = "kind-"
_OURS: Final = re.compile(r"kind-[0-9a-f]{12}(\.building-\d+)?")
_LEFT_OUT: Final = ("./proc/*", "./sys/*", "./dev/*")
_CHANGES: Final = (
    "ENV container=podman",
    # systemd ends at this signal; at SIGTERM it would start itself again.
    "STOPSIGNAL SIGRTMIN+3",
    'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]',
)
_PAUSE: Final = "build/pause/linux/pause.c"
"""In Kubernetes' source."""


def digest(files: Iterable[Path]) -> str:
    """A short digest of files' names and contents."""
    whole = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        whole.update(f"{file.name} {len(content)}\n".encode() + content)
    return whole.hexdigest()[:12]


def key() -> str:
    """The digest that names the node image: of the Go modules, kubectl, and the source of what makes the image.

    Debian's packages are those of the day on which it is made.

    :raises router.errors.ConfigError: kubectl is missing
    """
    pins = [plane.MODULE / "go.mod", plane.MODULE / "go.sum"]
    for module in ("kind", *programs.NODE):
        pins += programs.sources(module)
    return digest([*pins, plane.find_kubectl(), *_RECIPE])


@dataclass(frozen=True, slots=True)
class Kept:
    """Where the node image of a key is kept.

    :param folder: in the user's cache
    :param name: of the image, for kind
    """

    folder: Path
    name: str

    @property
    def store(self) -> Path:
        """The store of podman's that has it."""
        return self.folder / "store"


def place() -> Kept:
    """Where the node image of the present pins and recipe is kept, made or not."""
    digest = key()
    return Kept(plane.cache() / f"{_PREFIX}{digest}", f"{NODE_IMAGE}:{digest}")


def ensure(tell: Tell) -> Kept:
    """Make the node image unless it is kept.

    :raises KindError: a step fails; also ``router.errors.ConfigError`` of builds and the errors of mmdebstrap
    """
    kept = place()
    if not kept.store.exists():
        with building.locked(kept.folder, tell):
            if not kept.store.exists():
                _make(kept, tell)
    return kept


def forget(tell: Tell) -> None:
    """Remove all node images from the cache, and what interrupted builds have left there.

    :raises KindError: something is mounted there and in use
    """
    for folder in sorted(path for path in plane.cache().glob(f"{_PREFIX}*") if _OURS.fullmatch(path.name)):
        # A build that runs holds the lock.
        with building.locked(folder.with_name(folder.name.partition(".")[0]), tell):
            mounts.discard(folder)
        tell(f"Removed {folder}.")


def _make(kept: Kept, tell: Tell) -> None:
    target = kept.folder
    # We hold the lock, so these are left by interrupted builds.
    for left in target.parent.glob(f"{target.name}.building-*"):
        mounts.discard(left)
    half = target.with_name(f"{target.name}.building-{os.getpid()}")
    half.mkdir()
    root = half / "root"
    files = _programs(half, tell)
    kind_source = programs.source("kind", tell)
    with step(tell, "Making the node's file system from Debian's packages."):
        inside = {program: files[program] for program in ("kubeadm", "kubelet", "kubectl")}
        rootfs.make(root, kind_source, inside, programs.version("kubernetes"))
    with step(tell, "Making the images of the control plane's Pods."):
        listed = commands.run([files["kubeadm"], "config", "images", "list", "--kubernetes-version", plane.version()])
        names = images.wanted(listed, (root / "etc/containerd/config.toml").read_text())
        images.make(half / "images", root, names, files)
        image.write(half / "images" / "busybox.tar", EXAMPLES)
        images.bring(root, half / "images", [*names, *EXAMPLES])
        mounts.discard(half / "images")
    with step(tell, "Keeping all of it as a node image."):
        _keep(root, half, kept.name)
    mounts.discard(root)
    mounts.discard(target)
    half.rename(target)
    tell(f"Made the node image: {target}")


def _programs(folder: Path, tell: Tell) -> dict[str, Path]:
    building.ensure(tell)
    found = plane.find()
    made = {path.name: path for module in programs.NODE for path in programs.ensure(module, tell).iterdir()}
    pause = folder / "pause"
    source = programs.source("kubernetes", tell) / _PAUSE
    commands.run(["gcc", "-Os", "-static", f"-DVERSION={plane.version()}", "-o", pause, source])
    return made | {
        "pause": pause,
        "etcd": found.etcd,
        "kube-apiserver": found.apiserver,
        "kube-controller-manager": found.controller_manager,
        "kube-scheduler": found.scheduler,
        "kubelet": found.kubelet,
        "kubectl": found.kubectl,
    }


def _keep(root: Path, half: Path, name: str) -> None:
    archive = half / "node.tar"
    left_out = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    commands.run(["tar", "-C", root, "--xattrs", "--numeric-owner", *left_out, "-cf", archive, "."])
    # Podman takes a path of at most 50 characters for it.
    running = Path(tempfile.mkdtemp(dir="/run"))
    apart = ["--root", str(half / "store"), "--runroot", str(running), "--storage-driver", "overlay"]
    changes = [word for change in _CHANGES for word in ("--change", change)]
    try:
        commands.run(["podman", *apart, "--events-backend", "none", "import", "--quiet", *changes, archive, name])
    finally:
        mounts.discard(running)
        mounts.unmount(half / "store")
    archive.unlink()
