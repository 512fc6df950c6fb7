"""The embedded queue's directory: configuration, jobs, scripts; each file written whole or not at all.

Shell (files). ``<dir>/config.json``, ``faults.json``, ``sequence``, ``lock``, ``socket``, ``log``, and for each job
``jobs/<seq>/`` with ``job.json``, ``script``, ``run.json``, ``nodefile``, ``session``, ``orders.json``,
``claim.<run>``, ``exit.json``. Files survive a kill of the daemon at any point, but not a crash of the machine.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from router.errors import ConfigError
from router.local import faults
from router.local.faults import Faults
from router.local.records import Config, Job, config_of, document_of, job_of, record_of
from router.local.shepherd import write_whole

PRIVATE: Final = 0o700


@dataclass(frozen=True, slots=True)
class State:
    """One embedded queue's files. ``root`` is absolute."""

    root: Path

    @property
    def socket(self) -> Path:
        """The daemon's unix socket."""
        return self.root / "socket"

    @property
    def lock(self) -> Path:
        """Locked (flock) while a daemon serves this directory; holds its pid."""
        return self.root / "lock"

    @property
    def log(self) -> Path:
        """The daemon's log file."""
        return self.root / "log"

    def job_directory(self, seq: int) -> Path:
        """A job's own directory."""
        return self.root / "jobs" / str(seq)

    def make(self) -> None:
        """Make the directory, private to this user. Raises ConfigError."""
        try:
            self.root.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            (self.root / "jobs").mkdir(mode=PRIVATE, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self.root}: cannot be the embedded queue's directory: {error.strerror}") from error

    def config(self) -> Config:
        """The configuration; without a file one queue ``workq`` with the machine's own cores."""
        path = self.root / "config.json"
        try:
            return config_of(json.loads(path.read_text()))
        except FileNotFoundError:
            cores = os.cpu_count() or 1
            return config_of({"queues": [{"name": "workq", "nodes": 1, "cpusPerNode": cores}]})
        except (OSError, ValueError, ConfigError) as error:
            raise ConfigError(f"{path}: {error}") from error

    def save_config(self, config: Config) -> None:
        """Write the configuration."""
        write_whole(self.root / "config.json", json.dumps(document_of(config), indent=2) + "\n")

    def faults(self) -> Faults:
        """The faults that are switched on."""
        path = self.root / "faults.json"
        try:
            return faults.faults_of(json.loads(path.read_text()))
        except FileNotFoundError:
            return faults.NO_FAULTS
        except (OSError, ValueError, ConfigError) as error:
            raise ConfigError(f"{path}: {error}") from error

    def save_faults(self, now: Faults) -> None:
        """Write the faults."""
        write_whole(self.root / "faults.json", json.dumps(faults.document_of(now), indent=2) + "\n")

    def next_sequence(self) -> int:
        """A new job number for this directory. The first is 0, as on OpenPBS."""
        path = self.root / "sequence"
        number = int(path.read_text()) if path.exists() else 0
        write_whole(path, str(number + 1))
        return number

    def jobs(self) -> dict[int, Job]:
        """Every job by number; works also beside a daemon. Raises ConfigError that names an invalid record."""
        found: dict[int, Job] = {}
        for directory in (self.root / "jobs").iterdir():  # it reads and closes the directory before the first name
            path = directory / "job.json"
            try:
                job = job_of(json.loads(path.read_bytes()))
            except FileNotFoundError:
                continue
            except (ValueError, ConfigError) as error:
                raise ConfigError(f"{path}: {error}; remove its directory to go on without it") from error
            found[job.seq] = job
        return dict(sorted(found.items()))

    def tidy(self) -> None:
        """Remove the remains of submissions that were cut off before their answer. For the daemon, at its start."""
        for directory in (self.root / "jobs").iterdir():
            if not (directory / "job.json").exists():
                shutil.rmtree(directory, ignore_errors=True)

    def save(self, job: Job) -> None:
        """Write a job's record."""
        directory = self.job_directory(job.seq)
        directory.mkdir(mode=PRIVATE, exist_ok=True)
        write_whole(directory / "job.json", json.dumps(record_of(job)))

    def forget(self, seq: int) -> None:
        """Remove a job's directory."""
        shutil.rmtree(self.job_directory(seq), ignore_errors=True)

    def write(self, seq: int, name: str, text: str) -> Path:
        """Write a file of a job's directory; bytes that were not UTF-8 are kept."""
        directory = self.job_directory(seq)
        directory.mkdir(mode=PRIVATE, exist_ok=True)
        path = directory / name
        path.write_bytes(text.encode(errors="surrogateescape"))
        return path

    def write_whole(self, seq: int, name: str, text: str) -> None:
        """Write a file of a job's directory, whole or not at all."""
        write_whole(self.job_directory(seq) / name, text)

    def read_json(self, seq: int, name: str) -> Any:
        """The content of a JSON file of a job's directory; None if it is missing or incomplete."""
        try:
            return json.loads((self.job_directory(seq) / name).read_text())
        except (OSError, ValueError):
            return None
