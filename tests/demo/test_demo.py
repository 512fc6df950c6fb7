"""The demo as a stranger runs it: every example judged over TLS and run on the embedded queue."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from router.controlplane.plane import ControlPlane

ROOT = Path(__file__).parent.parent.parent
RUNTIMES = ["host", pytest.param("apptainer", marks=pytest.mark.apptainer)]


SECONDS = 500
"""A demo takes a minute at most on an idle machine."""
WITHOUT = ("--no-control-plane",)

pytestmark = pytest.mark.timeout(SECONDS + 60)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "router", "demo", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS)


def test_the_whole_way(plane: ControlPlane, tmp_path: Path) -> None:
    """On a control plane of its own; the shared one only shows that there can be one."""
    result = run("--work", str(tmp_path / "work"))

    assert result.returncode == 0, result.stdout + result.stderr
    _assert_outcomes(result.stdout)
    assert re.search(r"^  large-\w+ .* batch\.demo\.batchgate ", result.stdout, re.MULTILINE)
    assert re.search(r"^  Warning: This Job goes to HPC: rule large ", result.stdout, re.MULTILINE)
    assert re.search(r"Normal +Submitted .* Batch job \d+\.local ", result.stdout)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_without_a_control_plane(runtime: str, tmp_path: Path) -> None:
    if runtime == "apptainer" and shutil.which("apptainer") is None:
        pytest.skip("Apptainer is not installed")

    result = run(*WITHOUT, "--work", str(tmp_path / "work"), "--runtime", runtime)

    assert result.returncode == 0, result.stdout + result.stderr
    _assert_outcomes(result.stdout)


def _assert_outcomes(output: str) -> None:
    assert re.search(
        r"^(\d+) of \1 examples came out as expected(\.|; 1 could only be judged, not run: .*)$", output, re.MULTILINE
    )
    assert re.search(r"^large +hpc: batch +large +Succeeded +0 +the sum of 1 to 1000 is 500500", output, re.MULTILINE)
    assert re.search(r"^fails +hpc: batch +large +Failed +3 +cannot open input\.dat", output, re.MULTILINE)


def test_an_outcome_that_is_not_expected_is_named_and_fails(tmp_path: Path) -> None:
    examples = tmp_path / "examples"
    shutil.copytree(ROOT / "examples" / "policies", examples / "policies")
    shutil.copytree(ROOT / "examples" / "11-fails", examples / "11-fails")
    (examples / "11-fails" / "expected.yaml").write_text(
        "decision: {target: hpc, rule: large}\noutcome: {state: Succeeded, exitCode: 0}\n"
    )

    result = run(*WITHOUT, "--examples", str(examples), "--work", str(tmp_path / "work"), "--runtime", "host")

    assert result.returncode == 1
    assert "Error: fails: state is 'Failed', expected 'Succeeded'" in result.stderr
    assert "Error: fails: exit code is 3, expected 0" in result.stderr
    assert "0 of 1 examples came out as expected." in result.stdout


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "holds no examples"),
        ({"01/job.yaml": "kind: Job\n"}, "01/expected.yaml: cannot be read"),
        ({"01/job.yaml": "- 1\n", "01/expected.yaml": "decision: {}\n"}, "01/job.yaml: is not one object"),
        ({"01/job.yaml": "a: b: c\n"}, "01/job.yaml:1"),
    ],
    ids=["no directory", "half an example", "no object", "no YAML"],
)
def test_what_are_no_examples_is_one_error(files: dict[str, str], words: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    result = run(*WITHOUT, "--examples", str(tmp_path), "--work", str(tmp_path / "work"))

    assert result.returncode == 2
    assert result.stderr.startswith("Error: ")
    assert words in result.stderr
    assert "Traceback" not in result.stderr
