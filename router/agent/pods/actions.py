"""Does the actions of a plan for one Pod, and notes the outcome in its facts.

Shell. ``quick`` actions touch files, write an Event or delete the Pod. ``slow`` ones wait for the batch system or the
API server and run in the background. A failed action raises; the caller reports it and tries again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from router import names
from router.agent.batch.commands import BatchCommands
from router.agent.batch.jobs import BatchJobs
from router.agent.batch.user_observer import UserObserver
from router.agent.files.inspecting import inspect, is_there, small
from router.agent.metrics import SUBMITTED, Metrics
from router.agent.pods.tracing import TellSpan
from router.agent.records import Record
from router.agent.submission.attempts import attempt_of
from router.agent.submission.full_queues import FullQueues
from router.agent.submission.images import ImageWait, pulled
from router.agent.submission.submitting import DirectoryExists, Prepared, Submitter
from router.errors import BatchError, BatchgateError, Full, OutputError, Refused, Unavailable
from router.host import Host
from router.hpc import JobReport
from router.hpc.remarks import Submitted
from router.kube.client import STRATEGIC, Api
from router.kube.events import Recorder, Reference
from router.pod import layout
from router.pod.life import CANCELLED, Note
from router.pod.life import Event as Told
from router.pod.status import PodStatus, as_patch
from router.pod.view import view
from router.reconcile import outcomes
from router.reconcile.model import (
    Action,
    Adopt,
    Ask,
    Attempt,
    Collect,
    Delete,
    Facts,
    Inspect,
    Look,
    Release,
    Seal,
    Signal,
    Submit,
    Take,
    Tell,
)

log: Final = logging.getLogger("batchgate.agent")

SLOW: Final = (Look, Submit, Signal, Delete, Collect)
LEARN: Final = (Inspect, Ask)
"""Actions that only read, in the cluster and on the site."""
TERM: Final = "TERM"


class Collector(Protocol):
    """Brings a Pod's results and logs to the place that the site's admin has chosen."""

    def collect(self, record: Record) -> None:
        """Bring results and logs. An Event reports files that fail. After OSError or ApiError, try again."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The objects that actions need."""

    api: Api
    host: Host
    commands: BatchCommands
    jobs: BatchJobs
    submitter: Submitter
    observer: UserObserver
    collector: Collector
    recorder: Recorder
    full: FullQueues
    metrics: Metrics
    tell_span: TellSpan | None = None
    """None without traces."""


def quick(tools: Tools, record: Record, action: Action) -> bool:
    """Do one quick action; returns whether the Pod's facts may have changed."""
    now = time.time()
    match action:
        case Inspect():
            _inspect(tools, record, now)
        case Adopt(job_id):
            barred = _barred(partial(tools.submitter.note, record.directory, job_id))
            record.change(partial(outcomes.adopted, job_id=job_id))
            _told("adopted", record, job=job_id, error=barred)
        case Seal():
            tools.host.link_claim(record.directory.path, CANCELLED)
            _sealed(tools, record, now)
        case Take(job_id):
            claim = record.directory.path / layout.CLAIM
            if barred := _barred(partial(tools.host.put, claim, f"{CANCELLED}\n".encode())):
                record.change(outcomes.untaken)
            _told("claim not taken" if barred else "claim taken", record, job=job_id, error=barred)
            _sealed(tools, record, now)
        case Ask(job_ids):
            tools.observer.ask(job_ids)
            return False
        case Tell(kind, reason, message):
            tell(tools, record, kind, reason, message)
            record.change(partial(outcomes.told, tell=action, now=now))
            return False
        case Release():
            _release(tools, record)
            return False
    return True


def slow(tools: Tools, record: Record, action: Action) -> None:
    """Do one action that waits for the batch system, the API server or a copy."""
    match action:
        case Submit(fresh):
            submit(tools, record, fresh=fresh)
        case Look():
            _look(tools, record)
        case Signal(job_id):
            _tried(partial(_ask_to_end, tools, record, job_id), "signalled", record, job_id)
            record.change(partial(outcomes.signalled, now=time.time()))
        case Delete(job_id, force):
            address = _address(record.facts, job_id)
            words = _tried(lambda: tools.commands.cancel([address], force=force), "deleted", record, address)
            if words:
                message = f"Batch job {address} could not be deleted: {words}"
                tell(tools, record, "Warning", names.REASON_FAILED_KILL, message)
            record.change(partial(outcomes.deleted, job_id=job_id, now=time.time(), agreed=not words))
        case Collect():
            tools.collector.collect(record)
            record.change(outcomes.collected)
    tools.observer.hurry()


def tell(tools: Tools, record: Record, kind: str, reason: str, message: str) -> None:
    """Write an Event about the Pod, and a line of the log; for a Pod that is gone only the line."""
    if record.facts.pod.name:
        about = Reference("Pod", record.namespace, record.name, record.uid)
        tools.recorder.tell(about, "Warning" if kind == "Warning" else "Normal", reason, message)
    _told("event", record, reason=reason, words=message)


