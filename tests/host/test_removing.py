"""Removing what programs left behind: deep, closed, linked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from router.host.local import LocalHost


@pytest.fixture
def host(tmp_path: Path) -> LocalHost:
    (tmp_path / "site").mkdir()
    return LocalHost(tmp_path / "site")


def test_a_tree_that_is_deeper_than_any_path_or_stack(host: LocalHost, tmp_path: Path) -> None:
    here = os.open(tmp_path / "site", os.O_RDONLY)
    for name in ["pod"] + ["d" * 200] * 2000:  # no path is longer than 4096 bytes
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)

    host.remove_tree(tmp_path / "site" / "pod")

    assert list((tmp_path / "site").iterdir()) == []


def test_directories_that_nobody_may_change(host: LocalHost, tmp_path: Path) -> None:
    for mode in (0o500, 0o000):
        for name in ("a", "a/b", "a/b/c"):
            (tmp_path / "site" / "pod" / str(mode) / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / "pod" / str(mode) / "a" / "b" / "file").touch(mode=0)
        for name in ("a/b/c", "a/b", "a"):
            (tmp_path / "site" / "pod" / str(mode) / name).chmod(mode)

    host.remove_tree(tmp_path / "site" / "pod")

    assert list((tmp_path / "site").iterdir()) == []


def test_links_are_removed_and_not_what_they_lead_to(host: LocalHost, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir(mode=0o755)
    (tmp_path / "precious" / "file").touch()
    pod = tmp_path / "site" / "pod"
    (pod / "a").mkdir(parents=True)
    (pod / "link").symlink_to(tmp_path / "precious")
    (pod / "a" / "link").symlink_to(tmp_path / "precious" / "file")
    (pod / "a" / "up").symlink_to("..")
    os.mkfifo(pod / "a" / "pipe")

    host.remove_tree(pod)

    assert [path.name for path in (tmp_path / "precious").iterdir()] == ["file"]
    assert (tmp_path / "precious").stat().st_mode & 0o777 == 0o755


def test_a_link_in_the_place_of_a_directory_is_not_followed(host: LocalHost, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "site" / "pod").symlink_to(tmp_path / "precious")

    with pytest.raises(OSError, match="pod"):
        host.remove_tree(tmp_path / "site" / "pod")
    assert (tmp_path / "precious").exists()


def test_an_empty_directory_goes_and_others_stay(host: LocalHost, tmp_path: Path) -> None:
    (tmp_path / "site" / "full" / "below").mkdir(parents=True)

    for name in ("full", "full/below", "none", "none/below"):
        host.remove_directory(tmp_path / "site" / name)

    assert (tmp_path / "site" / "full").exists()
    host.remove_directory(tmp_path / "site" / "full")
    assert list((tmp_path / "site").iterdir()) == []
