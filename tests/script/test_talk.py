"""What the script says of launcher and image before ranks start.

The launcher is a stand-in that says its version as the real ones do and starts one rank; the image is a directory of
this machine, whose programs and libraries have the names and words that real ones have.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from router.script import pairs
from router.site.schema import Site
from tests.script.builders import container, site, text_of, workload
from tests.script.running import Pod

OPENMPI4 = "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n"
OPENMPI5 = "mpirun (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/\n"
HYDRA = "HYDRA build details:\n    Version:                                 5.0.2\n    Release Date:  Fri\n"
INTEL = "Intel(R) MPI Library for Linux* OS, Version 2021.15 Build 20250213 (id: d233448)\n"
SLURM = "slurm-wlm 22.05.8\n"
LIBRARIES = {
    "openmpi-4": ("libmpi.so.40", b"\0GLIBC_2.2.5\0Open MPI v%d.%d.%d%s\x004.1.4\x004.1.4\x004.1.4\0"),
    "openmpi-5": ("libmpi.so.40", b"\0GLIBC_2.3.4\0Open MPI v%d.%d.%d%s\x005.0.7\x005.0.7\0libpmix.so.2\0"),
    "mpich": ("libmpich.so.12", b"\0GLIBC_2.3.4\0MPICH Version:      %s\n\x004.0.2\x004.0.2\x00127.0.0.1\0PMIx_Init\0"),
    "mpich-4.2": ("libmpich.so.12", b"\0GLIBC_2.3.4\0GLIBC_2.2.5\0MPICH Version:      %s\n\x00127.0.0.1\x004.2.1\0"),
    "intelmpi": (
        "libmpi.so.12",
        b"\0GLIBC_2.2.5\0MPICH Version:\0Intel(R) MPI Library, Version %s\0libpmix.so\x005.6.0\0",
    ),
    "mpich+pmix": ("libmpi.so.12", b"\0MPICH Version:      %s\n\x004.3.0\x004.3.0\0libpmix.so.2\0"),
    "other": ("libmpi.so.1", b"\0HPE\0"),
}
"""Soname and words of libraries, in which versions of other things stand as well."""


@dataclass(frozen=True)
class Case:
    """A launcher's words, the libraries that the program needs, and what the log must be."""

    says: str
    library: str
    log: str = "ran\n"
    code: int = 0
    launcher: str = "openmpi"
    options: tuple[str, ...] = ()
    command: tuple[str, ...] = ("solver",)
    ranks: int = 2
    environment: dict[str, str] = field(default_factory=dict)


def bad(who: str, which: str, remedy: str) -> dict[str, Any]:
    words = (
        f"batchgate: {who} on HOST cannot start ranks of {which}, which the program in /sif/image.sif uses: {remedy}\n"
    )
    return {"log": words, "code": 126}


def unknown(who: str, which: str) -> dict[str, Any]:
    words = f"batchgate: it is not known whether {who} on HOST can start the ranks of this program together: /sif/image.sif has {which}\n"
    return {"log": words + "ran\n"}


