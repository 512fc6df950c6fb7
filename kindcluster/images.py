"""Makes the images of the control plane's Pods, and brings them into the node's containerd.

Shell around pure functions. A Go program is an image of one file; kube-proxy also needs programs of the node.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kindcluster import commands
from kindcluster.commands import KindError
from router.controlplane import image

_PROXY: Final = ("/usr/sbin/xtables-nft-multi", "/usr/sbin/nft", "/usr/sbin/conntrack", "/usr/bin/kmod")
"""What kube-proxy calls."""
_EXTENSIONS: Final = "usr/lib/x86_64-linux-gnu/xtables"
_PROXY_LINKS: Final = {
    **{f"usr/sbin/{ip}tables{what}": "xtables-nft-multi" for ip in ("ip", "ip6") for what in ("", "-save", "-restore")},
    "sbin/modprobe": "/usr/bin/kmod",
}
_BARE: Final = ("pause", "coredns")
"""Programs that their images' users expect at the top, as entry points."""

_IMPORT: Final = """
set -eu
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mount -t devtmpfs dev /dev
mount -t sysfs sysfs /sys
containerd >/tmp/log 2>&1 &
tries=0
until ctr version >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ "$tries" -gt 600 ]; then cat /tmp/log >&2; exit 1; fi
    sleep 0.1
done
for archive in /mnt/*.tar; do
    ctr -n k8s.io images import --snapshotter overlayfs "$archive" >&2
done
ctr -n k8s.io images ls -q
kill "$!"
wait "$!" || true
"""
"""Runs the node's containerd for a moment. Mounts and processes end with the namespaces around it."""


def wanted(listed: str, containerd: str) -> list[str]:
    """The names of the images that a node needs.

    :param listed: the output of ``kubeadm config images list``
    :param containerd: containerd's config.toml, whose pause image is the one that counts
    :raises KindError: it names no pause image
    """
    found = re.search(r'sandbox_image = "([^"]+)"', containerd)
    if found is None:
        raise KindError("kind's configuration of containerd names no sandbox_image: this release of kind is not known")
    return [*(name for name in listed.split() if program(name) != "pause"), found[1]]


def program(name: str) -> str:
    """The program of an image: ``coredns`` of ``registry.k8s.io/coredns/coredns:v1.14.2``."""
    return name.rpartition("/")[2].partition(":")[0]


def libraries(said: str) -> list[str]:
    """The paths of the libraries in the output of ``ldd``."""
    return re.findall(r"(/\S+) \(0x", said)


def make(folder: Path, root: Path, names: Sequence[str], programs: Mapping[str, Path]) -> None:
    """Write an archive of each image into a folder.

    :param root: the node's root file system
    :param names: of the images
    :param programs: by name, the files of the programs
    :raises KindError: an image has no program
    """
    folder.mkdir(parents=True)
    for name in names:
        short = program(name)
        if short not in programs:
            raise KindError(f"Kubernetes needs the image {name}, and no program {short} is built for it")
        place = short if short in _BARE else f"usr/local/bin/{short}"
        files = {place: programs[short]}
        links: Mapping[str, str] = {}
        if short == "kube-proxy":
            files |= _proxy_files(root)
            links = _PROXY_LINKS
        layer = folder / f"{short}.layer"
        image.write_layer(layer, files, links)
        entrypoint = (f"/{short}",) if short in _BARE else ()
        image.write_images(folder / f"{short}.tar", [image.Image((name,), layer, entrypoint)])
        layer.unlink()


def bring(root: Path, folder: Path, names: Sequence[str]) -> None:
    """Import the archives of a folder into the containerd of the root file system.

    :raises KindError: containerd does not start, or lacks an image afterwards
    """
    shutil.rmtree(root / "var" / "lib" / "containerd", ignore_errors=True)
    for archive in folder.glob("*.tar"):
        shutil.copy(archive, root / "mnt")
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    there = commands.run([*apart, "chroot", root, "/bin/bash", "-c", _IMPORT]).split()
    for archive in (root / "mnt").iterdir():
        archive.unlink()
    lacking = [name for name in names if name not in there]
    if lacking:
        raise KindError(f"the node's containerd did not take {', '.join(lacking)}; it has {', '.join(there) or 'none'}")


def _proxy_files(root: Path) -> dict[str, Path]:
    """kube-proxy's helpers with the libraries that they load: by path in the image, each file of the node."""
    extensions = [f"/{path.relative_to(root)}" for path in sorted((root / _EXTENSIONS).glob("*.so"))]
    files = [*_PROXY, *extensions]
    # Of some extensions ldd says that they are static, with an exit code.
    paths = sorted({*files, *libraries(commands.attempt(["chroot", root, "ldd", *files]).stdout)})
    # Links may be absolute, so they are followed inside.
    real = commands.run(["chroot", root, "readlink", "-f", *paths]).split()
    return {path.lstrip("/"): root / file.lstrip("/") for path, file in zip(paths, real, strict=True)}
