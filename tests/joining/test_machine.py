"""Files that an admin's command corrects in a directory of the agent's account, which may change it meanwhile."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from router.errors import ConfigError
from router.joining import machine
from router.joining.planning import File

OWNER, GROUP = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name


def _link(path: Path, other: Path) -> None:
    path.unlink()
    path.symlink_to(other)


def _pipe(path: Path, _: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("swap", [_link, _pipe])
def test_what_was_exchanged_meanwhile_gets_no_other_owner_or_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: Callable[[Path, Path], None]
) -> None:
    other, token = tmp_path / "shadow", tmp_path / "token"
    for path in (other, token):
        path.write_text("text\n")
        path.chmod(0o640)

    def read(path: Path) -> str:
        text = path.read_text()
        swap(path, other)
        return text

    monkeypatch.setattr(machine, "read", read)

    with pytest.raises(ConfigError, match="move it away"):
        machine.put_file(File(str(token), "text\n", OWNER, GROUP, 0o600))
    assert stat.S_IMODE(other.stat().st_mode) == 0o640


def test_a_file_with_another_mode_is_corrected(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("text\n")
    token.chmod(0o640)
    wanted = File(str(token), "text\n", OWNER, GROUP, 0o600)

    assert [machine.put_file(wanted) for _ in range(2)] == ["corrected", "unchanged"]
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
