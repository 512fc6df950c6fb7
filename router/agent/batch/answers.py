"""What a question about several jobs has told, and by which words jobs are asked for.

Pure. Ids come from files, too, that users can write. A server that only such an id names is never asked: a job is then
asked for by its number, which means the batch system's own server.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from router.hpc import JobReport


@dataclass(frozen=True, slots=True)
class JobAnswers:
    """``unknown`` are jobs that are not there; of ``silent`` the batch system could not be asked now."""

    reports: Mapping[str, JobReport] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()

    def __or__(self, other: JobAnswers) -> JobAnswers:
        return JobAnswers({**self.reports, **other.reports}, self.unknown | other.unknown, self.silent | other.silent)

    def rest(self, job_ids: Iterable[str]) -> list[str]:
        """Those of which nothing was told."""
        return [one for one in job_ids if one not in self.reports and one not in self.unknown | self.silent]


def server_of(job_id: str) -> str:
    """The server in an id; empty where ids have none, and of the number of one."""
    return job_id.partition(".")[2]


def word_for(job_id: str, servers: Collection[str]) -> str:
    """What a job is asked for by.

    :param servers: those that the batch system's own answers have named
    """
    number, _, server = job_id.partition(".")
    return job_id if server in servers else number


def unknown_of(words: Mapping[str, str], reports: Mapping[str, JobReport], named: Collection[str]) -> frozenset[str]:
    """The jobs that an answer says not to be there. What it does not mention at all is not among them.

    A server may name itself by its whole name where its ids have the short one. Of a job that was asked for by its number
    also another server's job of that number tells that there is no such job here.

    :param words: what each job was asked for by
    :param named: the ids that the answer says to be unknown
    """
    whole = {_short(one) for one in named}
    numbers = {one.partition(".")[0] for one in (*named, *reports)}
    return frozenset(
        job_id
        for job_id, word in words.items()
        if job_id not in reports and server_of(job_id)
        if _short(job_id) in whole or (word != job_id and word in numbers)
    )


def _short(job_id: str) -> tuple[str, str]:
    number, _, server = job_id.partition(".")
    return number, server.partition(".")[0].lower()


def followed(told: JobAnswers, server: str, job_ids: Iterable[str], there: JobAnswers | None) -> JobAnswers:
    """The same with what another server, to which these jobs were moved, has told of them; None: it cannot be asked.

    It is believed for these jobs alone, and as those of the same owner. Its name goes with that of the queue there.
    """
    reports, unknown, silent = dict(told.reports), set(told.unknown), set(told.silent)
    for job_id in job_ids:
        here = reports.pop(job_id)
        one = there.reports.get(job_id) if there is not None else None
        if one is not None and one.owner == here.owner:
            queue = one.queue if "@" in one.queue else f"{one.queue}@{server}"
            reports[job_id] = replace(one, queue=queue)
        elif there is not None and job_id in there.unknown:
            unknown.add(job_id)
        else:
            silent.add(job_id)
    return JobAnswers(reports, frozenset(unknown), frozenset(silent))


def halves(job_ids: Sequence[str]) -> list[Sequence[str]]:
    """Two parts, or the one where it cannot be parted."""
    middle = len(job_ids) // 2
    return [job_ids[:middle], job_ids[middle:]] if middle else [job_ids]
