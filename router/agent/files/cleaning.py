"""Removes old directories of gone Pods, and old notes, once they are no longer needed.

Pure: ``last_sign``, ``is_over``. Shell: one thread that looks at some directories a minute. It removes a directory if

* its Pod is gone, by the watch and by a question to the API server,
* all jobs that it names have ended, by a question to the batch system, and
* its files are unchanged for the site's ``keep`` time.

The thread takes the directory's claim first. An unknown job that starts after all finds the claim, or no directory,
and ends at once. Staged credentials go from such a directory long before the rest, after ``WIPED_SECONDS``.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from router.agent.batch.jobs import BatchJobs
from router.agent.files.inspecting import small
from router.agent.files.wiping import holds_credentials, wipe
from router.agent.records import Records
from router.background.loop import Loop
from router.errors import ApiError, BatchError
from router.host import Host
from router.hpc import JobReport, JobState
from router.pod import layout
from router.pod.layout import PodDirectory
from router.pod.life import CANCELLED, Life, with_claim

log: Final = logging.getLogger("batchgate.agent")

SECONDS: Final = 60.0
MOST_LOOKED: Final = 500
"""Most directories, and most notes, that one turn looks at, to spare the file server."""
MOST_REMOVED: Final = 50
_SIGNS: Final = (layout.ALIVE, layout.CLAIM, layout.LOG, layout.EXIT, layout.JOB_ID)
_HALF: Final = re.compile(r"\.[A-Za-z0-9-]{1,64}\.[0-9a-f]{16}")
_UID: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_ID: Final = re.compile(r"(\d{1,20})(?:\.[A-Za-z0-9._-]{1,255})?")
_HALF_SECONDS: Final = 3600.0
"""Age from which an unfinished file or directory counts as abandoned by its writer."""

WIPED_SECONDS: Final = 900.0
"""Time without a sign of life after which credentials go from the directory of a Pod that is gone.

The agent removes those of Pods that it knows. Others went while it was away, and a script touches ``alive`` every 15 s.
"""
_SKEW: Final = 86400.0
_DIRECTORY: Final = frozenset({"directory"})
_REMAINS: Final = frozenset({"directory", "other"})
"""Kinds of what may have been a Pod's directory: its user may have locked it, or put a link in its place."""


# --- pure --------------------------------------------------------------------------------------------------------


def last_sign(times: Iterable[float | None], now: float) -> float | None:
    """The last sign of life among modification times, or None.

    Times far in the future are ignored, as a file's owner can set any time.
    """
    return max((one for one in times if one is not None and one <= now + _SKEW), default=None)


def is_over(numbers: Collection[str], reports: Mapping[str, JobReport]) -> bool:
    """Whether all jobs with these numbers have ended; the server has forgotten a job without a report."""
    living = {job_id.partition(".")[0] for job_id, one in reports.items() if one.state is not JobState.FINISHED}
    return living.isdisjoint(numbers)


# --- shell -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Retention:
    """The settings of cleaning.

    :param root: this cluster's directory on the site
    :param keep: seconds that a directory and a note stay after the last sign of life
    """

    root: str
    keep: float


@dataclass(frozen=True, slots=True)
class _Remains:
    """The directory of a Pod without a record, and the numbers of the jobs that it names.

    :param expired: whether all of it may go, and not only staged credentials
    """

    directory: PodDirectory
    jobs: tuple[str, ...]
    expired: bool = True


@dataclass(frozen=True, slots=True)
class Cleaned:
    """How many directories and notes one turn removed."""

    pods: int = 0
    notes: int = 0


