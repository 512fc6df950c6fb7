"""What is mounted below a folder that is to be removed."""

from __future__ import annotations

from pathlib import Path

from kindcluster import mounts

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


def test_a_folder_is_removed_and_one_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True)

    mounts.discard(folder)
    mounts.discard(folder)

    assert list(tmp_path.iterdir()) == []
