"""The small image: Debian's essential packages, Open MPI of the site's version, Python, and a program that uses MPI.

Shell: runs mmdebstrap, the compiler and Apptainer.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from bed import commands, files, packages
from bed.layout import Layout

INCLUDED: Final = ("openmpi-bin", "python3-minimal")
PROGRAM: Final = "ring"
"""An MPI program in /usr/local/bin of the image, and beside the image for runs without a container."""
_SOURCE: Final = Path(__file__).with_name("ring.c")
_UNUSED: Final = ("doc", "man", "locale", "info")
_SQUASH: Final = "-comp zstd -Xcompression-level 1"


def make_root(layout: Layout) -> None:
    """Make the image's file system from Debian's packages; needs no other package of the bed than mmdebstrap."""
    tree = _tree(layout)
    if layout.image.exists() or tree.exists():
        return
    work = tree.with_name("making")
    shutil.rmtree(work, ignore_errors=True)
    files.directory(tree.parent)
    lean = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _UNUSED]
    commands.run(
        [
            *("mmdebstrap", "--mode=root", "--variant=essential", f"--include={','.join(INCLUDED)}"),
            *("--dpkgopt=force-unsafe-io", *lean, packages.RELEASE, str(work), "-"),
        ],
        stdin="\n".join(packages.sources(packages.targets())) + "\n",
    )
    work.rename(tree)


def pack(layout: Layout) -> bool:
    """Compile the program and make the SIF.

    :return: whether it had to be made
    """
    files.directory(layout.image.parent)
    program = layout.image.with_name(PROGRAM)
    if not program.exists():
        commands.run(["mpicc", "-O1", "-Wall", "-o", program, _SOURCE])
    if layout.image.exists():
        return False
    tree = _tree(layout)
    shutil.copy(program, tree / "usr" / "local" / "bin" / PROGRAM)
    # What an unprivileged user could not copy out of the image again: devices, set-id bits, files closed to others.
    for device in (tree / "dev").iterdir():
        shutil.rmtree(device) if device.is_dir() and not device.is_symlink() else device.unlink()
    commands.run(["chmod", "-R", "u-s,g-s,a+rX", tree])
    new = layout.image.with_suffix(".new")
    commands.run(["apptainer", "--quiet", "build", "--force", "--mksquashfs-args", _SQUASH, new, tree])
    new.chmod(0o755)
    new.rename(layout.image)
    shutil.rmtree(tree.parent)
    return True


def _tree(layout: Layout) -> Path:
    return layout.state / "image" / "root"
