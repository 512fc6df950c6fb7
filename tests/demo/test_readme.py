"""The README's tour of a control plane, line by line as a stranger types it: each command ends as it is said there."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from router.controlplane.programs import Programs

ROOT = Path(__file__).parents[2]
(TOUR,) = re.findall(r"```console\n(make control-plane\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
SAID = re.compile(r"(.+?)  # exit code (\d+)")
SECONDS = 600


def script(lines: list[str]) -> str:
    """The lines for a shell that stops at the first which does not end as it is said."""
    checked = []
    for line in lines:
        said = SAID.fullmatch(line)
        checked.append(f"code=0; {said[1]} || code=$?; [ $code = {said[2]} ]" if said else line)
    return "\n".join(checked) + "\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """The checkout without what was built in it."""
    for entry in ROOT.iterdir():
        if entry.name not in {"build", ".git"}:
            (tmp_path / entry.name).symlink_to(entry)
    yield tmp_path
    subprocess.run(["make", "control-plane-down"], cwd=tmp_path, capture_output=True, check=True, timeout=SECONDS)


@pytest.mark.timeout(2 * SECONDS)
def test_every_command_ends_as_it_says(control_plane_programs: Programs, checkout: Path) -> None:
    """Also within the loop: whatever kubectl refuses there ends it."""
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    done = subprocess.run(
        ["bash", "-euxc", script(TOUR.splitlines())],
        cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert "pi is 3.141592654: 8 ranks on 2 nodes\n" in done.stdout
    assert "denied the request" in done.stderr
    applied = set(re.findall(r"^job\.batch/(\S+) (?:created|unchanged)$", done.stdout, re.MULTILINE))
    assert applied == {
        *("small", "large", "mpi", "gpu", "pipeline"),
        *("indexed", "cannot-go", "audited", "asks-for-nothing", "fails", "steps"),
    }
    results = done.stdout.rpartition("8 ranks on 2 nodes")[2]
    assert "manifest.json" in results
    assert results.endswith("The control plane has ended.\n")
