"""``batchgate explain``: the whole text for one Job, and what it says of Jobs that stay or cannot be right."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from router.cli import commands

ROOT = Path(__file__).parent.parent.parent
POLICY = ["--policy", str(ROOT / "examples" / "policies"), "--user", "ada"]

MPI = """\
mpi  (JOB:1)
  asks for
    CPUs per Pod    8                  spec.template.spec.containers[0].resources.requests.cpu
    memory per Pod  1Gi                spec.template.spec.containers[0].resources.requests.memory
    GPUs per Pod    nothing asked for
    Pods at once    1                  default
    completions     1                  default
    walltime        10m                spec.activeDeadlineSeconds
    MPI container   ranks
    ranks           8                  mpirun -np 8 in spec.template.spec.containers[0].command
"""
CHUNKS = """\
    chunks              2 x (4 cores, 4 ranks, 512Mi)
    deadline            the containers end after 10m
    walltime            11m30s
    grace period        30s, kept by the script at the deadline and at a deletion; none where the batch system itself kills \
the job, which takes an image away that a process of the job has mounted (FUSE)
"""
RULES_BEHIND = """\
    not looked at: large, batch-without-figures, small
  decision
"""
PROFILES = """\
  MPI profiles of site demo, in order
    open-mpi (openmpi): used, as '*' matches busybox:1.36
"""


def explain(path: Path | str, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(commands, ["explain", "-f", str(path), *POLICY, *arguments], input=stdin)


def test_figures_rules_decision_and_chunks() -> None:
    job = ROOT / "examples" / "03-mpi-over-two-nodes" / "job.yaml"

    result = explain(job, "--no-script")

    assert result.exit_code == 0
    assert result.stdout.startswith(MPI.replace("JOB", str(job)))
    assert "gpus: does not hold: job.gpus > 0, with job.gpus = unset\n" in result.stdout
    assert CHUNKS in result.stdout
    assert RULES_BEHIND in result.stdout
    assert PROFILES in result.stdout


def test_the_script_ends_it() -> None:
    result = explain(ROOT / "examples" / "02-large-goes-to-hpc" / "job.yaml")

    expected = (ROOT / "examples" / "02-large-goes-to-hpc" / "script.sh").read_text()
    assert result.stdout.endswith(f"  script\n\n{expected}\n")


def test_what_keeps_a_job_in_the_cloud_is_a_list_of_fields() -> None:
    result = explain(ROOT / "examples" / "07-cannot-go" / "job.yaml")

    assert "  keeps it in the cloud\n    spec.template.spec.volumes[0].persistentVolumeClaim: " in result.stdout


def test_where_no_profile_is_for_its_image_each_is_told_with_the_reason(tmp_path: Path) -> None:
    for file in (ROOT / "examples" / "policies").glob("*.yaml"):
        (tmp_path / file.name).write_text(
            file.read_text().replace("name: open-mpi", "name: lab\n        images: [lab/*]")
        )

    result = explain(ROOT / "examples" / "03-mpi-over-two-nodes" / "job.yaml", "--policy", str(tmp_path), "--no-script")

    assert "  MPI profiles of site demo, in order\n    lab (openmpi): busybox:1.36 matches none" in result.stdout
    assert (
        "  keeps it in the cloud\n    spec.template.spec.containers[0].command: starts an MPI program" in result.stdout
    )


def test_no_warnings_are_no_section() -> None:
    result = explain(ROOT / "examples" / "07-cannot-go" / "job.yaml")

    assert "  warnings\n" not in result.stdout


def test_fields_of_a_cronjob_are_named_as_they_stand_in_it() -> None:
    job = yaml.safe_load((ROOT / "examples" / "07-cannot-go" / "job.yaml").read_text())
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "physics"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": job["spec"]}},
    }

    result = explain("-", stdin=yaml.safe_dump(cron))

    assert result.stdout.startswith("physics/nightly  (standard input:1)\n")
    assert "spec.jobTemplate.spec.template.spec.volumes[0].persistentVolumeClaim" in result.stdout


def test_a_job_of_another_controller_is_left_alone() -> None:
    job = yaml.safe_load((ROOT / "examples" / "02-large-goes-to-hpc" / "job.yaml").read_text())
    job["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"

    result = explain("-", stdin=yaml.safe_dump(job))

    assert "is managed by another controller: nothing is changed" in result.stdout


@pytest.mark.parametrize(
    ("written", "arguments", "known"),
    [
        (timedelta(minutes=1), [], True),
        (timedelta(minutes=11), [], False),
        (timedelta(minutes=11), ["--queues-max-age", "1h"], True),
        (None, [], True),  # a file that does not say when is taken as it is: somebody wrote it to try something
    ],
)
def test_queue_state_counts_as_unknown_when_the_webhook_would_say_so(
    tmp_path: Path, written: timedelta | None, arguments: list[str], known: bool
) -> None:
    time = f"time: {(datetime.now(UTC) - written).isoformat()}\n" if written else ""
    queues = tmp_path / "queues.yaml"
    queues.write_text(f"{time}queues: [{{site: demo, queue: batch, up: false}}]\n")

    result = explain(
        ROOT / "examples" / "02-large-goes-to-hpc" / "job.yaml", "--no-script", "--queues", str(queues), *arguments
    )

    assert ("the queue is down" in result.stdout) is known
    assert (f"Warning: {queues} is of " in result.stderr) is not known
    assert ("more than 10m ago" in result.stderr) is not known