TO_MPICH = "use an image with Open MPI, or an MPI profile with Hydra's mpiexec or with srun --mpi=pmi2"
TO_PMI2 = "give the MPI profile the option --mpi=pmi2"
TO_PMIX = "give the MPI profile the option --mpi=pmix"
SRUN: dict[str, Any] = {"says": SLURM, "launcher": "srun"}
CASES = {
    "open mpi 4 and 4": Case(OPENMPI4, "openmpi-4"),
    "open mpi 4 and 5": Case(OPENMPI4, "openmpi-5"),
    "open mpi 5 and 5": Case(OPENMPI5, "openmpi-5"),
    "open mpi 5 and 4": Case(
        OPENMPI5,
        "openmpi-4",
        **bad(
            "launcher of Open MPI 5.0.11",
            "Open MPI 4.1.4",
            "use an image with Open MPI 5, or an MPI profile with the mpirun of an Open MPI 4",
        ),
    ),
    "open mpi and mpich": Case(OPENMPI4, "mpich", **bad("launcher of Open MPI 4.1.4", "MPICH 4.0.2", TO_MPICH)),
    "a launcher that the profile calls otherwise": Case(
        OPENMPI4, "mpich", **bad("launcher of Open MPI 4.1.4", "MPICH 4.0.2", TO_MPICH), launcher="hydra"
    ),
    "hydra and mpich": Case(HYDRA, "mpich", launcher="hydra"),
    "hydra and open mpi": Case(
        HYDRA,
        "openmpi-5",
        **bad(
            "launcher of Hydra 5.0.2",
            "Open MPI 5.0.7",
            "use an image with MPICH, or an MPI profile with Open MPI's mpirun or with srun --mpi=pmix",
        ),
        launcher="hydra",
    ),
    "srun pmix and open mpi": Case(**SRUN, library="openmpi-4", options=("--mpi=pmix",)),
    "srun pmix_v4 and mpich": Case(
        **SRUN,
        library="mpich",
        options=("--mpi=pmix_v4",),
        **bad("srun --mpi=pmix_v4 of Slurm 22.05.8", "MPICH 4.0.2", f"{TO_PMI2}, or use an image with Open MPI"),
    ),
    "srun pmi2 and mpich": Case(**SRUN, library="mpich", options=("--mpi", "pmi2")),
    "srun pmi2 and open mpi 5": Case(
        **SRUN,
        library="openmpi-5",
        options=("--mpi=pmi2",),
        **bad("srun --mpi=pmi2 of Slurm 22.05.8", "Open MPI 5.0.7", f"{TO_PMIX}, or use an image with MPICH"),
    ),
    "srun's kind of PMI from its environment": Case(**SRUN, library="mpich", environment={"SLURM_MPI_TYPE": "pmi2"}),
    "srun without a PMI": Case(
        **SRUN,
        library="openmpi-5",
        environment={"SLURM_MPI_TYPE": "none"},
        **bad("srun --mpi=none of Slurm 22.05.8", "Open MPI 5.0.7", TO_PMIX),
    ),
    "a pair that nobody has measured": Case(
        OPENMPI4, "mpich+pmix", **unknown("launcher of Open MPI 4.1.4", "MPICH 4.3.0 with PMIx")
    ),
    "a version of the C library, or an address, is not the MPI's": Case(
        OPENMPI4, "mpich-4.2", **bad("launcher of Open MPI 4.1.4", "MPICH 4.2.1", TO_MPICH)
    ),
    "open mpi and intel mpi": Case(OPENMPI5, "intelmpi", **bad("launcher of Open MPI 5.0.11", "Intel MPI", TO_MPICH)),
    "hydra and intel mpi": Case(HYDRA, "intelmpi", launcher="hydra"),
    "intel mpi and intel mpi": Case(INTEL, "intelmpi", launcher="intelmpi"),
    "intel mpi and mpich": Case(INTEL, "mpich", launcher="intelmpi"),
    "intel mpi and open mpi": Case(
        INTEL,
        "openmpi-5",
        **bad(
            "launcher of Intel MPI 2021.15",
            "Open MPI 5.0.7",
            "use an image with Intel MPI or MPICH, or an MPI profile with Open MPI's mpirun or with srun --mpi=pmix",
        ),
        launcher="intelmpi",
    ),
    "srun pmi2 and intel mpi": Case(**SRUN, library="intelmpi", options=("--mpi=pmi2",)),
    "srun pmix and intel mpi": Case(
        **SRUN,
        library="intelmpi",
        options=("--mpi=pmix",),
        **bad("srun --mpi=pmix of Slurm 22.05.8", "Intel MPI", f"{TO_PMI2}, or use an image with Open MPI"),
    ),
    "srun pmix and an intel mpi to which another pmi is named": Case(
        **SRUN,
        library="intelmpi",
        options=("--mpi=pmix",),
        environment={"I_MPI_PMI_LIBRARY": "/opt/pmix/libpmix.so"},
        **unknown("srun --mpi=pmix of Slurm 22.05.8", "Intel MPI"),
    ),
    "srun without a pmi and intel mpi": Case(
        **SRUN,
        library="intelmpi",
        environment={"SLURM_MPI_TYPE": "none"},
        **bad("srun --mpi=none of Slurm 22.05.8", "Intel MPI", TO_PMI2),
    ),
    "a launcher that says nothing": Case("", "openmpi-4", **unknown("the launcher LAUNCHER", "Open MPI 4.1.4")),
    "a library that says nothing": Case(
        OPENMPI4, "other", **unknown("launcher of Open MPI 4.1.4", "an MPI that does not say which it is")
    ),
    "one rank": Case(OPENMPI4, "mpich", ranks=1),
    "a program without MPI": Case(OPENMPI5, "", command=("plain",)),
    "a shell that starts the program": Case(
        OPENMPI4,
        "mpich",
        **bad("launcher of Open MPI 4.1.4", "MPICH 4.0.2", TO_MPICH),
        command=("sh", "-c", "cd /; exec solver --steps 10"),
    ),
    "a shell without an MPI program": Case(OPENMPI5, "", command=("sh", "-c", "echo ran")),
}