_DOUBTS: Final = {
    names.REASON_MPI_UNKNOWN: "Container {} runs, but whether its ranks can talk to each other is not known: the first line of its log says why",
    names.REASON_NODE_HOSTNAME: "Containers see the host name of their node, as the site's container runtime cannot give them another; the variable HOSTNAME is the Pod's name",
}


_OF_KUBELETS: Final = {
    names.REASON_UNHEALTHY: "Warning",
    names.REASON_PROBE_WARNING: "Warning",
    names.REASON_KILLING: "Normal",
    names.REASON_POST_START: "Warning",
    names.REASON_PRE_STOP: "Warning",
}
"""Reasons that a script gives to what it does around a container, as a kubelet would, and their kind of Event."""


def tell_doubts(tools: Tools, record: Record, notes: Iterable[Note]) -> None:
    """Write an Event for each doubt of a script about a container, and for what its probes and hooks found."""
    for note in notes:
        if note.event is Told.RUNNING and note.reason in _DOUBTS:
            tell(tools, record, "Normal", note.reason, _DOUBTS[note.reason].format(note.container))
        elif note.event is Told.PROBED and note.reason in _OF_KUBELETS and tools.recorder.allows(record.uid):
            words = "".join([one if one.isprintable() else " " for one in note.said]).strip()
            tell(tools, record, _OF_KUBELETS[note.reason], note.reason, words or note.reason)