class Cleaning:
    """Cleans one user's directories; ``start`` it when the Pods and jobs are known, ``stop`` it in the end.

    :param pods_of: takes a Job's uid; returns the uids of its Pods from the API server; may raise ApiError
    :param ready: whether all Pods and all living jobs are known, and this agent leads; asked before each removal
    """

    def __init__(
        self,
        host: Host,
        jobs: BatchJobs,
        records: Records,
        retention: Retention,
        *,
        pods_of: Callable[[str], Collection[str]],
        ready: Callable[[], bool],
    ) -> None:
        self._host = host
        self._jobs = jobs
        self._records = records
        self._pods_of = pods_of
        self._root = retention.root
        self._pods = PurePosixPath(retention.root, layout.PODS)
        self._spool = PurePosixPath(retention.root, layout.SPOOL)
        self._keep = retention.keep
        self._ready = ready
        self._next_job = ""
        self._next_note = ""
        self.turned = False
        """Whether there was a turn, successful or not."""
        self.more = False
        """Whether the last turn has left directories or notes for the next one to look at."""
        self._loop = Loop("cleaning", self._turn)

    def start(self) -> None:
        """Start the thread; its first turn is in a minute."""
        self._loop.start(SECONDS)

    def stop(self) -> None:
        """Stop the thread. It first finishes the removal of a directory."""
        self._loop.stop()

    def await_end(self) -> None:
        """Wait, after ``stop``, until the thread has ended; returns at once if it never started."""
        self._loop.await_end()

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._loop.alive

    def _turn(self) -> float:
        try:
            done = self.look()
            self.more = bool(self._next_job or self._next_note)
        except (ApiError, BatchError, OSError) as error:
            self.more = False
            log.warning("old directories cannot be removed", extra={"fields": {"error": str(error)[:2000]}})
        else:
            if done != Cleaned():
                log.info("cleaned", extra={"fields": {"pods": done.pods, "notes": done.notes}})
        self.turned = self.turned or self._ready()
        return SECONDS

    def look(self) -> Cleaned:
        """Take one turn. It ends early with ApiError, BatchError or OSError."""
        if not self._ready():
            return Cleaned()
        now = self._host.clock()
        old = list(itertools.islice(self._old(now), MOST_REMOVED))
        removed = {one.directory.pod_uid for one in self._nobodys(old) if self._removed(one)}
        if len(old) == MOST_REMOVED:  # directories that stay must not block the next ones
            self._next_job = old[-1].directory.job_uid + ("" if removed else "\0")
        return Cleaned(len(removed), self._clean_spool(now, removed))

    # --- directories ---

    def _old(self, now: float) -> Iterator[_Remains]:
        """Directories without a Pod, unchanged for ``keep``; goes on where the last turn ended."""
        looked = 0
        for job in _from(sorted(self._host.names(self._pods)), self._next_job):
            if looked >= MOST_LOOKED:
                self._next_job = job
                return
            looked += 1
            if not _UID.fullmatch(job) or not self._is_directory(self._pods / job):
                continue
            indexes = self._directories(self._pods / job, now)
            for index in indexes:
                uids = self._directories(self._pods / job / index, now, kinds=_REMAINS)
                looked += len(uids)
                for uid in uids:
                    yield from self._silent(PodDirectory(self._root, job, index, uid), now)
        self._next_job = ""

    def _is_directory(self, path: PurePosixPath, kinds: frozenset[str] = _DIRECTORY) -> bool:
        found = self._host.status(path)
        return found is not None and found.kind in kinds

    def _directories(self, path: PurePosixPath, now: float, kinds: frozenset[str] = _DIRECTORY) -> list[str]:
        """The directories in a Job's or index's directory, without users' other files. Removes an empty, old one."""
        listed = self._host.names(path)
        if not listed:
            self._remove_empty(path, now)
        return [name for name in listed if self._is_directory(path / name, kinds)]

    def _silent(self, directory: PodDirectory, now: float) -> Iterator[_Remains]:
        path = directory.path
        if _HALF.fullmatch(directory.pod_uid):
            self._remove_half(path, now)
        if not _UID.fullmatch(directory.pod_uid) or self._records.get(directory.pod_uid) is not None:
            return
        times = [self._host.modified(path), *(self._host.modified(path / name) for name in _SIGNS)]
        last = last_sign(times, now)
        if last is None:
            return
        expired = now - last >= self._keep
        if expired or (now - last >= WIPED_SECONDS and holds_credentials(self._host, directory)):
            yield _Remains(directory, self._jobs_of(directory), expired)

    def _jobs_of(self, directory: PodDirectory) -> tuple[str, ...]:
        """The numbers of the batch jobs that a directory names: the noted job, and the owner of the claim.

        Servers are left out: the user can write these files, and the name of another server would stop the question.
        """
        noted = small(self._host, directory, layout.JOB_ID).decode(errors="replace").strip()
        owner = with_claim(Life(), small(self._host, directory, layout.CLAIM)).owner
        found = (_ID.fullmatch(text) for text in (noted, owner))
        return tuple(dict.fromkeys(match[1] for match in found if match))

    def _remove_empty(self, path: PurePosixPath, now: float) -> None:
        """Remove an empty directory of a Job or index, unless a Pod's directory may just be made in it."""
        modified = self._host.modified(path)
        if modified is not None and now - modified >= _HALF_SECONDS:
            self._host.remove_directory(path)

    def _remove_half(self, path: PurePosixPath, now: float) -> None:
        """Remove an unfinished directory, whose writer was killed. It may hold credentials, so it goes soon."""
        modified = self._host.modified(path)
        if modified is not None and now - modified >= _HALF_SECONDS:
            self._removed_tree(path, sealed=True)

    def _nobodys(self, old: list[_Remains]) -> Iterator[_Remains]:
        """The directories whose Pods are gone and whose jobs have ended; asks the batch system at most once."""
        living = {job: self._pods_of(job) for job in {one.directory.job_uid for one in old}}
        gone = [one for one in old if one.directory.pod_uid not in living[one.directory.job_uid]]
        ids = tuple(dict.fromkeys(job_id for one in gone for job_id in one.jobs))
        reports = self._jobs.details(ids) if ids else {}
        yield from (one for one in gone if is_over(one.jobs, reports))

    def _removed(self, remains: _Remains) -> bool:
        """Remove one directory, or the credentials in it; returns whether the directory is gone.

        Takes its claim first: from then on no script starts in it, and a running one ends.
        """
        directory = remains.directory
        if not self._ready() or self._records.get(directory.pod_uid) is not None:
            return False
        if not remains.expired:
            self._wipe(directory)
            return False
        if not self._removed_tree(directory.path, sealed=False):
            return False
        fields = {"uid": directory.pod_uid, "job_uid": directory.job_uid, "jobs": remains.jobs}
        log.info("removed an old directory", extra={"fields": fields})
        return True

    def _wipe(self, directory: PodDirectory) -> None:
        try:
            self._seal(directory.path)
            wipe(self._host, directory)
        except OSError as error:
            fields = {"path": str(directory.path), "error": str(error)[:2000]}
            log.warning("staged credentials stay", extra={"fields": fields})
            return
        log.info("removed staged credentials", extra={"fields": {"uid": directory.pod_uid}})

    def _seal(self, path: PurePosixPath) -> None:
        if not self._host.link_claim(path, CANCELLED):
            with contextlib.suppress(NotADirectoryError, IsADirectoryError):
                self._host.put(path / layout.CLAIM, f"{CANCELLED}\n".encode())

    def _removed_tree(self, path: PurePosixPath, *, sealed: bool) -> bool:
        """Remove a directory; returns whether that succeeded. A failure is logged, and the turn goes on."""
        try:
            if not sealed:
                self._seal(path)
            try:
                self._host.remove_tree(path)
            except NotADirectoryError:
                self._host.remove(path)  # a link in the directory's place
        except OSError as error:
            fields = {"path": str(path), "error": str(error)[:2000]}
            log.warning("an old directory stays", extra={"fields": fields})
            return False
        return True

    # --- notes ---

    def _clean_spool(self, now: float, gone: Collection[str]) -> int:
        """Remove the notes of these gone Pods, and some old notes of unknown Pods; returns how many of the latter."""
        listed = sorted(self._host.names(self._spool))
        mine = {name for name in listed if name.partition(".")[0] in gone}
        for name in mine:
            self._host.remove(self._spool / name)
        rest = [name for name in _from(listed, self._next_note) if name not in mine]
        old = [name for name in rest[:MOST_LOOKED] if self._is_old_note(name, now)]
        for name in old:
            self._host.remove(self._spool / name)
        self._next_note = rest[MOST_LOOKED] if len(rest) > MOST_LOOKED else ""
        return len(old)

    def _is_old_note(self, name: str, now: float) -> bool:
        """Whether a note is old and its Pod unknown, or the note is old and unfinished."""
        half = name.startswith(".")
        if not half and self._records.get(name.partition(".")[0]) is not None:
            return False
        found = self._host.status(self._spool / name)
        if found is None or found.kind == "directory":
            return False
        return now - found.modified >= (max(self._keep, _HALF_SECONDS) if half else self._keep)


def _from(listed: list[str], first: str) -> list[str]:
    return [name for name in listed if name >= first]
