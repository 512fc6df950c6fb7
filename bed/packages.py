"""Chooses the Debian packages that the bed needs, and installs them.

Shell around pure functions. Packages come from the machine's own apt sources.
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
"""Packages that speed up the rest: dpkg need not wait for the disk, and the image is made meanwhile."""

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
    """The packages that are not installed.

    :param status: the output of ``dpkg-query -W -f '${Package} ${db:Status-Status}\\n'``
    """
    there = {line.split()[0] for line in status.splitlines() if line.endswith(" installed")}
    return [name for name in names if name not in there]


def refusal(*, root: bool, release: str, machine: str) -> str | None:
    """Why this machine cannot have a bed, in a sentence; None if it can.

    :param release: VERSION_CODENAME of /etc/os-release
    :param machine: the output of ``uname -m``
    """
    if root and release == RELEASE and machine == "x86_64":
        return None
    return (
        f"The bed needs root on Debian 12 ({RELEASE}) on x86_64; this is "
        f"{'root' if root else 'no root'} on {release or 'no Debian'} on {machine}."
    )


def codename(text: str | None = None) -> str:
    """VERSION_CODENAME of an os-release file (``text``; None: this machine's); empty if the file lacks it."""
    if text is None:
        path = Path("/etc/os-release")
        text = path.read_text() if path.exists() else ""
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key == "VERSION_CODENAME":
            return value.strip("\"'")
    return ""


def architecture() -> str:
    """The machine's architecture, as in ``uname -m``."""
    return platform.machine()


def sources(targets: str, release: str = RELEASE) -> list[str]:
    """The lines of a sources.list for an image: this machine's sources of its own release, without other suites.

    :param targets: the output of ``apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages'``
    :param release: the release of the image
    """
    pairs = sorted({(line.split()[0], line.split()[1]) for line in targets.splitlines() if len(line.split()) > 1})
    suites = {f"{RELEASE}{kind}": f"{release}{kind}" for kind in ("", "-updates", "-security")}
    return [f"deb [signed-by={_KEYRING}] {address} {suites[suite]} main" for address, suite in pairs if suite in suites]


def newer_source(targets: str) -> str:
    """The line of a sources.list for the release that has Apptainer, on this machine's own mirror of Debian.

    :param targets: as for ``sources``
    :raises BedError: this machine has no source that is a mirror of Debian itself
    """
    for line in targets.splitlines():
        address, _, suite = line.partition(" ")
        if suite.strip() == RELEASE and urlsplit(address).path.strip("/").endswith("debian"):
            # A mirror's copy of that release may be old, as with snapshots.
            return f"deb [check-valid-until=no signed-by={_KEYRING}] {address} {NEWER} main"
    raise BedError(f"apt has no mirror of Debian {RELEASE}; name one in /etc/apt/sources.list.d")


def targets() -> str:
    """The sources that apt takes packages from: one line each with address and suite."""
    return commands.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"],
    )


def install(layout: Layout, names: tuple[str, ...]) -> list[str]:
    """Install the missing packages, without starting their services.

    :return: the packages that had to be installed
    """
    missing = lacking(names, _status(names))
    if missing:
        with _no_services():
            apt(layout, "install", "--no-install-recommends", *missing)
    return missing


def install_needed(names: tuple[str, ...]) -> bool:
    """Whether one of these packages is not installed."""
    return bool(lacking(names, _status(names)))


def update(layout: Layout) -> None:
    """Fetch apt's lists. If a mirror does not answer, the commands that follow report it."""
    with contextlib.suppress(BedError):
        apt(layout, "update")


def apt(layout: Layout, *words: str, cwd: Path | None = None) -> None:
    """Run apt-get. If eatmydata is installed, it keeps dpkg from waiting for the disk at each file."""
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
    """Keep packages from starting their daemons, as the bed starts its own. An existing policy stays."""
    ours = not _POLICY.exists()
    if ours:
        files.write(_POLICY, f"#!/bin/sh\n# {MARK}: no package starts its daemon.\nexit 101\n", mode=0o755)
    try:
        yield
    finally:
        if ours:
            _POLICY.unlink(missing_ok=True)
