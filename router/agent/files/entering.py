"""Starts the program that runs a command in a running container, on its node, as its HPC user.

Shell. The batch system's own way leads to the node, or ssh; the Pod's record, not the request, says which job and which user.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from router import names
from router.agent.batch.commands import BatchCommands
from router.agent.records import Record, Records, SiteRecords
from router.errors import RequestError
from router.host import Host, inside
from router.kube.events import Recorder, Reference
from router.kubelet.runs import LoggedPod
from router.kubelet.source import Entered
from router.pod import layout
from router.reconcile.following import followed
from router.reconcile.model import Job
from router.site.schema import Runtime, Site

log: Final = logging.getLogger("batchgate.agent")

PYTHON: Final = ("/usr/bin/python3", "-I")
"""What runs the program on a node."""
_LONGEST_PROGRAM: Final = 100


class Entrance:
    """The way into the containers of one site.

    :param host_of: takes a Pod's uid; returns the host as its HPC user
    :param commands_of: the same for the batch system's commands
    """

    def __init__(
        self,
        site: Site,
        records: Records | SiteRecords,
        host_of: Callable[[str], Host],
        commands_of: Callable[[str], BatchCommands],
        recorder: Recorder,
    ) -> None:
        self._site = site
        self._records = records
        self._host_of = host_of
        self._commands_of = commands_of
        self._recorder = recorder

    def allow(self, what: str) -> None:
        """See ``router.kubelet.source.LogSource``."""
        if not self._site.exec:
            raise _impossible(what, f"site {self._site.name} does not allow it (its setting exec is false)")

    def enter(self, pod: LoggedPod, container: str, program: str) -> Entered:
        """See ``router.kubelet.source.LogSource``."""
        site, record = self._site, self._records.get(pod.uid)
        self.allow("exec")
        job = None if record is None else followed(record.facts)
        if record is None or job is None:
            raise _impossible("exec", "its batch job is not known")
        commands, host = self._commands_of(pod.uid), self._host_of(pod.uid)
        if not commands.system.is_id(job.job_id):
            raise _impossible("exec", f"{job.job_id!r} is no job of {site.system}")
        path = record.directory.path / layout.INSIDE
        way = self._way(job, (*PYTHON, str(path)), commands)
        host.put(path, program_text())
        piped = host.pipe(way)
        self._tell(record, commands.user, container, program)
        return Entered(piped, site.runtime is not Runtime.HOST)

    def _way(self, job: Job, words: tuple[str, ...], commands: BatchCommands) -> tuple[str, ...]:
        """The command that runs a program within the job. Raises RequestError where there is none."""
        site, system = self._site, commands.system
        if site.exec != "ssh":
            way = system.within_argv(job.job_id, words, commands.commands)
            if way is None:
                why = f"{site.system} has no way of its own into a running job, and site {site.name} does not say exec ssh"
                raise _impossible("exec", why)
            return way
        hosts = job.report.hosts if job.report is not None else ""
        way = system.over_ssh(job.job_id, hosts, words, commands.commands)
        if way is None:
            raise _impossible("exec", f"{site.system} has not told the node of job {job.job_id} yet; try again")
        return way

    def _tell(self, record: Record, user: str, container: str, program: str) -> None:
        shown = json.dumps(program[:_LONGEST_PROGRAM])
        words = f"kubectl exec runs {shown} in container {container} as HPC user {user or 'of the agent'}"
        about = Reference("Pod", record.namespace, record.name, record.uid)
        self._recorder.tell(about, "Normal", names.REASON_EXEC, words)
        fields = {"reason": names.REASON_EXEC, "pod": record.key, "uid": record.uid, "words": words}
        log.info("event", extra={"fields": fields})


@cache
def program_text() -> bytes:
    """The program that runs on a node."""
    return Path(inside.__file__).read_bytes()


def _impossible(what: str, why: str) -> RequestError:
    """A refusal without a colon, which an API server up to 1.31 would read as YAML."""
    return RequestError(
        501, f"{what} is not possible, as {why}; kubectl logs and kubectl describe show what the Pod does"
    )