def where(case: Case, tmp_path: Path) -> Site:
    return site(
        "slurm" if case.launcher == "srun" else "openpbs",
        runtimePath=str(tmp_path / "runtime"),
        images=[{"match": "*", "path": "/sif/image.sif"}],
        mpi=[
            {
                "name": "m",
                "launcher": case.launcher,
                "path": str(tmp_path / "launcher"),
                "options": list(case.options),
            }
        ],
    )


def make(tmp_path: Path, case: Case) -> None:
    """Launcher, runtime, and the image's program and libraries."""
    inside = tmp_path / "image"
    inside.mkdir()
    name, words = LIBRARIES.get(case.library, ("libfine.so.1", b""))
    (inside / name).write_bytes(words)
    for program, needs in (("solver", name), ("plain", "libfine.so.1")):
        # No program that can run: the stand-in of the runtime says that it ran.
        (inside / program).write_bytes(b"\x7fELF\x02\x01\x01\n\0" + needs.encode() + b"\0libm.so.6\0")
    (tmp_path / "launcher").write_text(
        f'#!/bin/bash\n[[ $1 != --version ]] || {{ printf "%s" {case.says!r}; exit; }}\nexec "${{@: -2}}"\n'.replace(
            "'", "$'", 1
        )
    )
    (tmp_path / "runtime").write_text(
        f"#!/bin/bash\nwhile [[ $1 != /sif/image.sif ]]; do shift; done\nshift\n"
        f"export PATH={inside}:$PATH LD_LIBRARY_PATH={inside}\n"
        # The MPI that this machine may have lies not in the image.
        f'for place in /usr /opt /etc/ld.so; do set -- "${{@// $place/ {inside}$place}}"; done\n'
        'if [[ $4 == look ]]; then exec "$@"; fi\necho ran\n'
    )
    for path in (tmp_path / "launcher", tmp_path / "runtime", inside / "solver", inside / "plain"):
        path.chmod(0o755)


@pytest.mark.parametrize("row", CASES)
def test_a_pair(pod: Pod, tmp_path: Path, row: str) -> None:
    case = CASES[row]
    make(tmp_path, case)
    (tmp_path / "nodefile").write_text("n1\n" * 2)
    job = workload(container("mpirun", "-np", str(case.ranks), *case.command))

    code = pod.run(text_of(job, where(case, tmp_path)), PBS_NODEFILE=str(tmp_path / "nodefile"), **case.environment)

    log = re.sub(r" on \S+ ", " on HOST ", pod.log()).replace(f"launcher {tmp_path}/launcher", "launcher LAUNCHER")
    assert (log, code, pod.code()) == (case.log, case.code, case.code), pod.output()


def test_what_an_image_says_is_never_run_outside_of_it(pod: Pod, tmp_path: Path) -> None:
    make(tmp_path, Case(OPENMPI4, "mpich"))
    planted = tmp_path / "planted"
    said = f"word a[$(touch {planted})]\\nword 1.2.3[$(touch {planted})]\\nword $(touch {planted})\\nlibrary\\nprogram binary\\n"
    (tmp_path / "runtime").write_text(f"#!/bin/bash\n[[ \" $* \" != *' look '* ]] || exec printf '{said}'\necho ran\n")
    (tmp_path / "nodefile").write_text("n1\n" * 2)
    job = workload(container("mpirun", "-np", "2", "solver"))

    # As older shells do: they run what stands in a subscript.
    code = pod.run(
        text_of(job, where(Case(OPENMPI4, "mpich"), tmp_path)),
        PBS_NODEFILE=str(tmp_path / "nodefile"),
        BASH_COMPAT="5.1",
    )

    assert (code, planted.exists()) == (0, False), pod.log()