def annotate(tools: Tools, record: Record, annotations: Mapping[str, str]) -> None:
    """Set annotations of the Pod, by its status, as the agent may change nothing else of it.

    :raises ApiError: NotFound or Conflict if the Pod is gone or replaced
    """
    pod = record.facts.pod
    body = {"metadata": {"uid": pod.uid, "annotations": dict(annotations)}}
    answer = tools.api.patch(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status", body)
    record.wrote(view(answer), outcomes.with_pod)


def report(tools: Tools, record: Record, status: PodStatus, annotations: Mapping[str, str]) -> None:
    """Write the Pod's status, and annotations with it. Raises ApiError; NotFound or Conflict if the Pod is gone or replaced."""
    pod = record.facts.pod
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
    answer = tools.api.patch(path, as_patch(status, uid=pod.uid, images=pod.images, annotations=annotations), STRATEGIC)
    record.wrote(view(answer), partial(outcomes.wrote, now=time.time()))
    if status.terminal and not pod.status.terminal:
        _told("ended", record, phase=status.phase, reason=status.reason, words=status.message)
        if (end := _finished(status)) is not None:
            tools.metrics.report_seconds.observe(max(0.0, time.time() - end))
    elif status.phase != pod.status.phase:
        _told("phase", record, phase=status.phase)


def submit(tools: Tools, record: Record, *, fresh: bool) -> None:
    """Submit a Pod, and note the outcome in its facts."""
    pod, staged, tried = record.facts.pod, False, False
    try:
        if (held := tools.full.held(pod.queue)) is not None:
            until, words = held
            attempt = Attempt(names.REASON_QUEUE_FULL, words, not_before=until)
            record.change(partial(outcomes.held_back, attempt=attempt, staged=False))
            return
        prepared = tools.submitter.prepare(pod, fresh=fresh)
        staged = tried = True
        made = tools.submitter.submit(prepared)
    except DirectoryExists:
        record.change(outcomes.found_directory)
    except Full as error:
        attempt = Attempt(names.REASON_QUEUE_FULL, error.words, not_before=tools.full.refused(pod.queue, error.words))
        record.change(partial(outcomes.held_back, attempt=attempt, staged=True))
        tools.metrics.submissions.labels(attempt.reason).inc()
        _told("full", record, queue=pod.queue, words=error.words)
    except (BatchgateError, OSError) as error:
        _not_submitted(tools, record, error, staged=staged, tried=tried)
    else:
        _submitted(tools, record, prepared, made)


def _submitted(tools: Tools, record: Record, prepared: Prepared, made: Submitted) -> None:
    pod = record.facts.pod
    tools.full.took(pod.queue)
    image_ids = {name: used.answer.image_id for name, used in prepared.images.items() if used.answer.image_id}
    record.change(partial(outcomes.submitted, job_id=made.job_id, image_ids=image_ids))
    tools.metrics.submission_seconds.observe(max(0.0, time.time() - pod.created))
    tools.metrics.submissions.labels(SUBMITTED).inc()
    _told("submitted", record, job=made.job_id)
    for words in pulled(pod, prepared.images):
        tell(tools, record, "Normal", names.REASON_PULLED, words)
    for words in prepared.warnings:
        tell(tools, record, "Warning", names.REASON_ENV_NAMES, words)
    if made.remarks:
        words = f"When batch job {made.job_id} was submitted, the site said: {made.remarks}"
        tell(tools, record, "Normal", names.REASON_SITE_REMARK, words)


def _not_submitted(tools: Tools, record: Record, error: BatchgateError | OSError, *, staged: bool, tried: bool) -> None:
    attempt = attempt_of(error, time.time())
    tools.metrics.submissions.labels(attempt.reason).inc()
    open_end = isinstance(error, Unavailable | OutputError) or (tried and not isinstance(error, BatchError))
    if isinstance(error, Refused) or not open_end:
        record.change(partial(outcomes.held_back, attempt=attempt, staged=staged))
    else:
        record.change(partial(outcomes.unclear, attempt=attempt))
    if isinstance(error, Refused):
        tools.full.took(record.facts.pod.queue)  # the queue answers, and other Pods may fit
    if open_end:
        tools.observer.check()
    if isinstance(error, ImageWait):
        return  # ``Images`` logs it, once for all Pods
    words = "unclear" if open_end else "not submitted"
    log.warning(words, extra={"fields": {"pod": record.key, "uid": record.uid, "error": str(error)[:2000]}})


def _inspect(tools: Tools, record: Record, now: float) -> None:
    found = inspect(tools.host, record.directory)
    words: list[str] = []

    def learn(facts: Facts) -> Facts:
        facts, said = outcomes.inspected(facts, found, now)
        words.extend(said)
        return facts

    record.change(learn)
    for one in words:
        log.warning("a file is not believed", extra={"fields": {"pod": record.key, "file": one}})


def _sealed(tools: Tools, record: Record, now: float) -> None:
    there = is_there(tools.host, record.directory)
    claim = small(tools.host, record.directory, layout.CLAIM) if there else None
    record.change(partial(outcomes.sealed, claim=claim, now=now))


def _barred(write: Callable[[], None]) -> str:
    """Write a file of a Pod; returns why the Pod's own user prevents it, empty if not. Other errors are raised."""
    try:
        write()
    except (NotADirectoryError, IsADirectoryError) as error:
        return str(error)
    return ""


def _look(tools: Tools, record: Record) -> None:
    """Search for the Pod's job by its name; for a gone Pod without a known name, by its uid among all of our jobs.

    Any user may give a job that name and directory, so only jobs of the Pod's user count.
    """
    if record.name:
        ids = tools.commands.find(tools.submitter.tag(record.name, record.uid))
        found = tools.jobs.details(ids).values() if ids else ()
        reports = [one for one in found if one.owner == tools.commands.user]
    else:
        reports = tools.observer.search(record.uid)
    record.change(partial(outcomes.looked, reports=reports, now=time.time()))
    _told("looked", record, jobs=[one.job_id for one in reports])


def _ask_to_end(tools: Tools, record: Record, job_id: str) -> None:
    """Ask a job's script to end: by TERM, or by a file if the batch system's signals would kill its processes."""
    report = _report(record.facts, job_id)
    if report is not None and tools.commands.signal_ends(report):
        tools.host.put(record.directory.path / layout.END, b"end\n")
    else:
        tools.commands.signal(_address(record.facts, job_id), TERM)


def _report(facts: Facts, job_id: str) -> JobReport | None:
    return next((job.report for job in facts.jobs if job.job_id == job_id), None)


def _address(facts: Facts, job_id: str) -> str:
    """The word by which to signal or delete a job; for a moved job it names the server that has the job."""
    report = _report(facts, job_id)
    server = report.queue.partition("@")[2] if report is not None else ""
    return f"{job_id}@{server}" if server else job_id


def _release(tools: Tools, record: Record) -> None:
    pod = record.facts.pod
    tools.api.delete(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", grace=0, uid=pod.uid)
    record.change(partial(outcomes.released, now=time.time()))
    _told("released", record)


def _tried(command: Callable[[], None], what: str, record: Record, job_id: str) -> str:
    """Run a command that ends a job; returns the error's words, or an empty text.

    The attempt counts even if it fails, as the job's state shows whether it worked.
    """
    error = ""
    try:
        command()
    except BatchError as failure:
        error = failure.words.strip() or str(failure)
    except OSError as failure:
        error = str(failure)
    _told(what, record, job=job_id, error=error or None)
    return error


def _finished(status: PodStatus) -> int | None:
    """When the last container ended, if the status says so; else None."""
    return max(_ends(status), default=None)


def _ends(status: PodStatus) -> Iterable[int]:
    for one in status.containers:
        finished = getattr(one.state, "finished", None)
        if finished is not None:
            yield finished


def _told(what: str, record: Record, **fields: object) -> None:
    told = {key: value for key, value in fields.items() if value not in (None, "")}
    log.info(what, extra={"fields": {"pod": record.key, "uid": record.uid, **told}})
