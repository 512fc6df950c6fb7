"""The demo as a stranger runs it: every example judged over TLS and run on the embedded queue."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from router.controlplane.plane import ControlPlane
from router.demo.run import demo as demonstrate
from router.demo.site import Machine
from router.site.schema import Runtime

ROOT = Path(__file__).parent.parent.parent
RUNTIMES = ["host", pytest.param("apptainer", marks=pytest.mark.apptainer)]


SECONDS = 500
"""A demo takes a minute at most on an idle machine."""
WITHOUT = ("--no-control-plane",)
MPI = "03-mpi-over-two-nodes"

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
    assert re.search(r"^(\d+) of \1 examples came out as expected\.$", output, re.MULTILINE)
    assert re.search(r"^large +hpc: batch +large +Succeeded +0 +the sum of 1 to 1000 is 500500", output, re.MULTILINE)
    assert re.search(
        r"^mpi +hpc: batch +mpi +Succeeded +0 +pi is 3\.141592654: 8 ranks on 2 nodes ", output, re.MULTILINE
    )
    assert re.search(r"^fails +hpc: batch +large +Failed +3 +cannot open input\.dat", output, re.MULTILINE)


@pytest.fixture
def mpi(tmp_path: Path) -> Path:
    """The examples' policy, and the MPI example alone."""
    examples = tmp_path / "examples"
    shutil.copytree(ROOT / "examples" / "policies", examples / "policies")
    shutil.copytree(ROOT / "examples" / MPI, examples / MPI)
    return examples


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


@pytest.mark.apptainer
def test_ranks_of_mpich_whose_containers_may_not_read_each_other(mpi: Path, tmp_path: Path) -> None:
    """As an ordinary user's may not, each of them in a user namespace of its own: MPICH 5 would read, and fail."""
    if shutil.which("apptainer") is None:
        pytest.skip("Apptainer is not installed")
    sites = mpi / "policies" / "10-sites.yaml"
    sites.write_text(
        sites.read_text().replace("runtime: apptainer", "runtime: apptainer\n    runtimeOptions: [--userns]")
    )

    result = run(*WITHOUT, "--examples", str(mpi), "--work", str(tmp_path / "work"), "--runtime", "apptainer")

    assert "--userns" in sites.read_text()
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 of 1 examples came out as expected." in result.stdout


def test_ranks_that_each_run_alone_fail_it_though_all_end_well(mpi: Path, tmp_path: Path) -> None:
    """An MPI library that does not hear its launcher takes itself for rank 0 of 1."""
    job = mpi / MPI / "job.yaml"
    deaf = job.read_text().replace("python3, -c]", "env, -u, PMI_FD, -u, PMI_RANK, -u, PMI_SIZE, python3, -c]")
    job.write_text(deaf)

    result = run(*WITHOUT, "--examples", str(mpi), "--work", str(tmp_path / "work"), "--runtime", "host")

    assert "PMI_FD" in deaf
    assert re.search(r"^mpi .* Succeeded +0 +pi is 3\.141592654: 1 ranks on 1 nodes ", result.stdout, re.MULTILINE)
    assert result.returncode == 1
    assert "Error: mpi: the log of container ranks lacks 'pi is 3.141592654: 8 ranks on 2 nodes'" in result.stderr


def test_without_mpi_its_example_is_judged_and_not_run(
    mpi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demonstrate(mpi, tmp_path / "work", Machine(Runtime.HOST, mpi=None))

    printed = capsys.readouterr().out
    assert "No MPI here: the MPI example is judged, and not run." in printed
    assert re.search(r"^mpi +hpc: batch +mpi +not run: no MPI launcher ", printed, re.MULTILINE)
    assert (
        "0 of 0 examples came out as expected; 1 could only be judged, not run: mpi (no MPI launcher here)." in printed
    )


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
