"""A CronJob and its runs: the Jobs that it has made, and where each went.

Pure. Users do not see the warnings for a Job that a controller creates; only the Job's annotations show the decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from router import names
from router.operating.jobs import JobPhase, facts, state
from router.operating.story import Decision, decision

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """One Job of a CronJob. ``by_hand``: made by ``kubectl create job --from``, so for the user who ran it."""

    name: str
    created: str
    state: JobPhase
    by_hand: bool
    decision: Decision


@dataclass(frozen=True, slots=True)
class CronStory:
    """A CronJob. ``last``: when it last made a Job, or empty. ``runs``: the Jobs that are kept, the last first."""

    namespace: str
    name: str
    schedule: str
    suspended: bool
    last: str
    runs: tuple[Run, ...]


def cron_story(cronjob: Json, jobs: Iterable[Json]) -> CronStory:
    """The story of a CronJob; Jobs of other CronJobs are left out."""
    metadata, spec = cronjob["metadata"], cronjob.get("spec") or {}
    runs = [_run(job) for job in jobs if _is_of(job, metadata["uid"])]
    return CronStory(
        namespace=metadata["namespace"],
        name=metadata["name"],
        schedule=str(spec.get("schedule") or ""),
        suspended=spec.get("suspend") is True,
        last=str((cronjob.get("status") or {}).get("lastScheduleTime") or ""),
        runs=tuple(sorted(runs, key=lambda run: (run.created, run.name), reverse=True)),
    )


def _is_of(job: Json, uid: str) -> bool:
    return any(one.get("controller") and one.get("uid") == uid for one in job["metadata"].get("ownerReferences") or ())


def _run(job: Json) -> Run:
    metadata = job["metadata"]
    return Run(
        name=metadata["name"],
        created=str(metadata.get("creationTimestamp") or ""),
        state=state(facts(job), ()),
        by_hand=made_by_hand(job),
        decision=decision(job),
    )


def made_by_hand(job: Json) -> bool:
    """Whether a CronJob's Job has the annotation of ``kubectl create job --from``; other programs may write it too."""
    return (job["metadata"].get("annotations") or {}).get(names.CRONJOB_INSTANTIATE) == "manual"
