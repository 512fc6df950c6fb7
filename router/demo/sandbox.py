"""A container image without a registry: a directory with this machine's own shell and a few small programs.

Shell: copies files. Apptainer runs such a directory ("sandbox") like any image.
"""

from __future__ import annotations

import shutil
import subprocess
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
"""What the examples' commands use."""
MOUNT_POINTS: Final = ("dev", "etc", "home", "proc", "root", "sys", "tmp", "var/tmp", "usr/bin", "opt")


def build(directory: Path) -> None:
    """Make the sandbox, whole or not at all. ConfigError names the program that the machine lacks."""
    half = directory.with_name(directory.name + ".new")
    shutil.rmtree(half, ignore_errors=True)
    for name in ("bin", *MOUNT_POINTS):
        (half / name).mkdir(parents=True)
    for program in PROGRAMS:
        found = shutil.which(program, path="/bin:/usr/bin")
        if found is None:
            raise ConfigError(f"the demo's image needs the program {program!r}, which is not in /bin or /usr/bin")
        shutil.copy2(Path(found).resolve(), half / "bin" / program)
        for library in _libraries(found):
            target = half / library.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copy2(library.resolve(), target)
    (half / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (half / "etc/group").write_text("root:x:0:\n")
    shutil.rmtree(directory, ignore_errors=True)
    half.rename(directory)


def _libraries(program: str) -> list[Path]:
    """The shared libraries of a program, by ldd; none for a static one (ldd's exit code is 1 then)."""
    run = subprocess.run(["ldd", program], capture_output=True, text=True, check=False, timeout=30)
    words = [word for line in run.stdout.splitlines() for word in line.split()]
    return [Path(word) for word in words if word.startswith("/") and Path(word).is_file()]
