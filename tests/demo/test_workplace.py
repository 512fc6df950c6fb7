"""Nobody's files are deleted, and two demos do not share a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.demo.workplace import MARK, workplace
from router.errors import ConfigError


def test_what_a_demo_left_is_removed(tmp_path: Path) -> None:
    with workplace(tmp_path / "work"):
        (tmp_path / "work" / "site").mkdir()
        (tmp_path / "work" / "site" / "log").write_text("old")

    with workplace(tmp_path / "work"):
        assert [path.name for path in (tmp_path / "work").iterdir()] == [MARK]


def test_somebody_elses_files_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")

    with pytest.raises(ConfigError, match="is not empty and was not made by a demo"), workplace(tmp_path):
        pass

    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_what_a_link_leads_to_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    with workplace(tmp_path / "work"):
        (tmp_path / "work" / "link").symlink_to(tmp_path / "thesis")

    with workplace(tmp_path / "work"):
        assert (tmp_path / "thesis" / "thesis.tex").read_text() == "years of work"


def test_a_second_demo_is_refused(tmp_path: Path) -> None:
    with (
        workplace(tmp_path / "work"),
        pytest.raises(ConfigError, match="another demo is using it"),
        workplace(tmp_path / "work"),
    ):
        pass