LOOKED = {
    "an argument is not the program": ("plain", "solver"),
    "an argument without lines is not read": ("python3", "t.py", "zeros.dat"),
}


@pytest.mark.parametrize("row", LOOKED)
def test_what_is_no_program_of_mpi_is_not_held_up(pod: Pod, tmp_path: Path, row: str) -> None:
    make(tmp_path, Case(OPENMPI5, "openmpi-4"))
    inside = tmp_path / "image"
    (inside / "python3").write_bytes((inside / "plain").read_bytes())
    (inside / "python3").chmod(0o755)
    with (inside / "zeros.dat").open("wb") as file:
        file.truncate(4 << 30)
    command = [str(inside / word) if word.endswith(".dat") else word for word in LOOKED[row]]
    (tmp_path / "nodefile").write_text("n1\n" * 2)
    started = time.monotonic()

    code = pod.run(
        text_of(workload(container("mpirun", "-np", "2", *command)), where(Case(OPENMPI5, ""), tmp_path)),
        PBS_NODEFILE=str(tmp_path / "nodefile"),
    )

    assert (code, pod.log()) == (0, "ran\n")
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("lacking", ["shell", "library"])
def test_what_cannot_be_looked_for_is_unknown(pod: Pod, tmp_path: Path, lacking: str) -> None:
    make(tmp_path, Case(OPENMPI4, "openmpi-4"))
    inside = tmp_path / "image"
    if lacking == "library":
        next(inside.glob("libmpi*")).unlink()
    else:
        first, rest = (tmp_path / "runtime").read_text().split("\n", 1)
        (tmp_path / "runtime").write_text(f'{first}\n[[ " $* " != *" look "* ]] || exit 127\n{rest}')
    (tmp_path / "nodefile").write_text("n1\n" * 2)

    code = pod.run(
        text_of(workload(container("mpirun", "-np", "2", "solver")), where(Case(OPENMPI4, ""), tmp_path)),
        PBS_NODEFILE=str(tmp_path / "nodefile"),
    )

    assert (code, "has an MPI that could not be looked for" in pod.log()) == (0, True), pod.log()


def test_why_ranks_were_not_started_stands_in_the_exit_file(pod: Pod, tmp_path: Path) -> None:
    case = CASES["a shell that starts the program"]
    make(tmp_path, case)
    (tmp_path / "nodefile").write_text("n1\n" * 2)

    pod.run(
        text_of(workload(container("mpirun", "-np", "2", *case.command)), where(case, tmp_path)),
        PBS_NODEFILE=str(tmp_path / "nodefile"),
    )

    told = pod.exit()
    assert told is not None
    assert (told["code"], told["reason"]) == (126, "CreateContainerError")
    assert f"batchgate: {told['message']}\n" == pod.log()


def test_every_row_of_the_table_is_met_by_a_case_or_is_the_same_for_more_versions() -> None:
    assert len({(pair.launcher, pair.library) for pair in pairs.PAIRS}) == len(pairs.PAIRS)
    for pair in pairs.PAIRS:
        assert not set(f"{pair.launcher}{pair.library}") & set(" '\"\\$`")
        assert pair.seen


def test_fewer_places_than_ranks_under_slurm_are_said_before_ranks_start(pod: Pod, tmp_path: Path) -> None:
    case = Case(**SRUN, library="openmpi-4", options=("--mpi=pmix",), ranks=4)
    make(tmp_path, case)

    code = pod.run(
        text_of(workload(container("mpirun", "-np", "4", "solver")), where(case, tmp_path)), SLURM_NTASKS="2"
    )

    assert (pod.log(), code) == ("batchgate: Slurm gave places for 2 ranks, and 4 are to run\n", 1)
