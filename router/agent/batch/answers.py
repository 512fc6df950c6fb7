"""Reads answers about several jobs, and chooses the word (id or number) by which each job is asked for.

Pure. Some ids come from files that users can write. A server that only a user's file names is never asked: the job is
then asked for by its number, which means the batch system's own server.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from router.hpc import JobReport


@dataclass(frozen=True, slots=True)
class JobAnswers:
    """The result of a question. The batch system lacks the jobs in ``unknown``, and could not tell about ``silent``."""

    reports: Mapping[str, JobReport] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()

    def __or__(self, other: JobAnswers) -> JobAnswers:
        return JobAnswers({**self.reports, **other.reports}, self.unknown | other.unknown, self.silent | other.silent)

    def rest(self, job_ids: Iterable[str]) -> list[str]:
        """The jobs that are missing in this result."""
        return [one for one in job_ids if one not in self.reports and one not in self.unknown | self.silent]


def server_of(job_id: str) -> str:
    """The server in an id; empty for ids without a server, and for a number alone."""
    return job_id.partition(".")[2]


def word_for(job_id: str, servers: Collection[str]) -> str:
    """The word by which to ask for a job: its id if its server is known, else its number.

    :param servers: the servers that the batch system's own answers have named
    """
    number, _, server = job_id.partition(".")
    return job_id if server in servers else number


def unknown_of(words: Mapping[str, str], reports: Mapping[str, JobReport], named: Collection[str]) -> frozenset[str]:
    """The jobs that an answer reports as unknown. Jobs that the answer leaves out do not count.

    A server may name itself by its whole name although its ids have the short one. If a job was asked for by its
    number, a report of another server's job with that number also shows that the job is absent here.

    :param words: the word by which each job was asked for
    :param named: the ids that the answer calls unknown
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
    """``told``, completed with the answer of the server to which these jobs were moved.

    That server is believed only about these jobs, and only if it names the same owner. Its name is added to the name of
    the queue.

    :param there: the other server's answer; None if it is silent
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
    """Two halves, or the whole if there is at most one id."""
    middle = len(job_ids) // 2
    return [job_ids[:middle], job_ids[middle:]] if middle else [job_ids]
