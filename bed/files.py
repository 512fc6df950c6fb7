"""Writes files outside the state directory, and knows which of them are the bed's.

Shell: reads and writes files. It only overwrites files that the bed has made.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Final

from bed.commands import BedError
from bed.layout import MARK, MUNGE_KEY, SLURM, Layout

_CLAIMS: Final = "claims.json"
GUARDED: Final = tuple(
    SLURM / name for name in ("slurm.conf", "slurmdbd.conf", "gres.conf", "cgroup.conf", "plugstack.conf.d/bed.conf")
)


def check(layout: Layout) -> None:
    """Check that this machine belongs to no cluster.

    :raises BedError: it has a Slurm configuration or a munge key that the bed did not make
    """
    for path in GUARDED:
        if path.exists() and not is_marked(path):
            raise BedError(
                f"{path} is there and is not the bed's: this machine belongs to a cluster. Nothing was changed."
            )
    claims = _claims(layout)
    if MUNGE_KEY.exists() and claims.get(str(MUNGE_KEY), "") not in {_EXPECTED, _digest(MUNGE_KEY)}:
        raise BedError(
            f"{MUNGE_KEY} is there and is not the bed's: this machine belongs to a cluster. Nothing was changed."
        )


_EXPECTED: Final = "expected"


def expect_munge_key(layout: Layout) -> None:
    """Note, before the package munge is installed, that it will make a key, in case this run is interrupted."""
    claims = _claims(layout)
    if not MUNGE_KEY.exists() and str(MUNGE_KEY) not in claims:
        _save(layout, {**claims, str(MUNGE_KEY): _EXPECTED})


def claim_munge_key(layout: Layout) -> None:
    """Note the digest of the package's key, so that another key in its place is recognized."""
    claims = _claims(layout)
    if MUNGE_KEY.exists() and claims.get(str(MUNGE_KEY)) == _EXPECTED:
        _save(layout, {**claims, str(MUNGE_KEY): _digest(MUNGE_KEY)})


def remove_munge_key(layout: Layout) -> None:
    """Remove the key that came with the package; any other key stays."""
    if MUNGE_KEY.exists() and _claims(layout).get(str(MUNGE_KEY)) == _digest(MUNGE_KEY):
        MUNGE_KEY.unlink()


def is_marked(path: Path) -> bool:
    """Whether the bed wrote this file."""
    with path.open(encoding="utf-8", errors="replace") as stream:
        return MARK in stream.readline()


def write(path: Path, text: str, *, mode: int = 0o644, owner: str | None = None) -> bool:
    """Write one of the bed's files, in one step.

    :param owner: user and group; None: root
    :return: whether its text is new
    :raises BedError: a file that is not the bed's is there
    """
    if path.is_symlink() or (path.exists() and not is_marked(path) and path.read_text() != text):
        raise BedError(f"{path} is there and is not the bed's; move it away first. It was not changed.")
    changed = not path.exists() or path.read_text() != text
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    new.touch(mode=0o600, exist_ok=False)
    new.write_text(text)
    if owner:
        shutil.chown(new, owner, owner)
    new.chmod(mode)
    new.replace(path)
    return changed


def directory(path: Path, *, mode: int = 0o755, owner: str | None = None) -> Path:
    """Make a directory with this mode and owner, or correct them."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)
    if owner:
        shutil.chown(path, owner, owner)
    return path


def replace_section(text: str, section: str) -> str:
    """A file's text with the bed's section at its end, in place of an older one; an empty section removes it.

    Pure. The section stands between two marked lines, for files that others write as well.
    """
    begin, end = f"# {MARK}: begin", f"# {MARK}: end"
    kept, inside = [], False
    for line in text.splitlines():
        if line == begin:
            inside = True
        elif line == end:
            inside = False
        elif not inside:
            kept.append(line)
    if section:
        kept += [begin, *section.splitlines(), end]
    return "\n".join(kept) + "\n" if kept else ""


def set_section(path: Path, section: str) -> None:
    """Apply ``replace_section`` to a file."""
    before = path.read_text() if path.exists() else ""
    after = replace_section(before, section)
    if after != before:
        path.write_text(after)


def _claims(layout: Layout) -> dict[str, str]:
    try:
        return dict(json.loads((layout.state / _CLAIMS).read_text()))
    except FileNotFoundError:
        return {}


def _save(layout: Layout, claims: dict[str, str]) -> None:
    directory(layout.state)
    (layout.state / _CLAIMS).write_text(json.dumps(claims, indent=2) + "\n")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
