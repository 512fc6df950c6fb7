"""The agent's part in the demo: writes a Pod's directory, submits, follows, and reads the files at the end.

Shell: runs the embedded queue's commands and reads files. It writes, submits and parses with the agent's functions.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from router import names
from router.demo.outcome import PodOutcome
from router.demo.pods import INDEX
from router.errors import Unavailable
from router.host import writing
from router.hpc import Commands, JobReport, JobState, Submission, job_name, local
from router.pod import files as podfiles
from router.pod import layout
from router.script import complete
from router.startup.account import caller
from router.workload.model import ContainerKind, Workload

SECONDS: Final = 30
"""Time limit of one command of the queue, which normally answers within a second."""
INTERVAL: Final = 0.5


@dataclass(frozen=True, slots=True)
class Submitted:
    """A Pod whose batch job was submitted."""

    example: str
    pod: Mapping[str, Any]
    directory: layout.PodDirectory
    workload: Workload
    job_id: str


def run(argv: Sequence[str]) -> str:
    """Standard output of one command of the batch system. Raises the BatchError that its module finds."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(argv, None, f"gave no answer within {SECONDS} seconds") from error
    failure = local.failure(argv, done.returncode, done.stderr)
    if failure is not None:
        raise failure
    return done.stdout


def submit(
    example: str, pod: Mapping[str, Any], workload: Workload, *, cluster: str, work_dir: Path, commands: Commands
) -> Submitted:
    """Write the Pod's directory, submit its script with the usual options, note the job id."""
    metadata = pod["metadata"]
    directory = layout.PodDirectory(
        work_dir=str(work_dir),
        job_uid=metadata["ownerReferences"][0]["uid"],
        index=metadata["annotations"].get(INDEX, layout.NO_INDEX),
        pod_uid=metadata["uid"],
    )
    script = metadata["annotations"][names.KEY_SCRIPT]
    staged = podfiles.stage(pod, workload).add(layout.SCRIPT, complete(script).encode())
    Path(directory.spool).mkdir(mode=0o700, parents=True, exist_ok=True)
    writing.write(directory.path, staged)
    submission = Submission(
        name=job_name(metadata["name"], cluster, metadata["uid"], local.NAME_LIMIT),
        script=str(directory.script),
        directory=str(directory.path),
        output=str(directory.output),
    )
    job_id = local.job_id(run(local.submit_argv(submission, commands)))
    Path(directory.job_id).write_text(job_id + "\n")
    return Submitted(example, pod, directory, workload, job_id)


def follow(
    jobs: Sequence[Submitted], commands: Commands, *, deadline: float, show: Callable[[Submitted, JobReport], None]
) -> bool:
    """Wait until all jobs have ended, with two commands per round. False if ``deadline`` (monotonic) has passed."""
    seen: dict[str, JobState] = {}
    by_id = {job.job_id: job for job in jobs}
    while by_id and time.monotonic() < deadline:
        listed = set(local.parse_list(run(local.list_argv(user=caller(), commands=commands))))
        wanted = sorted(listed & by_id.keys())
        reports = local.parse_details(run(local.details_argv(wanted, commands))) if wanted else {}
        for job_id, report in reports.items():
            if report.state is not seen.get(job_id):
                seen[job_id] = report.state
                show(by_id[job_id], report)
            if report.state is JobState.FINISHED:
                del by_id[job_id]
        if by_id:
            time.sleep(INTERVAL)
    return not by_id


def pod_outcome(job: Submitted) -> PodOutcome:
    """Exit code and logs from the files that the script left."""
    logs = {
        container.name: path.read_text(errors="replace")
        for container in job.workload.containers
        if (path := Path(job.directory.log(container.name))).is_file()
    }
    return PodOutcome(str(job.directory.path), job.job_id, next(_failures(job), _success(job)), logs)


def _failures(job: Submitted) -> Iterator[int]:
    """Exit codes other than 0, in the order of the Pod's life, without sidecars."""
    for container in job.workload.containers:
        code = _code(job, container.name)
        if code and container.kind is not ContainerKind.SIDECAR:
            yield code


def _success(job: Submitted) -> int | None:
    """0 if every main container left an exit code, else None."""
    codes = [_code(job, container.name) for container in job.workload.main_containers]
    return None if None in codes else 0


def _code(job: Submitted, container: str) -> int | None:
    path = Path(job.directory.exit(container))
    if not path.is_file():
        return None
    code = json.loads(path.read_text())["code"]
    return int(code)
