"""Which MPI profile a Job is started with, and what is said of the others."""

from __future__ import annotations

import pytest

from router.site.profiles import profile_of, reasons
from router.workload.model import Workload
from tests.script.builders import container, site, workload

PROFILES = [
    {"name": "slurm", "launcher": "srun", "images": ["srun/*", "lab/*:srun"]},
    {"name": "solver", "launcher": "openmpi", "images": ["*/solver:*"], "impliesMpi": True},
    {"name": "mpich", "launcher": "hydra", "images": ["*mpich*"]},
    {"name": "any", "launcher": "openmpi"},
]
MPIRUN = ("mpirun", "-np", "4", "./a")


@pytest.mark.parametrize(
    ("job", "used", "expected"),
    [
        (
            workload(container(*MPIRUN, image="lab/code:srun")),
            "slurm",
            ("slurm (srun): used, as 'lab/*:srun' matches lab/code:srun", "not looked at: solver, mpich, any"),
        ),
        (
            workload(container(*MPIRUN, image="lab/code-mpich:2")),
            "mpich",
            (
                "slurm (srun): lab/code-mpich:2 matches none of its images ('srun/*', 'lab/*:srun')",
                "solver (openmpi): lab/code-mpich:2 matches none of its images ('*/solver:*')",
                "mpich (hydra): used, as '*mpich*' matches lab/code-mpich:2",
                "not looked at: any",
            ),
        ),
        (
            workload(container("./run", image="lab/solver:1")),
            "solver",
            (
                "slurm (srun): only for Jobs that name a launcher or ranks (impliesMpi is not set)",
                "solver (openmpi): used, as '*/solver:*' matches lab/solver:1",
                "not looked at: mpich, any",
            ),
        ),
        (
            workload(container("./run", image="lab/other:1")),
            None,
            (
                "slurm (srun): only for Jobs that name a launcher or ranks (impliesMpi is not set)",
                "solver (openmpi): lab/other:1 matches none of its images ('*/solver:*')",
                "mpich (hydra): only for Jobs that name a launcher or ranks (impliesMpi is not set)",
                "any (openmpi): only for Jobs that name a launcher or ranks (impliesMpi is not set)",
            ),
        ),
    ],
)
def test_the_first_that_matches_is_used(job: Workload, used: str | None, expected: tuple[str, ...]) -> None:
    where = site("slurm", mpi=PROFILES)
    found = profile_of(job, where)

    assert (found.name if found else None, reasons(job, where)) == (used, expected)
