from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from router.errors import ConfigError, PolicyError
from router.startup.policyfiles import PolicyStore, read_directory
from router.startup.sources import watch

GOOD = "rules: [{name: rest, cloud: true}]\n"
OTHER = "rules: [{name: other, cloud: true}]\n"
BAD = "rules: [{name: rest, clod: true}]\n"


def _write(directory: Path, **files: str) -> Path:
    directory.mkdir(exist_ok=True)
    for name, text in files.items():
        (directory / f"{name}.yaml").write_text(text)
    return directory


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A directory that everybody may enter; pytest's own are their user's alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextlib.contextmanager
def _without_privileges() -> Iterator[None]:
    """Root may read everything: be nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def _config_map(directory: Path, version: str, text: str) -> None:
    """What a kubelet does: files are links through ``..data``, a link that is swapped by renaming."""
    data = directory / f"..{version}"
    data.mkdir(parents=True)
    (data / "rules.yaml").write_text(text)
    (directory / "..new").symlink_to(data.name)
    (directory / "..new").rename(directory / "..data")
    link = directory / "rules.yaml"
    if not link.is_symlink():
        link.symlink_to("..data/rules.yaml")


def test_yaml_files_that_are_not_hidden(tmp_path: Path) -> None:
    directory = _write(tmp_path / "p", a=GOOD)
    (directory / "b.yml").write_text("\ufeff# é\n")
    for name in (".hidden.yaml", "README.md", "c.yaml~", "#d.yaml#"):
        (directory / name).write_text("no policy")

    assert read_directory(directory) == {"a.yaml": GOOD, "b.yml": "# é\n"}


def test_a_config_map(tmp_path: Path) -> None:
    _config_map(tmp_path, "2024_1", GOOD)

    assert read_directory(tmp_path) == {"rules.yaml": GOOD}


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no such policy directory$"):
        read_directory(tmp_path / "none")


def test_a_file_for_a_directory(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(GOOD)

    with pytest.raises(ConfigError, match="is a file; name the directory"):
        read_directory(tmp_path / "p.yaml")


def test_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("x")

    with pytest.raises(ConfigError, match=r"holds no policy file \(\*\.yaml\)"):
        read_directory(tmp_path)


def test_every_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    _write(tmp_path, good=GOOD)
    (tmp_path / "a.yaml").mkdir()
    (tmp_path / "b.yaml").write_bytes(b"rules: []\n# \xff\n")
    (tmp_path / "c.yaml").symlink_to("nowhere")
    (tmp_path / "d.yaml").write_bytes(b" " * (4 * 1024 * 1024 + 1))

    os.mkfifo(tmp_path / "e.yaml")  # to open it would wait for a writer

    with pytest.raises(PolicyError) as caught:
        read_directory(tmp_path)

    assert str(caught.value).splitlines() == [
        "a.yaml: is a directory; a policy file was expected here",
        "b.yaml: line 2 is not UTF-8 (byte 0xff); save the file as UTF-8",
        "c.yaml: cannot be read: No such file or directory",
        "d.yaml: is larger than 4 MiB",
        "e.yaml: is no ordinary file; a policy file was expected here",
    ]


def test_a_file_without_permission(open_to_all: Path) -> None:
    _write(open_to_all, a=GOOD)
    (open_to_all / "a.yaml").chmod(0)

    with _without_privileges(), pytest.raises(PolicyError, match=r"a\.yaml: cannot be read: Permission denied"):
        read_directory(open_to_all)


# --- following ----------------------------------------------------------------------------------------------------


def _names(store: PolicyStore) -> list[str]:
    return [rule.name for rule in store.policy.rules] if store.policy is not None else []


def test_a_first_load_that_is_bad_raises_and_says_why(tmp_path: Path) -> None:
    store = PolicyStore(_write(tmp_path / "p", a=BAD))

    with pytest.raises(PolicyError, match="unknown key 'clod'"):
        store.load()

    assert (store.policy, store.generation, store.failures, store.loaded_at) == (None, 0, 1, None)
    assert "a.yaml:1:22: rule rest: unknown key 'clod'" in store.error


def test_a_bad_reload_keeps_the_last_good_and_the_next_good_one_repairs_it(tmp_path: Path) -> None:
    before = datetime.now(tz=UTC)
    directory = _write(tmp_path / "p", a=GOOD)
    told: list[tuple[int, bool]] = []
    store = PolicyStore(directory, lambda reloaded: told.append((reloaded.generation, reloaded.error == "")))
    store.load()
    assert store.loaded_at is not None
    assert store.loaded_at >= before

    _write(directory, a=BAD)
    assert store.check_now() is True
    assert (_names(store), store.generation, store.failures) == (["rest"], 1, 1)
    assert "unknown key 'clod'" in store.error
    assert store.check_now() is False

    _write(directory, a=OTHER)
    assert store.check_now() is True
    assert (_names(store), store.generation, store.failures, store.error) == (["other"], 2, 1, "")
    assert told == [(1, False), (2, True)]


def test_going_back_to_the_policy_in_force_clears_the_error(tmp_path: Path) -> None:
    directory = _write(tmp_path / "p", a=GOOD)
    store = PolicyStore(directory)
    policy = store.load()
    _write(directory, a=BAD)
    store.check_now()

    _write(directory, a=GOOD)
    store.check_now()

    assert (store.policy is policy, store.generation, store.error) == (True, 1, "")


CHANGES: list[tuple[str, Callable[[Path], object]]] = [
    ("another file", lambda p: (p / "b.yaml").write_text("sites: []\n")),
    ("same size", lambda p: (p / "a.yaml").write_text(GOOD.replace("rest", "tser"))),
    ("a file less", lambda p: (p / "extra.yaml").unlink()),
    ("renamed", lambda p: (p / "extra.yaml").rename(p / "z.yaml")),
    ("replaced", lambda p: (p / "n").write_text(OTHER) and (p / "n").rename(p / "a.yaml")),
]


@pytest.mark.parametrize("change", [row[1] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_every_change_is_seen(tmp_path: Path, change: Callable[[Path], object]) -> None:
    directory = _write(tmp_path / "p", a=GOOD, extra="accounts: []\n")
    store = PolicyStore(directory)
    first = store.load()

    change(directory)

    assert store.check_now() is True
    assert (store.policy is first, store.generation, store.error) == (False, 2, "")


def test_a_file_that_nobody_may_read_is_repaired_by_its_mode_alone(open_to_all: Path) -> None:
    directory = _write(open_to_all, a=GOOD)
    store = PolicyStore(directory)
    store.load()
    replaced = directory / "new"
    replaced.write_text(OTHER)
    replaced.chmod(0)
    replaced.rename(directory / "a.yaml")

    with _without_privileges():
        assert store.check_now() is True
    assert "a.yaml: cannot be read: Permission denied" in store.error
    (directory / "a.yaml").chmod(0o644)
    assert store.check_now() is True

    assert (_names(store), store.generation, store.error) == (["other"], 2, "")


def test_a_config_map_swap_is_seen(tmp_path: Path) -> None:
    directory = tmp_path / "mount"
    _config_map(directory, "2024_1", GOOD)
    store = PolicyStore(directory)
    store.load()

    _config_map(directory, "2024_2", OTHER)

    assert store.check_now() is True
    assert (_names(store), store.generation) == (["other"], 2)


def test_a_directory_that_goes_and_comes_back(tmp_path: Path) -> None:
    directory = _write(tmp_path / "p", a=GOOD)
    store = PolicyStore(directory)
    store.load()
    directory.rename(tmp_path / "away")

    assert store.check_now() is True
    assert "there is no such policy directory" in store.error
    assert store.check_now() is False
    assert _names(store) == ["rest"]

    (tmp_path / "away").rename(directory)
    assert store.check_now() is True
    assert (store.error, store.failures) == ("", 1)


def test_a_directory_that_comes_late(tmp_path: Path) -> None:
    store = PolicyStore(tmp_path / "p")
    assert store.check_now() is True
    assert (store.policy, store.check_now()) == (None, False)

    _write(tmp_path / "p", a=GOOD)
    store.check_now()

    assert _names(store) == ["rest"]


def test_a_watcher_follows_changes(tmp_path: Path) -> None:
    directory = _write(tmp_path / "p", a=GOOD)
    seen = threading.Event()
    store = PolicyStore(directory, lambda _: seen.set())
    store.load()
    loop = watch((store,), 0.01)
    try:
        _write(directory, a=OTHER)
        assert seen.wait(30)
        assert _until(lambda: _names(store) == ["other"])
    finally:
        loop.stop()
        loop.await_end(30)


def _until(holds: Callable[[], bool]) -> bool:
    """A half-written file may be seen first; the next look repairs it."""
    deadline = time.monotonic() + 30
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    return holds()
