"""An embedded queue of a test's own: its commands as whole processes, and waiting for what they show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
SECONDS = 90.0
"""What is waited for takes a second where the machine has nothing else to do."""
_PAUSE = 0.02


@dataclass(frozen=True)
class Run:
    """How a command ended."""

    rc: int
    out: str
    err: str


def until(observe: Callable[[], T], holds: Callable[[T], bool] = bool, *, seconds: float = SECONDS) -> T:
    """The first observation that holds; the test fails with the last one where none does in time."""
    deadline = time.monotonic() + seconds
    while True:
        seen = observe()
        if holds(seen):
            return seen
        assert time.monotonic() < deadline, f"still {seen!r}"
        time.sleep(_PAUSE)


@dataclass(frozen=True)
class EmbeddedQueue:
    """The commands of one directory."""

    directory: Path
    work: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str, stdin: str = "") -> Run:
        """One command to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "router.local", *words],
            cwd=self.work, env=self._environment(), input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return Run(done.returncode, done.stdout, done.stderr)

    def started(self, *words: str) -> subprocess.Popen[bytes]:
        """One command that is not waited for; nothing comes through its standard input."""
        return subprocess.Popen(
            [sys.executable, "-m", "router.local", *words],
            cwd=self.work, env=self._environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "BATCHGATE_LOCAL": str(self.directory),
            "TMPDIR": str(self.work),
            **self.environment,
        }

    def ok(self, *words: str, stdin: str = "") -> str:
        """What a command prints that must succeed."""
        done = self.run(*words, stdin=stdin)
        assert (done.rc, done.err) == (0, ""), f"{words}: {done}"
        return done.out

    def define(self, *queues: dict[str, Any], **settings: Any) -> None:
        """Declare the queues."""
        self.ok("queues", "--define", "-", stdin=json.dumps({"queues": queues, "killDelay": 0.5, **settings}))

    def submit(self, script: str, *options: str) -> str:
        """The id of a submitted script, whose output goes to ``<work>/out``."""
        path = self.work / "script.sh"
        path.write_text(script)
        return self.ok("qsub", "-o", str(self.work / "out"), "-j", "oe", *options, str(path)).strip()

    def job(self, job_id: str) -> dict[str, Any]:
        """All attributes of a job."""
        found: dict[str, Any] = json.loads(self.ok("qstat", "-x", "-f", "-F", "json", job_id))["Jobs"][job_id]
        return found

    def reached(self, job_id: str, state: str) -> dict[str, Any]:
        """The job once it is in that state."""
        return until(lambda: self.job(job_id), lambda job: job["job_state"] == state)

    def runs(self, job_id: str) -> int:
        """The session of a job once its script runs."""
        job = until(lambda: self.job(job_id), lambda job: job["substate"] == 42)
        session: int = job["session_id"]
        return session

    def ended(self, job_id: str) -> tuple[int | None, int]:
        """Exit_status (None where there is none) and substate of a job once it is over."""
        job = self.reached(job_id, "F")
        return job.get("Exit_status"), job["substate"]

    def daemon(self) -> int:
        """The daemon's process id."""
        return int((self.directory / "lock").read_text())

    def output(self) -> str:
        """What the job printed, once there is something."""
        return until(lambda: (self.work / "out").read_text() if (self.work / "out").exists() else "")


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False
