"""Chooses the jobs to ask the batch system about, and finds the Pod that a report concerns.

Pure. A cycle asks for details only of jobs that changed, left the list, are new or wait; never of the whole server.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePosixPath
from typing import Final

from router.hpc import JobReport, JobState
from router.pod.layout import PODS
from router.reconcile.model import Job

UNKNOWN_AGAIN: Final = 60.0
"""Seconds before a job that the batch system did not know is asked for again; plans ask sooner if needed."""
MOST_WORDS: Final = 200
"""Most waiting jobs of one cycle that are asked about only for the batch system's present words about them."""
MOST_FIGURES: Final = 200
"""Most running jobs of one cycle that are asked about only for what they use."""
_FIGURES_AGAIN: Final = 30.0
"""Seconds before a running job is asked about again for what it uses: batch systems measure every minute or two."""
_SILENT: Final = 300.0
"""Seconds added to the time since the last question for a waiting job without any words so far."""
_WAITING: Final = frozenset({JobState.QUEUED, JobState.HELD})
_CUT: Final = "*"
_BELOW: Final = 4
"""Parts of a Pod's directory below that of its site: ``pods``, Job, index, Pod."""
_PART: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


@dataclass(frozen=True, slots=True)
class Questions:
    """The jobs to ask details of.

    :param new: ids in the list that belong to no known job
    :param changed: jobs whose state has changed
    :param gone: jobs that left the list, or never were on it
    :param words: jobs that only wait
    :param figures: jobs that only run
    """

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Every id once, the most urgent first."""
        return tuple(dict.fromkeys((*self.changed, *self.gone, *self.new, *self.words, *self.figures)))


def questions(
    listed: Mapping[str, JobState],
    jobs: Iterable[Job],
    others: Collection[str],
    asked: Mapping[str, float],
    now: float,
    told: Mapping[str, JobReport],
) -> Questions:
    """The questions of a cycle, after its list.

    A batch system may change its words about a waiting job while a list of states stays the same. So each cycle asks
    about the waiting jobs whose last question is oldest; jobs without words come sooner. If the list itself has the
    words, the cycle asks about all jobs whose words changed.

    :param listed: states of our user's living jobs by id, as the list shows them (a table may cut long ids)
    :param told: the full reports of the list
    :param jobs: the known jobs of Pods
    :param others: ids of jobs that belong to no Pod of this cluster
    :param asked: when each job was last asked about, in seconds since 1970 as ``now``
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


def with_figures(
    found: Questions, jobs: Iterable[Job], told: Mapping[str, JobReport], asked: Mapping[str, float], now: float
) -> Questions:
    """The questions of a cycle while somebody wants to know what running jobs use, if the list does not have that.

    Those asked about longest ago come first. The other parameters are as of ``questions``.
    """
    others = {*found.all, *told}
    running = [one.job_id for one in jobs if one.report is not None and one.report.state is JobState.RUNNING]
    due = sorted((asked.get(job_id, 0.0), job_id) for job_id in running if job_id not in others)
    figures = [job_id for at, job_id in due if now - at >= _FIGURES_AGAIN]
    return replace(found, figures=tuple(figures[:MOST_FIGURES]))


def _words(report: JobReport) -> tuple[str, datetime | None]:
    return report.reason, report.expected


def _lately_unknown(job: Job, now: float) -> bool:
    return job.unknown_last is not None and now - job.unknown_last < UNKNOWN_AGAIN


def _whole(listed: Mapping[str, JobState], known: Collection[str]) -> dict[str, JobState]:
    """The list with cut ids replaced by the known whole ones; unknown ids stay cut."""
    if not any(job_id.endswith(_CUT) for job_id in listed):
        return dict(listed)
    by_number = {number_of(job_id + _CUT): job_id for job_id in known}
    whole = {}
    for job_id, state in listed.items():
        found = by_number.get(number_of(job_id), "")
        whole[found if is_same(job_id, found) else job_id] = state
    return whole


def number_of(job_id: str) -> str:
    """The word to ask for a job by: its id, or the number of an id that a table has cut. A number means our server."""
    return job_id.partition(".")[0] if job_id.endswith(_CUT) else job_id


def is_same(shown: str, job_id: str) -> bool:
    """Whether ``shown``, an id that a table may have cut, is ``job_id``."""
    return job_id.startswith(shown[:-1]) if shown.endswith(_CUT) else shown == job_id


def uid_of(report: JobReport, root: str, cluster: str) -> str:
    """The uid of the Pod whose job this is; empty if the job belongs to no Pod of this cluster on this site.

    The job's directory is the better proof, as a hook may have changed its name. Other sites of the policy may be the
    same batch system, with jobs whose names are alike. A directory below another ``workDir``, which this site may have
    had, proves nothing.

    :param root: this cluster's directory on the site
    """
    if (place := place_of(report, root)) is not None:
        return place[2]
    if _is_elsewhere(PurePosixPath(report.directory), PurePosixPath(root).name):
        return ""
    name, _, uid = report.name.rpartition(".")
    return uid if name.rpartition(".")[2] == cluster else ""


def _is_elsewhere(directory: PurePosixPath, own: str) -> bool:
    """Whether this is a Pod's directory below that of another site or cluster (``router.pod.layout``)."""
    parts = directory.parts
    return len(parts) > _BELOW and parts[-_BELOW] == PODS and parts[-_BELOW - 1] != own


def place_of(report: JobReport, root: str) -> tuple[str, str, str] | None:
    """Job uid, index and Pod uid from a job's directory; None unless it is a Pod's directory below the root."""
    below = report.directory.rstrip("/").removeprefix(f"{root}/{PODS}/")
    parts = below.split("/")
    if below == report.directory or len(parts) != 3 or not all(_PART.fullmatch(part) for part in parts):
        return None
    return parts[0], parts[1], parts[2]
