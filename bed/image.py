"""Makes the small image: Debian's essential packages, Open MPI of the site's version, Python, and MPI programs.

Shell: runs mmdebstrap, the compiler and Apptainer.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

from bed import commands, files, packages
from bed.commands import BedError
from bed.layout import Layout

INCLUDED: Final = ("openmpi-bin", "python3-minimal")
PROGRAM: Final = "ring"
PROGRAMS: Final = (PROGRAM, "ranks")
"""MPI programs in the image's /usr/local/bin. Copies for runs without a container lie beside it, with their sources."""
_UNUSED: Final = ("doc", "man", "locale", "info")
_SQUASH: Final = "-comp zstd -Xcompression-level 1"
_PARTITION: Final = re.compile(r"\|(\d+)-\d+ *\|FS \(Squashfs/")


def make_root(layout: Layout) -> None:
    """Make the image's file system from Debian's packages; of the bed's packages it needs only mmdebstrap."""
    tree = _tree(layout)
    if layout.image.exists() or tree.exists():
        return
    work = tree.with_name("making")
    shutil.rmtree(work, ignore_errors=True)
    files.directory(tree.parent)
    bootstrap(work, packages.RELEASE, INCLUDED)
    work.rename(tree)


def bootstrap(work: Path, release: str, included: tuple[str, ...]) -> None:
    """Make the file system of a release of Debian: its essential packages, and the included ones."""
    # mmdebstrap mounts the machine's /dev/shm and more below the new root. In a mount namespace of its own these mounts
    # end with it however it ends, and whoever then removes the folder reaches nothing of the machine's.
    apart = ("unshare", "--mount", "--propagation", "private")
    lean = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _UNUSED]
    commands.run(
        [
            *(*apart, "mmdebstrap", "--mode=root", "--variant=essential", f"--include={','.join(included)}"),
            *("--dpkgopt=force-unsafe-io", *lean, release, str(work), "-"),
        ],
        stdin="\n".join(packages.sources(packages.targets(), release)) + "\n",
    )


def pack(layout: Layout) -> bool:
    """Compile the programs and make the SIF. If only a program has changed, the new SIF is made from the old one.

    :return: whether the SIF had to be made
    """
    files.directory(layout.image.parent)
    new = [name for name in PROGRAMS if _compile(layout, name)]
    tree = _tree(layout)
    if layout.image.exists():
        if not new:
            return False
        shutil.rmtree(tree.parent, ignore_errors=True)
        files.directory(tree.parent)
        unpack(layout.image, tree)
    for name in PROGRAMS:
        shutil.copy(layout.image.with_name(name), tree / "usr" / "local" / "bin" / name)
    seal(tree, layout.image)
    for name in PROGRAMS:
        shutil.copy(source(name), layout.image.parent)
    shutil.rmtree(tree.parent)
    return True


def seal(tree: Path, image: Path) -> None:
    """Make a SIF from a file system, after changes by which an ordinary user can copy it out of the image again."""
    # An unprivileged user could not copy devices, set-id bits and files closed to others.
    for device in (tree / "dev").iterdir():
        shutil.rmtree(device) if device.is_dir() and not device.is_symlink() else device.unlink()
    commands.run(["chmod", "-R", "u-s,g-s,a+rX", tree])
    made = image.with_suffix(".new")
    commands.run(["apptainer", "--quiet", "build", "--force", "--mksquashfs-args", _SQUASH, made, tree])
    made.chmod(0o755)
    made.rename(image)


def unpack(image: Path, tree: Path) -> None:
    """Take the file system out of a SIF. Apptainer would use a user namespace, in which some owners cannot be set."""
    listed = commands.run(["apptainer", "sif", "list", image])
    found = _PARTITION.search(listed)
    if found is None:
        raise BedError(f"{image} has no file system that could be unpacked: {listed.strip()}")
    commands.run(["unsquashfs", "-quiet", "-no-progress", "-no-xattrs", "-offset", found[1], "-dest", tree, image])


def _compile(layout: Layout, name: str) -> bool:
    """Compile a program unless the image has it from the same source, a copy of which lies beside the image."""
    written = source(name)
    packed = layout.image.with_name(written.name)
    if packed.exists() and packed.read_bytes() == written.read_bytes():
        return False
    compile_program("mpicc", name, layout.image.with_name(name))
    return True


def compile_program(compiler: str, name: str, made: Path, *options: str) -> None:
    """Compile one of ``PROGRAMS`` with an MPI's compiler, or with another one and options that tell it of an MPI."""
    commands.run([compiler, "-std=c11", "-O1", "-Wall", "-o", made, source(name), *options])


def source(name: str) -> Path:
    """The source file of one of ``PROGRAMS``."""
    return Path(__file__).with_name(f"{name}.c")


def _tree(layout: Layout) -> Path:
    return layout.state / "image" / "root"
