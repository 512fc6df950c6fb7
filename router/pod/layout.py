"""Names every path of a Pod under a site's work directory.

Pure. The script, the agent and the log server all take these names from here. docs/script.md says what each file holds.
A Pod's directory is ``<work dir>/pods/<job uid>/<index>/<pod uid>``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

NO_INDEX: Final = "noindex"
"""The index of Pods whose Job is not Indexed."""

ARGV: Final = "argv"
ENV: Final = "env"
IMAGE: Final = "image"
"""Directory with a file of NUL-terminated ``key=value`` about each container's image."""
HOSTNAME: Final = "hostname"
"""A file with the Pod's host name and its names for ``/etc/hosts``, each NUL-terminated."""
IMAGE_ENV: Final = "image-env"
"""Directory with a file of NUL-terminated ``NAME=value`` of each container's image.

LD_LIBRARY_PATH is left out, as the runtime adds to it.
"""
FILES: Final = "files"
CREDENTIALS: Final = "credentials"
"""An empty file: contents of Secrets, or tokens, are among what was staged in ``argv``, ``env`` and ``files``."""
ACCOUNT_VOLUME: Final = ".serviceaccount"
"""Below ``files``: token, CA and namespace of the automatic mount. No volume has such a name."""
VOLUMES: Final = "volumes"
LOG: Final = "log"
EXIT: Final = "exit"
MESSAGE: Final = "message"
"""Directory with what the latest run of each container writes to its ``terminationMessagePath``."""
CLAIM: Final = "claim"
ALIVE: Final = "alive"
USAGE: Final = "usage"
"""What the job uses, by its cgroup: seconds since 1970, nanoseconds of cores, bytes. ``-`` stands for unknown."""
END: Final = "end"
"""A file with the word ``end`` asks the script to end, where a signal would end more than the script."""
SCRIPT: Final = "script"
INSIDE: Final = "inside"
"""The program that runs a command in one of the Pod's containers. The agent puts it there when it is first needed."""
RESULTS: Final = "results"
"""The plan of the results to collect when the Pod has ended: places below its volumes. Staged with the other files."""
JOB_ID: Final = "job-id"
OUTPUT: Final = "output"
"""The script's own output, which the batch system catches (the containers' output goes to ``log``)."""
TRACEPARENT: Final = "traceparent"
"""A file with the place of the Pod's run in its Job's trace, where traces are on."""
SPOOL: Final = "spool"
PODS: Final = "pods"


def site_directory(work_dir: str, user: str, site: str, cluster: str) -> str:
    """The directory of one cluster's Jobs on a site: ``<workDir>/<site>.<cluster id>``.

    Several clusters, and several sites of a policy, may share a workDir. ``{user}`` in it is the HPC user.
    """
    return str(PurePosixPath(work_dir.replace("{user}", user), f"{site}.{cluster}"))


@dataclass(frozen=True, slots=True)
class PodDirectory:
    """The files of one Pod. All paths are absolute, on the site."""

    work_dir: str
    job_uid: str
    index: str
    pod_uid: str

    @property
    def path(self) -> PurePosixPath:
        """The Pod's directory, mode 0700."""
        return PurePosixPath(self.work_dir, PODS, self.job_uid, self.index, self.pod_uid)

    @property
    def spool(self) -> PurePosixPath:
        """The directory in which this user's jobs leave one small file for each change of state."""
        return PurePosixPath(self.work_dir, SPOOL)

    def argv(self, container: str) -> PurePosixPath:
        """File with NUL-terminated words that replace the script's own argv."""
        return self.path / ARGV / container

    def env(self, container: str) -> PurePosixPath:
        """File with NUL-terminated ``NAME=value`` that override the script's own variables."""
        return self.path / ENV / container

    def files(self, volume: str) -> PurePosixPath:
        """A staged volume (configMap, secret, downwardAPI)."""
        return self.path / FILES / volume

    def log(self, container: str, restart: int = 0) -> PurePosixPath:
        """Stdout and stderr of one run of a container, raw bytes."""
        return self.path / LOG / f"{container}.{restart}"

    def log_index(self, container: str, restart: int = 0) -> PurePosixPath:
        """When the agent first saw which part of a log. Written beside the log, by the agent alone."""
        return self.path / LOG / f".{container}.{restart}.index"

    def exit(self, container: str, restart: int = 0) -> PurePosixPath:
        """JSON: code, signal, started, finished, deadline, log; reason and message if the run was unable to begin."""
        return self.path / EXIT / f"{container}.{restart}"

    @property
    def script(self) -> PurePosixPath:
        """The script as it was submitted."""
        return self.path / SCRIPT

    @property
    def output(self) -> PurePosixPath:
        """The batch system's -o file."""
        return self.path / OUTPUT

    @property
    def job_id(self) -> PurePosixPath:
        """The job id, noted after a submission."""
        return self.path / JOB_ID
