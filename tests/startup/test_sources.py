"""Values that follow their files."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from router.errors import ConfigError
from router.startup.sources import FileSource, watch
from tests.webhook.servers import until

LOG = logging.getLogger("test")


def _source(path: Path, unknown: int | None = None) -> FileSource[int]:
    def read() -> int:
        try:
            return int(path.read_text())
        except (OSError, ValueError):
            raise ConfigError(f"{path.name} holds no number") from None

    return FileSource("number", (path,), read, LOG, unknown)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "n"
    path.write_text("1")
    source = _source(path)

    path.write_text("22")
    source.check()

    assert (source.value, source.error, source.failures) == (22, "", 0)


def test_a_swapped_link_above_the_file_is_a_change(tmp_path: Path) -> None:
    for name, value in (("one", "1"), ("two", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "n").write_text(value)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "n").symlink_to("..data/n")
    source = _source(tmp_path / "n")

    (tmp_path / "new").symlink_to("two")
    (tmp_path / "new").replace(tmp_path / "..data")
    source.check()

    assert source.value == 2


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "n"
    path.write_text("1")
    reads = []
    source = FileSource("number", (path,), lambda: reads.append(1), LOG)

    source.check()
    source.check()

    assert reads == [1]


def test_a_bad_change_keeps_the_last_good_value(tmp_path: Path) -> None:
    path = tmp_path / "n"
    path.write_text("1")
    source = _source(path)

    path.write_text("x")
    source.check()
    source.check()
    assert (source.value, source.error, source.failures) == (1, "n holds no number", 1)

    path.write_text("3")
    source.check()
    assert (source.value, source.error, source.failures) == (3, "", 1)


def test_what_stands_for_unknown_replaces_the_last_good_value(tmp_path: Path) -> None:
    path = tmp_path / "n"
    path.write_text("1")
    source = _source(path, unknown=-1)
    assert source.value == 1

    path.unlink()
    source.check()

    assert (source.value, source.error, source.modified) == (-1, "n holds no number", None)


def test_an_error_that_goes_away_by_itself_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "n"
    path.write_text("1")
    good = [True]

    def read() -> int:
        if not good[0]:
            raise ConfigError("not yet")
        return 1

    source = FileSource("number", (path,), read, LOG)
    good[0] = False
    path.write_text("11")
    source.check()
    assert source.error == "not yet"

    good[0] = True
    source.check()

    assert source.error == ""


def test_files_unusable_at_the_start_raise_unless_that_is_foreseen(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        _source(tmp_path / "n")

    assert _source(tmp_path / "n", unknown=0).error == "n holds no number"


def test_errors_are_logged_once_each(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "n"
    path.write_text("1")
    source = _source(path)
    path.write_text("x")

    for _ in range(3):
        source.check()

    assert [record.message for record in caplog.records] == ["reload failed; the last good one stays in force"]


def test_a_watcher_looks_at_every_source(tmp_path: Path) -> None:
    path = tmp_path / "n"
    path.write_text("1")
    source = _source(path)
    loop = watch((source,), 0.01)

    path.write_text("22")

    until(lambda: source.value == 22)
    assert loop.alive
    loop.stop()
    loop.await_end(30)
    assert not loop.alive


def test_what_grows_too_old_is_unknown_until_it_is_renewed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "n"
    path.write_text("1")
    too_old: list[tuple[int, bool]] = []

    def stale(value: int, modified: float | None) -> str:
        return "is too old" if (value, modified is not None) in too_old else ""

    source = FileSource("number", (path,), lambda: int(path.read_text()), LOG, -1, stale)
    assert (source.value, source.error) == (1, "")

    too_old.append((1, True))
    source.check()
    source.check()
    assert (source.value, source.error, source.failures) == (-1, "is too old", 1)
    assert [record.message for record in caplog.records] == ["reload failed; nothing is known now"]

    path.write_text("22")
    source.check()
    assert (source.value, source.error) == (22, "")
