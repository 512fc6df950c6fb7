"""A file that the bed did not make is never written over."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bed import files
from bed.commands import BedError
from bed.layout import MARK, Layout


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A machine without Slurm."""
    monkeypatch.setattr(files, "GUARDED", (tmp_path / "slurm.conf",))
    monkeypatch.setattr(files, "MUNGE_KEY", tmp_path / "munge.key")
    return Layout(state=tmp_path / "state")


def key_of(machine: Layout) -> Path:
    return machine.state.parent / "munge.key"


def test_an_empty_machine_and_one_with_the_beds_own_files(machine: Layout) -> None:
    files.check(machine)
    files.expect_munge_key(machine)
    key_of(machine).write_bytes(b"from the package")
    files.check(machine)  # a run that broke off here
    files.claim_munge_key(machine)
    files.write(files.GUARDED[0], f"# {MARK}.\nClusterName=bed\n")

    files.check(machine)


def test_a_real_configuration_stops_the_bed(machine: Layout) -> None:
    files.GUARDED[0].write_text("ClusterName=centre\n")

    with pytest.raises(BedError, match=r"slurm\.conf is there and is not the bed's"):
        files.check(machine)


def test_a_real_munge_key_stops_the_bed(machine: Layout) -> None:
    key_of(machine).write_bytes(b"the centre's")

    files.expect_munge_key(machine)
    files.claim_munge_key(machine)
    with pytest.raises(BedError, match=r"munge\.key is there and is not the bed's"):
        files.check(machine)
    files.remove_munge_key(machine)
    assert key_of(machine).read_bytes() == b"the centre's"


def test_another_key_in_place_of_the_packages_stops_the_bed(machine: Layout) -> None:
    files.expect_munge_key(machine)
    key_of(machine).write_bytes(b"from the package")
    files.claim_munge_key(machine)
    key_of(machine).write_bytes(b"the centre's")

    with pytest.raises(BedError):
        files.check(machine)


def test_a_strangers_file_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("theirs\n")

    with pytest.raises(BedError, match="not changed"):
        files.write(path, f"# {MARK}\n")
    assert path.read_text() == "theirs\n"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text(f"# {MARK}\n")
    (tmp_path / "link").symlink_to(tmp_path / "target")

    with pytest.raises(BedError):
        files.write(tmp_path / "link", f"# {MARK}\nnew\n")
    assert (tmp_path / "target").read_text() == f"# {MARK}\n"


def test_writing_says_whether_a_text_is_new(tmp_path: Path) -> None:
    path = tmp_path / "below" / "file"

    written = [files.write(path, f"# {MARK}\n{text}", mode=0o600) for text in ("1", "1", "2")]

    assert written == [True, False, True]
    assert path.stat().st_mode & 0o777 == 0o600


LINES = st.lists(st.text(st.characters(exclude_categories=("C", "Z"))).filter(lambda line: MARK not in line)).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@given(LINES, LINES.filter(bool), LINES.filter(bool))
def test_a_section_comes_and_goes_and_leaves_the_rest(text: str, first: str, second: str) -> None:
    once = files.replace_section(text, first)

    assert files.replace_section(once, first) == once
    assert files.replace_section(once, second) == files.replace_section(text, second)
    assert files.replace_section(once, "") == text
    assert once.startswith(text)
