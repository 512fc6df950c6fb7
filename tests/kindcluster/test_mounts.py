"""What is mounted below a folder that is to be removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kindcluster import mounts
from kindcluster.commands import KindError

MOUNTS = """\
/dev/vda / ext4 rw 0 0
proc /c/root/proc proc rw 0 0
dev /c/root/dev devtmpfs rw 0 0
pts /c/root/dev/pts devpts rw 0 0
/dev/vda /c/rooted ext4 rw 0 0
/dev/vda /c/with\\040space ext4 rw 0 0
"""


def test_inner_mounts_come_before_outer_ones() -> None:
    found = {
        name: [str(one) for one in mounts.below(MOUNTS, Path(name))]
        for name in ("/c/root", "/c", "/c/root/dev/pts", "/d")
    }

    assert found == {
        "/c/root": ["/c/root/dev/pts", "/c/root/dev", "/c/root/proc"],
        "/c": ["/c/with space", "/c/rooted", "/c/root/dev/pts", "/c/root/dev", "/c/root/proc"],
        "/c/root/dev/pts": ["/c/root/dev/pts"],
        "/d": [],
    }


def test_nothing_is_removed_while_something_is_mounted_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "root" / "dev").mkdir(parents=True)
    (tmp_path / "root" / "dev" / "precious").touch()
    (tmp_path / "mounts").write_text(f"tmpfs {tmp_path}/root/dev tmpfs rw 0 0\n")
    monkeypatch.setattr(mounts, "_MOUNTS", tmp_path / "mounts")
    # An unmount that is said to have worked; the mount is there still.
    monkeypatch.setattr(mounts, "unmount", lambda _: None)

    with pytest.raises(KindError, match=r"/root is not removed: .*/root/dev is mounted"):
        mounts.discard(tmp_path / "root")

    assert (tmp_path / "root" / "dev" / "precious").exists()


def test_a_folder_is_removed_and_one_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True)

    mounts.discard(folder)
    mounts.discard(folder)

    assert list(tmp_path.iterdir()) == []
