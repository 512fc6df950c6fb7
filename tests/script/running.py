"""Runs scripts as a batch system would: a Pod's directory, a process, what it left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SHELL = "/bin/bash"
LONG = 400.0
"""Seconds after which whatever is awaited will not come, however busy the machine is."""


def wait_for(condition: Callable[[], Any], what: str = "") -> Any:
    """The first true value of a condition that is polled."""
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {LONG} s in vain {what}")


@dataclass
class Pod:
    """One Pod's directory below a work directory, and the jobs that were started for it."""

    work: Path
    environment: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return self.work / "pods" / "job-uid" / "noindex" / "pod-uid"

    def make(self, argv: Mapping[str, list[bytes]] = {}, env: Mapping[str, list[bytes]] = {}) -> Pod:
        """The directory, with what the agent would have staged."""
        for name in ("argv", "env", "files", "log", "exit"):
            (self.path / name).mkdir(parents=True, exist_ok=True)
        (self.work / "spool").mkdir(exist_ok=True)
        for folder, files in (("argv", argv), ("env", env)):
            for container, words in files.items():
                (self.path / folder / container).write_bytes(b"".join(word + b"\0" for word in words))
        return self

    def start(self, text: str, job_id: str = "7.pbs", **environment: str) -> subprocess.Popen[bytes]:
        """Start a job as PBS does: own session, little environment, cwd elsewhere, private umask."""
        script = self.work / f"script.{len(self.started)}"
        script.write_text(text)
        with (self.work / f"output.{len(self.started)}").open("wb") as output:
            process = subprocess.Popen(
                [SHELL, str(script)],
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.work),
                    "PBS_JOBID": job_id,
                    "BATCHGATE_DIR": str(self.path),
                    "TMPDIR": str(self.work),
                    **self.environment,
                    **environment,
                },
                cwd=self.work,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,
            )
        self.started.append(process)
        return process

    def run(self, text: str, **environment: str) -> int:
        """Start a job and wait for its exit status."""
        return self.start(text, **environment).wait(LONG)

    def output(self, number: int = 0) -> str:
        return (self.work / f"output.{number}").read_text()

    def log(self, container: str = "main", restart: int = 0) -> str:
        path = self.path / "log" / f"{container}.{restart}"
        return path.read_text(errors="replace") if path.exists() else ""

    def exit(self, container: str = "main", restart: int = 0) -> dict[str, Any] | None:
        path = self.path / "exit" / f"{container}.{restart}"
        return json.loads(path.read_text()) if path.exists() else None

    def code(self, container: str = "main", restart: int = 0) -> int | None:
        found = self.exit(container, restart)
        return None if found is None else found["code"]

    def awaits_log(self, text: str, container: str = "main", restart: int = 0) -> str:
        wait_for(lambda: text in self.log(container, restart), f"for {text!r} in the log of {container}")
        return self.log(container, restart)

    def notes(self) -> list[dict[str, Any]]:
        """The state notes, in their order."""
        files = [path for path in (self.work / "spool").iterdir() if not path.name.startswith(".")]
        return [json.loads(path.read_text()) for path in sorted(files, key=lambda path: int(path.name.split(".")[1]))]

    def alive(self) -> list[str]:
        """Command lines of processes that belong to this Pod by the mark in their environment."""
        mark = f"BATCHGATE_DIR={self.path}".encode()
        found = []
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                try:
                    if mark in (process / "environ").read_bytes().split(b"\0"):
                        found.append((process / "cmdline").read_text())
                except OSError:
                    continue
        return found

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(LONG)
