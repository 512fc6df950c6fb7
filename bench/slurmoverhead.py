"""Measures the time that the script adds to ``apptainer exec``, as ``bench.overhead`` does, in a job of a real Slurm.

The bed has to be up (``make bed``, docs/bed.md); without it this is skipped. As in Kubernetes, a container's root is
writable. This costs a runtime without privileges an overlay in user space. So the program without the script also runs
with a writable root. A Job with a read-only root is compared with the plainest command.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

from bench.onbed import ROOT, demand_standing
from bench.overhead import ROUNDS, Place, figures, fixed
from bench.report import Row, write
from bench.whole import machine, run
from router.pod import layout
from router.policy import load
from router.startup.policyfiles import read_directory
from tests.agent.bed.site import ADA, LAYOUT, LOCAL, QUEUE, SITE, BedSite, as_user

MINUTES = 30
NAME = "batchgate-bench"
"""The job's name."""
_LAST = 2000
"""Characters of a failed job's messages that are shown."""
_CLUSTER = "0" * 8
_EXEC = ("apptainer", "--quiet", "exec")
_PATH = "/usr/local/bin:/usr/bin:/bin"


def main() -> None:
    """Print the figures, which a batch job has measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of a program that computes for a minute")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        print(json.dumps([asdict(row) for row in _inside(asked.inside, asked.rounds)]))
        return
    demand_standing()
    before = machine("before")
    # On the shared file system, as each node has its own /tmp.
    site = BedSite(LOCAL, Path(layout.site_directory(str(LAYOUT.work / "{user}"), ADA, SITE, _CLUSTER)))
    run(["rm", "-rf", str(site.home)])
    site.make()
    try:
        rows = _in_a_job(site, asked.rounds)
    finally:
        run(["scancel", f"--user={ADA}", f"--name={NAME}"])
        run(["rm", "-rf", str(site.home)])
    sys.exit(not write("slurmoverhead", [*before, *rows, *machine("after")]))


def _in_a_job(site: BedSite, rounds: int) -> list[Row]:
    """Run this program in a batch job of the user's, with two cores."""
    output, complaints = site.home / "output", site.home / "complaints"
    variables = [f"PATH={_PATH}", f"HOME={site.home}", f"PYTHONPATH={ROOT}"]
    words = [sys.executable, "-m", "bench.slurmoverhead", "--inside", str(site.home), "--rounds", str(rounds)]
    asked = [
        f"--job-name={NAME}",
        "--ntasks=1",
        "--cpus-per-task=2",
        "--mem=1500",
        f"--time={MINUTES}",
        f"--partition={QUEUE}",
    ]
    places = ["--export=NONE", "--chdir=/", f"--output={output}", f"--error={complaints}"]
    command = shlex.join(["exec", "env", *variables, *words])
    argv = [*as_user(ADA), "sbatch", "--wait", *asked, *places, f"--wrap={command}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        said = complaints.read_text(errors="replace") if complaints.exists() else done.stderr
        raise SystemExit(f"the job has failed with exit code {done.returncode}: {said[-_LAST:]}")
    return [Row(**row) for row in json.loads(output.read_text())]


def _inside(home: Path, rounds: int) -> list[Row]:
    assert os.environ["SLURM_JOB_ID"], "no job"
    policy, image = load(read_directory(home / "policy")), str(LAYOUT.image)
    plain = Place(policy, home, "python3", (*_EXEC, image))
    writable, read_only = (replace(plain, bare=(*_EXEC, "--writable-tmpfs", image)), replace(plain, read_only=True))
    once, whole = fixed(read_only), fixed(plain)
    return [
        *figures(writable, rounds),
        Row("a program that does nothing, a read-only root: by apptainer exec IMAGE", once.bare, "s"),
        Row("the same under the script: added", once.wall, "s", 0.3),
        Row("a writable root under the script, to a read-only one without it: added", whole.wall, "s"),
    ]


if __name__ == "__main__":
    main()
