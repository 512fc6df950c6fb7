"""Brings a Pod's results and logs, with a manifest, to the directory that the site's admin has chosen.

Shell around ``router.pod.results``. Files are read block by block through the site's host, which follows no link. They
are written below a temporary name, which becomes the Pod's directory when all files are on the disk. So an existing
directory is always whole, and is left as it is. The manifest and an Event name the files that were not brought.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from router import names
from router.agent.files.destination import Destination
from router.agent.files.inspecting import small
from router.agent.records import Record
from router.host import Host, HostUnavailable, Status
from router.kube.events import Kind, Reference
from router.pod import layout, results
from router.pod.layout import PodDirectory
from router.pod.results import Brought, Collected, Left, Subject
from router.reconcile.following import followed
from router.site.schema import Site
from router.workload import resultpaths
from router.workload.resultpaths import Pattern, Plan

_BLOCK: Final = 1 << 20
_DEEPEST: Final = 100
"""Most levels of directories; deeper ones are left out."""
_MOST_NAMES: Final = 100_000
"""Most directory entries that are looked at for one Pod."""
_MOST_STEPS: Final = 2_000_000
"""Most comparisons of a name with a pattern for one Pod: some seconds of one thread."""
_TRIES: Final = 3
"""Most copies of a file that changes meanwhile; the last copy is kept and marked."""

_LOCKED: Final = "a link, or locked by its own mode"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits for one Pod: bytes and files to bring; bytes of the file system that stay free."""

    size: int
    files: int
    reserve: int


Tell = Callable[[Reference, Kind, str, str], None]


class Results:
    """Brings the results of one site's Pods; see ``router.agent.pods.actions.Collector``.

    :param tell: writes an Event about a Pod: the Recorder's ``tell``
    """

    def __init__(self, host: Host, site: Site, tell: Tell) -> None:
        self._host = host
        self._site = site
        self._tell = tell

    def collect(self, record: Record) -> None:
        """Bring results and logs, unless they were brought or the site names no directory. After OSError, try again."""
        pod, site = record.facts.pod, self._site
        if site.results_dir is None or not pod.name or not pod.job:
            return
        subject = subject_of(record, site)
        into = Path(site.results_dir)
        limits = Limits(site.results_limit, site.results_files, site.results_reserve)
        try:
            collected = collect(self._host, record.directory, subject, into, limits)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            self._say(subject, f"results are not brought yet: {place}{error.strerror or error}", well=False)
            raise
        if collected is not None:
            where = into.joinpath(*results.place(subject))
            self._say(subject, results.sentence(collected, str(where)), well=collected.complete)

    def _say(self, subject: Subject, words: str, *, well: bool) -> None:
        about = Reference("Pod", subject.namespace, subject.pod, subject.uid)
        if well:
            self._tell(about, "Normal", names.REASON_RESULTS, words)
        else:
            self._tell(about, "Warning", names.REASON_RESULTS_INCOMPLETE, words)


def subject_of(record: Record, site: Site) -> Subject:
    """The subject of a record's results: Pod, Job, site and batch job."""
    pod, job = record.facts.pod, followed(record.facts)
    return Subject(
        namespace=pod.namespace,
        job=pod.job,
        pod=pod.name,
        uid=pod.uid,
        job_uid=pod.job_uid,
        index=pod.index,
        site=site.name,
        queue=pod.queue,
        job_id=job.job_id if job else pod.job_id,
        exits={name: max(exits) for name, exits in record.facts.life.exits if exits},
    )


