"""Jobs whose containers tell in a file that they run, and what can be counted in these files.

A container of the runtime ``host`` is a process of this machine, so a file with an absolute path is the same for all.
Each line is written by one append, which no other can tear apart.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARK = "BATCHGATE_WHOLE_RUNS"
"""A variable of every container, by which its processes are found."""
LABEL = "whole-test"
IMAGE = "busybox:1.36"
BUSY = 2
"""CPUs from which on the tests' policy sends a Job to HPC."""


def unique(name: str) -> str:
    """A name that no other test has."""
    return f"{name}-{secrets.token_hex(3)}"


@dataclass(frozen=True)
class Line:
    """One thing that a container told: ``start`` or ``end``."""

    event: str
    container: str
    pod: str
    uid: str


@dataclass(frozen=True)
class Runs:
    """The files in which containers tell of themselves, one a Job."""

    directory: Path

    def container(self, job: str, body: str, *, name: str = "main", cpus: int = BUSY, **fields: Any) -> dict[str, Any]:
        """A container that tells of its start, does something, and tells of its end unless a signal is its end.

        The body may set traps, and may end by ``exit CODE``.
        """
        file = self.directory / job
        text = (
            f'tell() {{ echo "$1 {name} $POD_NAME $POD_UID" >>{file}; }}\n'
            f'exit() {{ tell end; builtin exit "$1"; }}\ntell start\n{body}\nexit $?\n'
        )
        env = [
            {"name": MARK, "value": str(self.directory)},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        ]
        return {
            "name": name,
            "image": IMAGE,
            "command": ["/bin/bash", "-c", text],
            "resources": {"requests": {"cpu": str(cpus), "memory": "64Mi"}},
            **fields,
            "env": env + list(fields.get("env", ())),
        }

    def job(
        self,
        name: str,
        body: str = "true",
        *,
        cpus: int = BUSY,
        pod: Mapping[str, Any] | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> dict[str, Any]:
        """A Job of one container; ``pod`` are further fields of its Pods, keywords further fields of the Job's spec."""
        return job_of(
            name, [self.container(name, body, cpus=cpus)], pod=pod or {}, annotations=annotations or {}, **spec
        )

    def lines(self, job: str) -> list[Line]:
        """What the containers of a Job told so far."""
        try:
            text = (self.directory / job).read_text()
        except FileNotFoundError:
            return []
        return [Line(*line.split()) for line in text.splitlines()]

    def started(self, job: str, container: str = "main") -> int:
        """How often a container of a Job started, in all of its Pods."""
        return sum(line.event == "start" and line.container == container for line in self.lines(job))

    def ended(self, job: str, container: str = "main") -> int:
        """How often it came to its own end."""
        return sum(line.event == "end" and line.container == container for line in self.lines(job))

    def twice(self, job: str) -> list[Line]:
        """Starts that happened more than once for one container of one Pod."""
        counted = Counter(line for line in self.lines(job) if line.event == "start")
        return [line for line, count in counted.items() if count > 1]

    def alive(self) -> list[str]:
        """Command lines of processes that a container started and that are still there."""
        mark = f"{MARK}={self.directory}".encode()
        return [words for words, environment in processes() if mark in environment]


def job_of(
    name: str,
    containers: Sequence[Mapping[str, Any]],
    *,
    pod: Mapping[str, Any],
    annotations: Mapping[str, str],
    **spec: Any,
) -> dict[str, Any]:
    """A Job of these containers, whose Pods get a second to end in."""
    template = {
        "metadata": {"labels": {LABEL: name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": list(containers),
            **pod,
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {LABEL: name}, "annotations": dict(annotations)},
        "spec": {"backoffLimit": 0, "template": template, **spec},
    }


def processes() -> list[tuple[str, list[bytes]]]:
    """Command line and environment of every process that this user may look into, zombies left out."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            environment = Path(entry.path, "environ").read_bytes().split(b"\0")
            words = Path(entry.path, "cmdline").read_bytes().decode(errors="replace").replace("\0", " ").strip()
        except OSError:
            continue
        if words:
            found.append((f"{entry.name}: {words}", environment))
    return found


def finished(job: Mapping[str, Any]) -> str:
    """``Complete`` or ``Failed`` once a Job is over, else nothing."""
    for condition in job.get("status", {}).get("conditions", ()):
        if condition["type"] in {"Complete", "Failed"} and condition["status"] == "True":
            return str(condition["type"])
    return ""
