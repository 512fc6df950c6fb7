"""What real batch systems printed, as the files of ``recorded/`` keep it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent / "recorded"


@dataclass(frozen=True)
class Recorded:
    """One command of a session, or a file that is all of one command's output."""

    place: str
    command: str
    stdout: str
    stderr: str = ""
    rc: int = 0


def text(name: str) -> str:
    """A whole file."""
    return _read(ROOT / name)


def _read(path: Path) -> str:
    return path.read_text(errors="surrogateescape")


def session(path: Path) -> list[Recorded]:
    """The commands of a file that has them as ``$ command``, then lines of ``stdout| `` and ``stderr| ``, then rc."""
    found = []
    for command, said, rc in re.findall(r"^\$ (.*?)\n(.*?)^rc=(\d+)", _read(path), re.MULTILINE | re.DOTALL):
        out, err = (
            "".join(line[8:] + "\n" for line in said.splitlines() if line.startswith(start))
            for start in ("stdout| ", "stderr| ")
        )
        found.append(Recorded(f"{path.parent.name}/{path.name}", command, out, err, int(rc)))
    return found


def outputs() -> list[Recorded]:
    """Every file as it is, and every command within the sessions that printed something."""
    files = sorted(path for path in ROOT.rglob("*") if path.is_file())
    whole = [Recorded(f"{path.parent.name}/{path.name}", "", _read(path)) for path in files]
    return whole + [one for path in files for one in session(path) if one.stdout]