def collect(host: Host, directory: PodDirectory, subject: Subject, into: Path, limits: Limits) -> Collected | None:
    """Bring a Pod's logs and results below ``into``; None if they are there already.

    :raises OSError: the destination is full or cannot be written, or the Pod's directory is unreadable
    """
    with Destination(into, results.place(subject), results.MANIFEST) as destination:
        if destination.is_there:
            return None
        plan = results.read_plan(small(host, directory, layout.RESULTS, results.MOST_PLAN + 1))
        choice = _Choice(host, limits)
        _choose_logs(choice, directory)
        found = _choose_results(choice, directory, plan)
        if not destination.has_room(sum(one.status.size for one in choice.files), limits.reserve):
            raise OSError(
                errno.ENOSPC, f"{into} has no room for {choice.size} bytes beside the reserve that stays free"
            )
        brought = [one for file in choice.files if (one := _copy(choice, file, destination)) is not None]
        collected = Collected(
            files=tuple(brought),
            left=tuple(choice.left),
            left_count=choice.left_count,
            missing=tuple(said for said in dict.fromkeys(one.said for one in plan.wanted) if said not in found),
            problems=plan.problems,
        )
        whole = destination.finish(results.manifest_text(subject, plan, collected))
    return collected if whole else None


# --- which files -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _File:
    """One file to bring: its source, its path in the destination, and its status when it was chosen."""

    source: PurePosixPath
    path: PurePosixPath
    status: Status


@dataclass(slots=True)
class _Choice:
    """The files of one Pod that will be brought, and the files that are left out."""

    host: Host
    limits: Limits
    files: list[_File] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    left_count: int = 0
    size: int = 0
    names: int = 0
    steps: int = 0

    def leave(self, path: PurePosixPath, reason: str, size: int | None = None) -> None:
        """Note a path that is left out."""
        self.left_count += 1
        if len(self.left) < results.MOST_LEFT:
            self.left.append(Left(str(path), reason, size))

    def take(self, source: PurePosixPath, path: PurePosixPath, status: Status) -> None:
        """Choose a file, unless its kind or a limit forbids it."""
        if status.kind != "file":
            self.leave(path, "a link, or no ordinary file")
        elif len(self.files) >= self.limits.files:
            self.leave(path, f"more than the {self.limits.files} files that the site brings of a Pod", status.size)
        elif self.size + status.size > self.limits.size:
            self.leave(path, f"more than the {self.limits.size} bytes that the site brings of a Pod", status.size)
        else:
            self.size += status.size
            self.files.append(_File(source, path, status))


def _choose_logs(choice: _Choice, directory: PodDirectory) -> None:
    """Choose all logs, and the script's own output. Raises OSError if the Pod's directory cannot be read."""
    logs = directory.path / layout.LOG
    sources = {PurePosixPath(layout.OUTPUT): directory.output}
    seen = choice.host.status(logs)
    if seen is not None and seen.kind != "directory":
        choice.leave(PurePosixPath(layout.LOG), _LOCKED)
    for name in sorted(choice.host.names(logs)):
        if not name.startswith("."):  # the agent's own index of times
            sources[PurePosixPath(layout.LOG, name)] = logs / name
    for path, source in sources.items():
        if (status := choice.host.status(source)) is not None:
            choice.take(source, path, status)


def _choose_results(choice: _Choice, directory: PodDirectory, plan: Plan) -> set[str]:
    """Choose the files that the plan names; returns the hint's paths that matched. Walks each volume once."""
    found: set[str] = set()
    for volume in sorted({one.volume for one in plan.wanted}):
        patterns: dict[str, set[Pattern]] = {}
        for one in plan.wanted:
            if one.volume == volume:
                patterns.setdefault(one.said, set()).add(one.pattern)
        whole = {said: resultpaths.opened(ones) for said, ones in patterns.items()}
        root = directory.path / layout.VOLUMES / volume
        seen = choice.host.status(root)
        if seen is None:
            continue
        found |= {said for said, ones in whole.items() if resultpaths.is_meant(ones)}
        if seen.kind != "directory":
            choice.leave(PurePosixPath(results.RESULTS, volume), _LOCKED)
        else:
            found |= _walk(choice, root, PurePosixPath(results.RESULTS, volume), whole)
    return found


_Meant = Mapping[str, frozenset[Pattern]]


