"""The golden scripts are what is rendered, are clean to bash and shellcheck, and run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from router.script import launchoptions, pairs
from router.script.completing import complete
from tests.script.golden import CASES, FOLDER, LAUNCHER, OPTIONS, PAIRS, RUNTIME, own_part
from tests.script.running import SHELL, Pod
from tests.script.test_values import fields, variables

SHELLCHECK = Path(sys.executable).parent / "shellcheck"


@pytest.mark.parametrize("name", CASES)
def test_the_script_is_as_it_was(name: str) -> None:
    own = (FOLDER / f"{name}.sh").read_text()

    assert own_part(CASES[name].text()) == own, "python -m tests.script.golden writes them anew"
    assert CASES[name].text() == complete(own)


def test_the_pairs_of_the_runtime_are_those_of_the_table() -> None:
    assert pairs.shell() == PAIRS.read_text(), "python -m tests.script.golden writes it anew"


def test_the_options_of_the_runtime_are_those_of_the_table() -> None:
    assert launchoptions.shell() == OPTIONS.read_text(), "python -m tests.script.golden writes it anew"


def test_no_golden_script_is_left_over() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_bash_reads_it(name: str) -> None:
    text = CASES[name].text()
    run = subprocess.run([SHELL, "-n"], input=text, capture_output=True, text=True, check=False)

    assert (run.returncode, run.stderr) == (0, "")


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The complete scripts, a file each."""
    folder = tmp_path_factory.mktemp("scripts")
    for name, case in CASES.items():
        (folder / f"{name}.sh").write_text(case.text())
    return folder


@pytest.mark.parametrize("what", ["scripts", "runtime"])
def test_shellcheck_finds_nothing(scripts: Path, what: str) -> None:
    folder = scripts if what == "scripts" else PAIRS.parent
    run = subprocess.run([SHELLCHECK, *sorted(folder.glob("*.sh"))], capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("name", CASES)
def test_it_runs(tmp_path: Path, name: str) -> None:
    """With a runtime that keeps its argv, a launcher that starts one rank, and a module function that does nothing."""
    case = CASES[name]
    pod = Pod(tmp_path).make(case.argv, case.env)
    runtime, launcher = tmp_path / "runtime", tmp_path / "launcher"
    runtime.write_text(
        '#!/bin/bash\nn=$(mktemp -d "$STUB/new.XXXXXX")\nprintf "%s\\0" "$@" >"$n/argv"\nenv -0 >"$n/env"\n'
        'mv -T "$n" "$STUB/run.${n##*.}"\n'  # whole, as a sidecar may be ended before it has written
    )
    launcher.write_text('#!/bin/bash\n[[ $1 != --version ]] || exit 0\nexec "${@: -2}"\n')
    (tmp_path / "init").mkdir()
    (tmp_path / "init" / "bash").write_text("module() { :; }\n")
    (tmp_path / "nodefile").write_text("n1\n" * 16)
    for program in (runtime, launcher):
        program.chmod(0o755)
    text = (
        case.text()
        .replace(RUNTIME, str(runtime))
        .replace(LAUNCHER, str(launcher))
        .replace("/lustre", f"{tmp_path}/lustre")
    )
    text = text.replace("/project ", f"{tmp_path}/project ")
    for directory in ("project/physics/results", "lustre/data/set 1"):
        (tmp_path / directory).mkdir(parents=True)
    (pod.path / "files" / "conf").mkdir()

    status = pod.run(
        text,
        STUB=str(tmp_path),
        PBS_NODEFILE=str(tmp_path / "nodefile"),
        CUDA_VISIBLE_DEVICES="0,1",
        SLURM_LOCALID="0",
        MODULESHOME=str(tmp_path),
    )

    assert status == 0, pod.output() + pod.log()
    assert pod.code() == 0
    runs = [fields(path / "argv") for path in tmp_path.glob("run.*")]
    if name.startswith("local-host"):
        assert pod.log() == "hello\n"
    else:
        assert runs
        assert all(run[1] in {b"exec", b"run"} and b"/sif/image.sif" in run for run in runs)


def test_a_rank_has_what_launcher_profile_and_job_set(tmp_path: Path) -> None:
    test_it_runs(tmp_path, "openpbs-openmpi")

    runs = list(tmp_path.glob("run.*"))
    (run,) = [path for path in runs if b"look" not in fields(path / "argv")]  # the other has looked for the image's MPI
    assert len(runs) == 2
    found = variables(run / "env")
    assert {
        name: found.get(b"APPTAINERENV_" + name)
        for name in (b"UCX_TLS", b"MODE", b"OMP_NUM_THREADS", b"OMPI_MCA_btl_vader_single_copy_mechanism")
    } == {
        b"UCX_TLS": b"rc,self",
        b"MODE": b"fast",
        b"OMP_NUM_THREADS": b"1",
        b"OMPI_MCA_btl_vader_single_copy_mechanism": b"none",
    }
    argv = fields(run / "argv")
    assert argv[-4:] == [b"/sif/image.sif", b"./solver", b"--steps", b"10"]
    assert b"/opt/fabric:/opt/fabric:ro" in argv
    assert not {b"--contain", b"--containall", b"--pid"} & set(argv)
