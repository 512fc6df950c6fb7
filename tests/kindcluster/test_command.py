"""The command line, and what of Batchgate is brought into a cluster."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from kindcluster import command, commands, installing
from kindcluster.commands import KindError
from kindcluster.layout import Layout
from kindcluster.provider import Provider


def test_a_machine_that_can_have_no_cluster_is_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["kindcluster", "status"])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (tmp_path / "docker").write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    with pytest.raises(SystemExit) as ended:
        command.main()

    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert said.err.startswith(
        "kind: kind needs a Docker engine, which does not answer here (Cannot connect to the Docker daemon), or root on"
    )


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["sh", "-c", "echo out; echo err >&2; exit 3"], "exit code 3: out\nerr"),
        (["sh", "-c", "exit 3"], "exit code 3: it said nothing"),
        (["/nowhere/program"], "/nowhere/program is not there: No such file or directory"),
    ],
)
def test_a_command_that_fails_is_told_with_its_words(argv: list[str], expected: str) -> None:
    with pytest.raises(KindError) as caught:
        commands.run(argv)

    assert str(caught.value).endswith(expected)


def test_a_step_tells_how_long_it_took() -> None:
    told: list[str] = []

    with commands.step(told.append, "Resting."):
        pass

    assert told[0] == "Resting."
    assert [re.sub(r"\d+", "N", one) for one in told[1:]] == ["  N s"]


def test_an_image_that_is_not_built_is_said_and_left_out(tmp_path: Path) -> None:
    told: list[str] = []

    assert installing.load(Layout(), Provider.DOCKER, told.append, tmp_path) == []
    assert told == [f"There is no image of Batchgate in {tmp_path}, so none is loaded."]
