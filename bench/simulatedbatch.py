"""Simulates a batch server with more jobs than a machine of two cores could run, for our Pods and other users' jobs.

Only its answers are real: the commands print prepared files in OpenPBS' formats.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from router import names
from router.host import writing
from router.hpc import job_name, openpbs
from router.local import display
from router.local.records import QUEUED, RUNNING, Job
from router.local.resources import Chunk
from router.pod import files as podfiles
from router.pod import layout
from router.pod.layout import PodDirectory

Json = dict[str, Any]

CLUSTER = "0a1b2c3d"
NAMESPACE = "default"
SERVER = "simulated"
OTHERS, HISTORY = 5, 20
"""Living jobs of other users, and finished jobs of all users, for each job of ours."""
RUN_EVERY = 5
"""Every fifth of our jobs runs, the other jobs wait."""
_COMMANDS = """\
#!/bin/sh
# The words of OpenPBS' commands that the agent uses, answered from files.
cd "${0%/*}" || exit 1
case "$1 $2 $3 $5" in
"qstat -w -u ") exec awk -v user="$4" 'NR <= 5 || $2 == user' table ;;
"qselect -x -N ") exec awk -v name="$4" '$2 == name { print $1 }' names ;;
esac
case "$1 $2 $3 $4 $5" in
"qstat -x -f -F json" | "qstat -x -f -F dsv") cd "$5" && shift 5 && exec cat -- "$@" ;;
esac
echo "simulated: no answer was prepared for: $*" >&2
exit 1
"""


@dataclass(frozen=True)
class Fleet:
    """Our Pods and their jobs, which differ only in names. ``root`` is the cluster's directory on the site."""

    count: int
    root: str
    user: str
    queue: str

    def uid(self, kind: str, number: int) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind} {number}"))

    def pod_name(self, number: int) -> str:
        return f"sweep-{number:05}-x7k2p"

    def job_id(self, number: int) -> str:
        return f"{1000 + number}.{SERVER}"

    def runs(self, number: int) -> bool:
        return number % RUN_EVERY == 0

    def directory(self, number: int) -> PodDirectory:
        return PodDirectory(self.root, self.uid("job", number), layout.NO_INDEX, self.uid("pod", number))

    def pod(self, number: int, template: Json, node: str, stamp: str) -> Json:
        """The Pod in the API server before an agent has written its status."""
        annotations = {**template["metadata"]["annotations"], names.KEY_JOB_ID: self.job_id(number)}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"sweep-{number:05}", "uid": self.uid("job", number)}
        metadata = {
            "name": self.pod_name(number),
            "namespace": NAMESPACE,
            "uid": self.uid("pod", number),
            "creationTimestamp": stamp,
            "labels": {**template["metadata"]["labels"], names.CONTROLLER_UID: self.uid("job", number)},
            "annotations": annotations,
            "finalizers": [names.JOB_TRACKING],
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        }
        spec = {**template["spec"], "nodeName": node}
        return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "qosClass": "Burstable"}}


def prepare_batch_server(fleet: Fleet, directory: Path) -> Path:
    """Write the answers; returns the program that prints them."""
    for form in ("json", "dsv"):
        (directory / form).mkdir(parents=True)
    now = time.time()
    ours = [_job(fleet, number, now) for number in range(fleet.count)]
    for job in ours:
        (directory / "dsv" / job.job_id).write_text(display.as_dsv([job]))
        text = display.as_json([job], several_asked=False, server=SERVER, now=now)
        (directory / "json" / job.job_id).write_text(text)
    others = [_other(ours[number % len(ours)], number, now) for number in range(fleet.count * OTHERS)]
    (directory / "table").write_text(display.wide_table([*others, *ours], SERVER, now))
    first = 10 * fleet.count
    history = (f"{first + number}.{SERVER} old-{number}\n" for number in range(fleet.count * HISTORY))
    (directory / "names").write_text("".join((*history, *(f"{job.job_id} {job.name}\n" for job in ours))))
    program = directory / "commands"
    program.write_text(_COMMANDS)
    program.chmod(0o700)
    return program


def _job(fleet: Fleet, number: int, now: float) -> Job:
    place, runs = fleet.directory(number), fleet.runs(number)
    return Job(
        seq=1000 + number,
        server=SERVER,
        name=job_name(fleet.pod_name(number), CLUSTER, fleet.uid("pod", number), openpbs.NAME_LIMIT),
        owner=fleet.user,
        host="login",
        queue=fleet.queue,
        state=RUNNING if runs else QUEUED,
        substate=42 if runs else 10,
        chunks=[Chunk(1, 1, 1, 1, 0, 0)],
        place="free",
        walltime=86400,
        listed={"ncpus": "1", "nodect": "1", "place": "free", "select": "1:ncpus=1", "walltime": "24:00:00"},
        options={"-j": "oe", "-k": "oed", "-S": "/bin/bash"},
        attributes={"umask": "077"},
        variables={names.ENV_DIR: str(place.path)},
        origin={"PBS_O_HOME": f"/home/{fleet.user}", "PBS_O_PATH": "/usr/bin:/bin", "PBS_O_HOST": "login"},
        arguments=f"-f -N {fleet.pod_name(number)} -o {place.output} -j oe -k oed -r n {place.script}",
        output=str(place.output),
        error=str(place.output),
        created=now - 3600,
        modified=now - 3600,
        comment="" if runs else "Not Running: Insufficient amount of resource: ncpus",
        started=now - 1800 if runs else None,
        run_count=int(runs),
        session=40000 + number if runs else None,
    )


def _other(like: Job, number: int, now: float) -> Job:
    """Another user's job, which only shows as a row of a table."""
    values = {field: getattr(like, field) for field in like.__dataclass_fields__}
    return Job(
        **{**values, "seq": 1_000_000 + number, "owner": f"user{number % 400}", "name": "theirs", "created": now}
    )


def write_directories(fleet: Fleet, script: bytes) -> None:
    """Write the Pods' directories on the site, as submissions and running scripts leave them, and their notes."""
    spool = Path(fleet.root, layout.SPOOL)
    spool.mkdir(parents=True)
    now = int(time.time())
    for number in range(fleet.count):
        place, job_id = fleet.directory(number), fleet.job_id(number)
        files = {layout.SCRIPT: script, layout.JOB_ID: f"{job_id}\n".encode()}
        if fleet.runs(number):
            files |= {layout.CLAIM: f"{job_id}.1\n".encode(), layout.ALIVE: b"", f"{layout.LOG}/main.0": b"a line\n"}
            common = {"job": job_id, "host": "node", "time": now}
            for turn, note in enumerate(({"event": "started"}, {"event": "running", "container": "main"}), start=1):
                text = json.dumps({**common, **note}) + "\n"
                (spool / f"{fleet.uid('pod', number)}.{turn}.{note['event']}").write_text(text)
        writing.write(place.path, podfiles.Staged(files))
        if fleet.runs(number):
            # No script touches it here, so a future time stands for its signs of life.
            os.utime(Path(place.path, layout.ALIVE), (now + 86400, now + 86400))
