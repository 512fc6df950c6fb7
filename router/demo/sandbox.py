"""Makes a container image without a registry: a directory with this machine's shell, a few programs, and MPI.

Shell: copies files. Apptainer runs such a directory ("sandbox") like any image.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from router.errors import ConfigError

PROGRAMS: Final = (
    "sh",
    "bash",
    "cat",
    "date",
    "echo",
    "env",
    "expr",
    "hostname",
    "ln",
    "ls",
    "mkdir",
    "seq",
    "sleep",
    "true",
    "wc",
)
"""The programs that the examples' commands use."""
_PYTHON: Final = Path("opt/python")
_LOOKED_WITH: Final = ("grep", "head", "ldd", "tr")
"""The programs with which the script finds the MPI library of an image."""
_UNUSED: Final = (
    "*-packages",
    "config-*",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "test",
    "tkinter",
    "turtle*",
)
"""Parts of Python's own modules that are left out."""
MOUNT_POINTS: Final = ("dev", "etc", "home", "proc", "root", "sys", "tmp", "var/tmp", "usr/bin", "opt")


def build(directory: Path) -> None:
    """Make the sandbox, whole or not at all. Raises ConfigError that names a missing program."""
    half = directory.with_name(directory.name + ".new")
    shutil.rmtree(half, ignore_errors=True)
    for name in ("bin", *MOUNT_POINTS):
        (half / name).mkdir(parents=True)
    _add_programs(half, PROGRAMS)
    (half / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (half / "etc/group").write_text("root:x:0:\n")
    shutil.rmtree(directory, ignore_errors=True)
    half.rename(directory)


def add_mpi(directory: Path, mpi4py: Path) -> None:
    """Add this Python as ``python3``, with its environment's MPICH and mpi4py. Raises ConfigError as ``build`` does."""
    _add_programs(directory, _LOOKED_WITH)
    interpreter, modules = Path(sys.executable).resolve(), Path(os.__file__).parent
    python = directory / _PYTHON / "bin" / "python3"
    python.parent.mkdir(parents=True)
    shutil.copy2(interpreter, python)
    (directory / "bin" / "python3").symlink_to(Path("..") / _PYTHON / "bin" / "python3")
    # Python finds its own modules by its own path. mpi4py is put there too, as every Python looks there.
    home = directory / _PYTHON / modules.relative_to(sys.base_prefix)
    shutil.copytree(modules, home, ignore=shutil.ignore_patterns(*_UNUSED))
    shutil.copytree(mpi4py, home / "mpi4py")
    mpich = Path(sys.prefix) / "lib"
    libraries = _libraries(interpreter, *modules.glob("lib-dynload/*.so"), mpich / "libmpi.so.12")
    _add_libraries(directory, [library for library in libraries if not library.is_relative_to(mpich)])
    # The loader finds these libraries in the directory of the C library.
    found = directory / next(library.parent for library in libraries if library.name == "libc.so.6").relative_to("/")
    shutil.copy2(mpich / "libmpi.so.12", found)
    shutil.copytree(mpich / "mpich", found / "mpich")


def _add_programs(directory: Path, programs: Iterable[str]) -> None:
    for program in programs:
        found = shutil.which(program, path="/bin:/usr/bin")
        if found is None:
            raise ConfigError(f"the demo's image needs the program {program!r}, which is not in /bin or /usr/bin")
        shutil.copy2(Path(found).resolve(), directory / "bin" / program)
        _add_libraries(directory, _libraries(Path(found)))


def _add_libraries(directory: Path, libraries: Iterable[Path]) -> None:
    for library in libraries:
        target = directory / library.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy2(library.resolve(), target)


def _libraries(*programs: Path) -> list[Path]:
    """The shared libraries of programs, by ldd; a static program has none (ldd then exits with 1)."""
    run = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False, timeout=30)
    words = [word for line in run.stdout.splitlines() for word in line.split()]
    return [Path(word) for word in words if word.startswith("/") and Path(word).is_file()]
