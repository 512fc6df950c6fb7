"""The files of a decision log, as they are opened while it is written and rotated."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from router.startup.logfiles import open_log
from router.webhook.decisionlog import append


def numbers(path: Path) -> list[int]:
    """What stands in the files of a log, the oldest first."""
    with open_log(path) as found:
        opened = [one.file for one in reversed(found.values()) if one.file is not None]
        return [int(line) for file in opened for line in file.read().splitlines()]


def test_the_files_are_those_of_one_moment(tmp_path: Path) -> None:
    """Whenever it is opened, of the lines that were written there are the last ones without a gap, each once."""
    path, ended = tmp_path / "log", threading.Event()
    append(path, "100000", 7)

    def write() -> None:
        number = 100_000
        while not ended.is_set():
            number += 1
            append(path, str(number), 7 * (1 + number % 3))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = [numbers(path) for _ in range(300)]
    finally:
        ended.set()
        writer.join()

    assert seen == [list(range(one[0], one[-1] + 1)) for one in seen]
    assert seen[0][-1] < seen[-1][0], "it was rotated meanwhile"


def test_what_is_no_file_of_the_log_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    (tmp_path / "log.1").mkdir()
    os.mkfifo(tmp_path / "log.2")
    (tmp_path / "log.3").write_text("1\n")
    with open_log(path) as older:
        assert [one.path for one in older.values()] == [tmp_path / "log.3"]

    path.hardlink_to(tmp_path / "log.3")
    with open_log(path) as once:
        assert [one.path for one in once.values()] == [path]


def test_a_pipe_is_not_opened_with_the_others(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")

    with open_log(tmp_path / "log") as found:
        assert [(one.path, one.file) for one in found.values()] == [(tmp_path / "log", None)]