def _walk(choice: _Choice, root: PurePosixPath, into: PurePosixPath, patterns: _Meant) -> set[str]:
    """Choose the files below a directory that patterns match; returns the hint's paths that matched."""
    found: set[str] = set()
    # The patterns below a directory are worked out only in its turn, as those of thousands would take much memory.
    stack: list[tuple[PurePosixPath, _Meant]] = [(PurePosixPath(), patterns)]
    while stack:
        below, above = stack.pop()
        wanted = _left(choice, above, below.name) if below.name else above
        directories = []
        for name in _names(choice, root / below, into / below):
            left = _left(choice, wanted, name)
            status = choice.host.status(root / below / name) if left else None
            if status is None:
                continue
            meant = {said for said, rest in left.items() if resultpaths.is_meant(rest)}
            found |= meant
            if status.kind == "directory" and len(below.parts) < _DEEPEST:
                directories.append((below / name, wanted))
            elif status.kind == "directory":
                choice.leave(into / below / name, f"more than {_DEEPEST} directories below each other")
            elif meant:
                choice.take(root / below / name, into / below / name, status)
        if choice.steps > _MOST_STEPS:
            choice.leave(into / below, f"more than {_MOST_STEPS} comparisons of names with what the Job names")
            break
        stack += reversed(directories)
    return found


def _left(choice: _Choice, wanted: _Meant, name: str) -> _Meant:
    """The rest of the patterns below an entry of a directory; empty after too many comparisons."""
    left = {}
    for said, patterns in wanted.items():
        choice.steps += resultpaths.cost(patterns)
        if choice.steps > _MOST_STEPS:
            return {}
        if rest := resultpaths.after(patterns, name):
            left[said] = rest
    return left


def _names(choice: _Choice, directory: PurePosixPath, path: PurePosixPath) -> list[str]:
    """The names in a directory; empty, and noted, if it cannot be listed. Raises HostUnavailable."""
    try:
        listed = sorted(choice.host.names(directory))
    except HostUnavailable:
        raise  # the files themselves are fine: the next try brings them
    except OSError as error:
        choice.leave(path, f"cannot be listed: {error.strerror or error}")
        return []
    choice.names += len(listed)
    if choice.names > _MOST_NAMES:
        choice.leave(path, f"more than {_MOST_NAMES} files and directories to be looked at")
        return []
    return listed


# --- copying -----------------------------------------------------------------------------------------------------


class _NotBrought(Exception):
    """A file of the Pod cannot be brought; the message says why."""


def _copy(choice: _Choice, file: _File, destination: Destination) -> Brought | None:
    """Copy one file; None, with a note, if reading it fails.

    :raises OSError: the destination cannot be written, or the host is silent
    """
    choice.size -= file.status.size
    try:
        brought = _brought(choice, file, destination)
    except _NotBrought as error:
        choice.leave(file.path, str(error))
        destination.remove(file.path)
        return None
    choice.size += brought.size
    return brought


def _brought(choice: _Choice, file: _File, destination: Destination) -> Brought:
    """Copy a file until it is unchanged during the copy; the last try counts in any case."""
    before, room = file.status, choice.limits.size - choice.size
    for left in reversed(range(_TRIES)):
        size, digest = _copy_bytes(choice.host, file.source, destination, file.path, before.size)
        after = _status(choice.host, file.source, room)
        changed = after != before or size != before.size
        if not changed or not left:
            break
        before = after
    return Brought(str(file.path), size, digest, before.modified, changed=changed)


def _status(host: Host, source: PurePosixPath, room: int) -> Status:
    found = host.status(source)
    if found is None or found.kind != "file":
        raise _NotBrought("it went away while it was copied")
    if found.size > room:
        raise _NotBrought("it has grown beyond what the site brings of a Pod while it was copied")
    return found


def _copy_bytes(
    host: Host, source: PurePosixPath, destination: Destination, path: PurePosixPath, most: int
) -> tuple[int, str]:
    """Copy at most ``most`` bytes, in blocks; returns their number and SHA-256."""
    digest = hashlib.sha256()
    offset = 0
    with destination.new_file(path) as write:
        while offset < most:
            try:
                block = host.read(source, offset, min(_BLOCK, most - offset))
            except HostUnavailable:
                raise
            except OSError as error:
                raise _NotBrought(f"cannot be read: {error.strerror or error}") from error
            if not block:
                break
            write(block)
            digest.update(block)
            offset += len(block)
    return offset, digest.hexdigest()
