from __future__ import annotations

import os
from pathlib import Path

import pytest

from router.host.local import LocalHost
from router.kubelet.index import Mark
from router.kubelet.indexes import Indexes, Run
from router.pod.layout import PodDirectory

NOW = 1_700_000_000


@pytest.fixture
def run(tmp_path: Path) -> Run:
    root = tmp_path / "site"
    root.mkdir(mode=0o700)
    directory = PodDirectory(str(root), "job", "0", "uid")
    Path(directory.log("main")).parent.mkdir(parents=True)
    return Run(LocalHost(root), directory, "main", 0)


def grow(run: Run, size: int, modified: int) -> None:
    with Path(run.log).open("ab") as file:
        file.truncate(size)
    os.utime(run.log, (modified, modified))


def indexes(write_seconds: float = 0, now: float = NOW) -> Indexes:
    return Indexes(write_seconds, lambda: now)


def test_what_was_seen_is_known_and_kept(run: Run) -> None:
    kept = indexes()
    kept.look(run)
    grow(run, 10, NOW - 50)
    kept.look(run)
    kept.look(run)
    grow(run, 30, NOW - 20)
    kept.look(run)

    expected = (Mark((NOW - 50) * 1000, 10), Mark((NOW - 20) * 1000, 30))
    assert kept.marks(run) == expected
    assert indexes().marks(run) == expected
    assert Path(run.index).name == ".main.0.index"
    assert Path(run.index).stat().st_mode & 0o777 == 0o600


def test_a_new_agent_goes_on_where_the_old_one_was_killed(run: Run) -> None:
    grow(run, 10, NOW - 50)
    indexes().look(run)
    grow(run, 30, NOW - 20)

    indexes().look(run)

    assert indexes().marks(run) == (Mark((NOW - 50) * 1000, 10), Mark((NOW - 20) * 1000, 30))


def test_writes_are_few_and_the_end_writes_what_is_left(run: Run) -> None:
    kept = indexes(write_seconds=3600)
    for size in (10, 20, 30):
        grow(run, size, NOW - 50)
        kept.look(run)
    assert not Path(run.index).exists()
    assert kept.marks(run)[-1] == Mark((NOW - 50) * 1000, 30)

    grow(run, 40, NOW - 40)
    kept.end(run)

    assert indexes().marks(run)[-1] == Mark((NOW - 40) * 1000, 40)
    assert kept._growing == {}


def test_a_reader_of_a_living_log_makes_times_finer(run: Run) -> None:
    kept = indexes()
    kept.saw(run, 5, (NOW - 60) * 1000)
    assert kept.marks(run) == ()

    kept.look(run)
    kept.saw(run, 10, (NOW - 50) * 1000)
    kept.saw(run, 10, (NOW - 40) * 1000)
    kept.saw(run, 20, (NOW + 40) * 1000)

    assert kept.marks(run) == (Mark((NOW - 50) * 1000, 10), Mark(NOW * 1000, 20))


def test_a_log_that_is_not_there_or_is_a_link_has_no_times(run: Run, tmp_path: Path) -> None:
    kept = indexes()
    kept.look(run)
    (tmp_path / "secret").write_bytes(b"something")
    Path(run.log).symlink_to(tmp_path / "secret")

    kept.look(run)
    kept.end(run)

    assert kept.marks(run) == ()
    assert not Path(run.index).exists()


def test_an_index_that_is_a_link_is_not_followed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"1 2\n")
    Path(run.index).symlink_to(tmp_path / "secret")
    grow(run, 10, NOW)

    with pytest.raises(OSError, match=r"."):
        indexes().look(run)

    assert (tmp_path / "secret").read_bytes() == b"1 2\n"


def test_a_file_that_the_users_program_wrote_is_bounded(run: Run) -> None:
    Path(run.index).write_bytes(b"1 2\n" + b"x" * 10_000_000)

    assert indexes().marks(run) == (Mark(1, 2),)
