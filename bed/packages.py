"""Debian's packages: which the bed needs, and installing them.

Pure but for ``install`` and ``codename``. Packages come from the machine's own apt sources, whatever they are.
"""

from __future__ import annotations

import contextlib
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bed import commands, files
from bed.commands import BedError
from bed.layout import MARK, Layout, Variant

RELEASE: Final = "bookworm"
NEWER: Final = "sid"
"""The only release of Debian with Apptainer."""

FIRST: Final = ("eatmydata", "mmdebstrap")
"""What makes the rest quick: no waiting for the disk at each package, and the image made meanwhile."""

SITE: Final = (
    *("slurm-wlm", "munge", "openssh-server", "openssh-client", "sudo"),
    *("openmpi-bin", "libopenmpi-dev", "gcc", "libc6-dev"),
    *("sshfs", "fuse3", "squashfs-tools", "squashfuse", "fuse2fs", "fuse-overlayfs", "fakeroot", "gocryptfs", "uidmap"),
    *("util-linux", "procps", "python3-minimal", "ca-certificates"),
)
ACCOUNTING: Final = ("slurmdbd", "mariadb-server-core", "mariadb-client-core")
"""MariaDB's programs without its service: the bed has a data directory of its own."""

_POLICY: Final = Path("/usr/sbin/policy-rc.d")
_KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"


def wanted(variant: Variant) -> tuple[str, ...]:
    """The packages of a variant."""
    return (*FIRST, *SITE, *(ACCOUNTING if variant.accounting else ()))


def lacking(names: tuple[str, ...], status: str) -> list[str]:
    """Those that are not installed.

    :param status: what ``dpkg-query -W -f '${Package} ${db:Status-Status}\\n'`` says
    """
    there = {line.split()[0] for line in status.splitlines() if line.endswith(" installed")}
    return [name for name in names if name not in there]


def refusal(*, root: bool, release: str, machine: str) -> str | None:
    """Why this machine cannot have a bed, in a sentence; None where it can.

    :param release: VERSION_CODENAME of /etc/os-release
    :param machine: as ``uname -m`` says
    """
    if root and release == RELEASE and machine == "x86_64":
        return None
    return (
        f"The bed needs root on Debian 12 ({RELEASE}) on x86_64; this is "
        f"{'root' if root else 'no root'} on {release or 'no Debian'} on {machine}."
    )


def codename(text: str | None = None) -> str:
    """VERSION_CODENAME of an os-release file, of this machine's without ``text``; empty where it says none."""
    if text is None:
        path = Path("/etc/os-release")
        text = path.read_text() if path.exists() else ""
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key == "VERSION_CODENAME":
            return value.strip("\"'")
    return ""


def architecture() -> str:
    """As ``uname -m`` says."""
    return platform.machine()


def sources(targets: str, release: str = RELEASE) -> list[str]:
    """The lines of a sources.list for an image: where this machine takes its own release from, without other suites.

    :param release: of the image targets: what ``apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages'`` says
    """
    pairs = sorted({(line.split()[0], line.split()[1]) for line in targets.splitlines() if len(line.split()) > 1})
    suites = {f"{RELEASE}{kind}": f"{release}{kind}" for kind in ("", "-updates", "-security")}
    return [f"deb [signed-by={_KEYRING}] {address} {suites[suite]} main" for address, suite in pairs if suite in suites]


def newer_source(targets: str) -> str:
    """The line of a sources.list for the release that has Apptainer, on the mirror that this machine takes Debian from.

    :param targets: as for ``sources``
    :raises BedError: no source of this machine is a mirror of Debian itself
    """
    for line in targets.splitlines():
        address, _, suite = line.partition(" ")
        if suite.strip() == RELEASE and urlsplit(address).path.strip("/").endswith("debian"):
            # A mirror's copy of that release may be old, as those of snapshots are.
            return f"deb [check-valid-until=no signed-by={_KEYRING}] {address} {NEWER} main"
    raise BedError(f"apt has no mirror of Debian {RELEASE}; name one in /etc/apt/sources.list.d")


def targets() -> str:
    """What apt takes packages from: address and suite a line."""
    return commands.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"],
    )


def install(layout: Layout, names: tuple[str, ...]) -> list[str]:
    """Install what lacks, without starting any service.

    :return: what had to be installed
    """
    missing = lacking(names, _status(names))
    if missing:
        with _no_services():
            apt(layout, "install", "--no-install-recommends", *missing)
    return missing


def install_needed(names: tuple[str, ...]) -> bool:
    """Whether one of them is not installed."""
    return bool(lacking(names, _status(names)))


def update(layout: Layout) -> None:
    """Fetch apt's lists; a mirror that does not answer is told by what follows."""
    with contextlib.suppress(BedError):
        apt(layout, "update")


def apt(layout: Layout, *words: str, cwd: Path | None = None) -> None:
    """Run apt-get. Where it is installed, eatmydata keeps dpkg from waiting for the disk at each file."""
    quick = ["eatmydata"] if shutil.which("eatmydata", path=commands.PATH) else []
    options = ["-y", "-qq", "-o", "DPkg::Lock::Timeout=120", "-o", "Dpkg::Use-Pty=0", "-o", "Acquire::Languages=none"]
    done = commands.attempt([*quick, "apt-get", *options, *words], cwd=cwd)
    with (layout.logs / "apt.log").open("a", encoding="utf-8") as log:
        log.write(f"# apt-get {' '.join(words)}\n{done.stdout}{done.stderr}")
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        raise BedError(f"apt-get {words[0]} failed: {' '.join(said) or 'see'} ({layout.logs / 'apt.log'})")


def _status(names: tuple[str, ...]) -> str:
    return commands.attempt(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\\n", *names]).stdout


@contextlib.contextmanager
def _no_services() -> Iterator[None]:
    """Keep packages from starting their daemons: the bed starts its own. A policy that is there already stays."""
    ours = not _POLICY.exists()
    if ours:
        files.write(_POLICY, f"#!/bin/sh\n# {MARK}: no package starts its daemon.\nexit 101\n", mode=0o755)
    try:
        yield
    finally:
        if ours:
            _POLICY.unlink(missing_ok=True)
