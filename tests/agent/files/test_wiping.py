"""Staged credentials go from the directory of a Pod, whatever its user has made of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from router.agent.files.wiping import holds_credentials, wipe
from router.host.local import LocalHost
from router.pod.files import Staged
from router.pod.layout import PodDirectory

FILES = {"env/main": b"S=x\0", "argv/main": b"a\0", "files/v/key": b"x", "log/main.0": b"log", "credentials": b""}


@pytest.fixture
def host(tmp_path: Path) -> LocalHost:
    return LocalHost(tmp_path / "site")


@pytest.fixture
def directory(host: LocalHost, tmp_path: Path) -> PodDirectory:
    found = PodDirectory(str(tmp_path / "site"), "job", "noindex", "pod")
    host.write_pod(found.path, Staged(FILES))
    return found


def test_what_was_staged_goes_and_the_rest_stays(host: LocalHost, directory: PodDirectory) -> None:
    assert wipe(host, directory)
    assert sorted(host.names(directory.path)) == ["exit", "log"]
    assert not wipe(host, directory)


def test_a_pod_without_credentials_is_left_alone(host: LocalHost, directory: PodDirectory) -> None:
    host.remove(directory.path / "credentials")

    assert not wipe(host, directory)
    assert "env" in host.names(directory.path)


def _link(path: Path) -> None:
    (path / "env" / "main").unlink()
    (path / "env").rmdir()
    (path / "env").symlink_to(path.parent.parent.parent.parent / "precious")


@pytest.mark.parametrize("change", [_link, lambda path: (path / "files" / "v").chmod(0)], ids=["link", "locked"])
def test_no_link_is_followed_and_a_locked_directory_goes(
    host: LocalHost, directory: PodDirectory, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    (tmp_path / "site" / "precious").mkdir()
    (tmp_path / "site" / "precious" / "main").touch()
    change(Path(directory.path))

    assert wipe(host, directory)
    assert sorted(host.names(directory.path)) == ["exit", "log"]
    assert (tmp_path / "site" / "precious" / "main").exists()


def test_what_cannot_go_yet_is_tried_again(
    host: LocalHost, directory: PodDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_self: LocalHost, path: object) -> None:
        raise OSError(5, "input/output error", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(LocalHost, "remove_tree", fail)
        with pytest.raises(OSError, match="input/output error"):
            wipe(host, directory)

    assert holds_credentials(host, directory)
    assert wipe(host, directory)
