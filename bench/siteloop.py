"""Does only the necessary work on a site for each job: its directory and files, the submit command, its id's file.

The jobs are submitted one after the other, over an agent's connection. This is a program of its own, as the agent may
run as another user than the benchmark. The site and the files come on stdin as JSON; the seconds and ids go to stdout.
"""

from __future__ import annotations

import base64
import getpass
import json
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from router.agent import sites
from router.errors import OutputError
from router.host import Host
from router.host.reach import UserHosts
from router.hpc import BatchSystem, Commands, Submission, job_name
from router.pod import layout
from router.pod.files import Staged
from router.startup.policyfiles import PolicyStore

SECONDS = 60.0
"""Time limit of one submit command."""


@dataclass(frozen=True)
class Wanted:
    """The site, the user and the work. ``root`` is the site's directory of a cluster, ``files`` are base64 by path."""

    policy: str
    site: str
    user: str
    root: str
    cluster: str
    count: int
    files: Mapping[str, str]

    def text(self) -> str:
        """The JSON that the program reads."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Done:
    """The seconds of all jobs together, their ids, and the directory of the last one."""

    seconds: float
    ids: tuple[str, ...]
    last: str


def staged_in(directory: Path) -> dict[str, str]:
    """The files of a Pod that an agent writes before it submits the Pod."""
    found = [directory / layout.SCRIPT, directory / layout.RESULTS]
    for name in (layout.ARGV, layout.ENV, layout.FILES):
        found += [path for path in (directory / name).rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): base64.b64encode(path.read_bytes()).decode() for path in found}


def main() -> None:
    """Connect, then submit ``count`` jobs."""
    wanted = Wanted(**json.load(sys.stdin))
    site = sites.site_of(PolicyStore(Path(wanted.policy)).load(), wanted.site)
    system, commands = sites.system_of(site), sites.commands_of(site, None, "")
    staged = Staged({path: base64.b64decode(content) for path, content in wanted.files.items()})
    hosts = UserHosts(site, getpass.getuser())
    host = hosts.host_of(wanted.user, wanted.root)
    host.check()
    directories = [
        layout.PodDirectory(wanted.root, str(uuid.uuid4()), layout.NO_INDEX, str(uuid.uuid4()))
        for _ in range(wanted.count)
    ]
    begun = time.perf_counter()
    ids = [_submit(host, system, commands, directory, staged, wanted.cluster) for directory in directories]
    seconds = time.perf_counter() - begun
    hosts.close()
    print(json.dumps(asdict(Done(seconds, tuple(ids), str(directories[-1].path)))))


def _submit(
    host: Host,
    system: BatchSystem,
    commands: Commands,
    directory: layout.PodDirectory,
    staged: Staged,
    cluster: str,
) -> str:
    host.write_pod(directory.path, staged)
    name = job_name("loop", cluster, directory.pod_uid, system.NAME_LIMIT)
    submission = Submission(name, str(directory.script), str(directory.path), str(directory.output))
    argv = system.submit_argv(submission, commands)
    done = host.run(argv, SECONDS)
    if failure := system.failure(argv, done.returncode, done.stderr.decode(errors="replace")):
        raise failure
    job_id = system.job_id(done.stdout.decode())
    if not system.is_id(job_id):
        raise OutputError(argv, 0, f"no job id: {job_id!r}")
    host.put(directory.job_id, f"{job_id}\n".encode())
    return job_id


if __name__ == "__main__":
    main()
