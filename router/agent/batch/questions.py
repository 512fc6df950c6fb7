"""Which jobs the batch system is asked about, and whom a report concerns.

Pure. Details are asked only of jobs that changed, left the list or are new; never of the whole server.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from router.hpc import JobReport, JobState
from router.pod.layout import PODS
from router.reconcile.model import Job

UNKNOWN_AGAIN: Final = 60.0
"""Seconds before a job that the batch system did not know is asked for again; plans ask sooner where they need it."""
MOST_WORDS: Final = 200
"""Waiting jobs of one cycle that are asked for nothing but the batch system's present words about them."""
_SILENT: Final = 300.0
"""Seconds for which a job without any words so far counts as unasked beyond the true ones."""
_WAITING: Final = frozenset({JobState.QUEUED, JobState.HELD})
_CUT: Final = "*"
_PART: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


@dataclass(frozen=True, slots=True)
class Questions:
    """What to ask for details of.

    ``new`` are ids of the list that nobody knew, ``changed`` those whose state is another now, ``gone`` those that left
    the list (or never were on it), ``words`` those that only wait.
    """

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Every id once, the most urgent first."""
        return tuple(dict.fromkeys((*self.changed, *self.gone, *self.new, *self.words)))


def questions(
    listed: Mapping[str, JobState],
    jobs: Iterable[Job],
    others: Collection[str],
    asked: Mapping[str, float],
    now: float,
    told: Mapping[str, JobReport],
) -> Questions:
    """What a cycle asks after the list.

    A batch system changes its words about a job that waits without any sign in a list of states. So of these some are
    asked about in each cycle: those that were not asked about for longest, and sooner where it has said nothing so far.
    Where the list itself has the words, all whose words are others now.

    :param listed: states of our user's living jobs by id, as the list shows them (a table may cut long ids)
    :param told: reports of the jobs of which the list has told all
    :param jobs: those that Pods are known to have
    :param others: ids that were found to be no jobs of this cluster's Pods
    :param asked: when a job was last asked about, in seconds since 1970 as ``now``
    """
    followed = {job.job_id: job for job in jobs if not job.finished}
    shown = _whole(listed, followed)
    changed, gone, waiting, news = [], [], [], []
    for job_id, job in followed.items():
        state = shown.get(job_id)
        if state is None:
            if not _lately_unknown(job, now):
                gone.append(job_id)
        elif job.report is None or job.unknown or job.report.state is not state:
            changed.append(job_id)
        elif state in _WAITING and job_id not in told:
            waiting.append((asked.get(job_id, 0.0) - (0 if job.report.reason else _SILENT), job_id))
        elif state in _WAITING and _words(told[job_id]) != _words(job.report):
            news.append((asked.get(job_id, 0.0), job_id))
    words = (*(one[-1] for one in sorted(waiting)[:MOST_WORDS]), *(one[-1] for one in sorted(news)))
    new = [number_of(job_id) for job_id in shown if job_id not in followed and job_id not in others]
    return Questions(tuple(new), tuple(changed), tuple(gone), words)


def _words(report: JobReport) -> tuple[str, datetime | None]:
    return report.reason, report.expected


def _lately_unknown(job: Job, now: float) -> bool:
    return job.unknown_last is not None and now - job.unknown_last < UNKNOWN_AGAIN


def _whole(listed: Mapping[str, JobState], known: Collection[str]) -> dict[str, JobState]:
    """The list with ids whole where they are known; others stay cut."""
    if not any(job_id.endswith(_CUT) for job_id in listed):
        return dict(listed)
    by_number = {number_of(job_id + _CUT): job_id for job_id in known}
    whole = {}
    for job_id, state in listed.items():
        found = by_number.get(number_of(job_id), "")
        whole[found if is_same(job_id, found) else job_id] = state
    return whole


def number_of(job_id: str) -> str:
    """What a job can be asked for by: its id, or of an id that a table has cut the number, which means our server's."""
    return job_id.partition(".")[0] if job_id.endswith(_CUT) else job_id


def is_same(shown: str, job_id: str) -> bool:
    """Whether an id that a table may have cut is this one."""
    return job_id.startswith(shown[:-1]) if shown.endswith(_CUT) else shown == job_id


def uid_of(report: JobReport, root: str, cluster: str) -> str:
    """The uid of the Pod whose job this is; empty where it is none of this cluster's.

    The directory that the job was given is the better proof, as a hook may have changed its name.

    :param root: this cluster's directory on the site
    """
    if (place := place_of(report, root)) is not None:
        return place[2]
    name, _, uid = report.name.rpartition(".")
    return uid if name.rpartition(".")[2] == cluster else ""


def place_of(report: JobReport, root: str) -> tuple[str, str, str] | None:
    """Job uid, index and Pod uid from the directory that a job was given; None where it is no Pod's below the root."""
    below = report.directory.rstrip("/").removeprefix(f"{root}/{PODS}/")
    parts = below.split("/")
    if below == report.directory or len(parts) != 3 or not all(_PART.fullmatch(part) for part in parts):
        return None
    return parts[0], parts[1], parts[2]
