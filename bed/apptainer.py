"""Installs Apptainer, which only Debian's newest release has, and makes it run on this release.

Shell, except ``older_control``: fetches one package with package lists of its own, so that apt upgrades only this one.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

from bed import commands, elf, files, packages
from bed.commands import BedError
from bed.layout import Layout

GLIBC: Final = (2, 36)
"""Debian 12's."""
_SETTINGS: Final = Path("/etc/apptainer/apptainer.conf")


def install(layout: Layout) -> bool:
    """Install Apptainer if it is missing.

    :return: whether it had to be installed
    :raises BedError: the package cannot be fetched, or needs more than a newer glibc's names
    """
    if shutil.which("apptainer", path=commands.PATH):
        return False
    directory = layout.state / "apptainer"
    shutil.rmtree(directory, ignore_errors=True)
    files.directory(directory / "lists" / "partial")
    files.directory(directory / "archives" / "partial")
    (package,) = _fetch(layout, directory)
    tree = directory / "tree"
    commands.run(["dpkg-deb", "-R", package, tree])
    _make_older(tree)
    commands.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", tree, directory / "apptainer.deb"])
    packages.apt(layout, "install", "--no-install-recommends", str(directory / "apptainer.deb"))
    shutil.rmtree(directory)
    commands.run(["apptainer", "--version"])
    return True


def _fetch(layout: Layout, directory: Path) -> list[Path]:
    (directory / "sources.list").write_text(packages.newer_source(packages.targets()) + "\n")
    settings = {
        "Dir::Etc::sourcelist": directory / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": directory / "lists",
        "Dir::Cache::archives": directory / "archives",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "APT::Sandbox::User": "root",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    packages.apt(layout, *options, "update")
    packages.apt(layout, *options, "download", "apptainer", cwd=directory)
    return list(directory.glob("apptainer_*.deb"))


def _make_older(tree: Path) -> None:
    changed = []
    for path in tree.rglob("*"):
        if path.is_symlink() or not path.is_file() or path.open("rb").read(4) != b"\x7fELF":
            continue
        before = path.read_bytes()
        try:
            after = elf.with_older_glibc(before, GLIBC)
        except elf.UnsuitableError as error:
            raise BedError(f"this Apptainer cannot run on glibc {GLIBC[0]}.{GLIBC[1]}: {path.name}: {error}") from None
        if after != before:
            path.write_bytes(after)
            changed.append(str(path.relative_to(tree)))
    control = tree / "DEBIAN" / "control"
    control.write_text(older_control(control.read_text()))
    sums = tree / "DEBIAN" / "md5sums"
    kept = [line for line in sums.read_text().splitlines() if line.split(maxsplit=1)[1] not in changed]
    sums.write_text("\n".join(kept) + "\n")


def older_control(text: str) -> str:
    """A package's control file with a version of its own, which depends only on Debian 12's glibc."""
    text = re.sub(r"^(Version: .*)$", r"\1~bed", text, count=1, flags=re.MULTILINE)
    return re.sub(r"libc6 \(>= [^)]*\)", f"libc6 (>= {GLIBC[0]}.{GLIBC[1]})", text)


def configure() -> None:
    """Let root run containers without having all capabilities, as on some virtual machines."""
    if _SETTINGS.exists():
        text = _SETTINGS.read_text()
        _SETTINGS.write_text(text.replace("root default capabilities = full", "root default capabilities = file"))
