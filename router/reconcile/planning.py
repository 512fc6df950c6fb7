"""Decides what to do about one Pod: ``plan(facts, terms, now) -> Plan``.

Pure and idempotent. It asks in this order: is the Pod over by its stored status; has its run ended; must it not run any
more; has it a job; and if not, may one be submitted. docs/agent.md and docs/script.md give the rules.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from router.hpc import Verdict
from router.names import CONDITION_READY, KEY_EXIT, KEY_JOB_ID, KEY_QUEUE_NOW, KEY_RESOURCES_USED, REASON_NOT_VERIFIED
from router.pod.status import PodStatus
from router.reconcile.cancelling import cancel, delete_lingering, delete_others
from router.reconcile.ending import judge
from router.reconcile.following import concluded, departed, followed, wanted_no_more
from router.reconcile.model import (
    Action,
    Adopt,
    Ask,
    Attempt,
    Collect,
    Facts,
    Inspect,
    Job,
    Look,
    Plan,
    Release,
    Submit,
    Terms,
)
from router.reconcile.queuewords import tells
from router.reconcile.status import status
from router.reconcile.telling import events
from router.reconcile.verdicts import Ending
from router.reconcile.waiting import Wait, both, due, sooner
from router.reconcile.words import only_words_differ


def plan(facts: Facts, terms: Terms, now: float) -> Plan:
    """What to do now about a Pod."""
    facts = _with_controller(facts)
    if facts.pod.status.terminal and concluded(facts.pod.status):
        return _after(facts, terms, now, ran=facts.pod.status.started is not None)
    verdict = judge(facts, terms, now)
    if isinstance(verdict, Ending):
        return _over(facts, verdict, terms, now)
    if wanted_no_more(facts):
        found = both((verdict, cancel(facts, terms, now)))
    elif followed(facts) is not None:
        found = both((verdict, _follow(facts, terms, now)))
    else:
        found = both((verdict, _begin(facts, now)))
    return _going(facts, found, terms, now)


def _with_controller(facts: Facts) -> Facts:
    """The facts about a Pod; a Pod that no Job controls fails without being run.

    One that was taken from its Job may run already: its directory tells.
    """
    if facts.pod.job_uid:
        return facts
    message = "no Job controls this Pod; on HPC only Pods of Jobs can run: create a Job instead"
    return replace(facts, staged=bool(facts.staged), attempt=Attempt(REASON_NOT_VERIFIED, message, final=True))


# --- before and during the run ------------------------------------------------------------------------------------


def _begin(facts: Facts, now: float) -> Wait:
    """The Pod has no known job: submit one, unless there may be an unnoticed one or the submission must wait."""
    if facts.submitting:
        return Wait()
    if facts.staged and facts.inspected is None:
        return Wait((Inspect(),))
    attempt = facts.attempt
    if attempt is not None and now < attempt.not_before:
        return Wait((), attempt.not_before)
    if not facts.reachable:
        return Wait()
    if facts.staged and not facts.looked:
        return Wait((Look(),))
    return Wait() if facts.older or facts.refused else Wait((Submit(fresh=not facts.staged),))


def _follow(facts: Facts, terms: Terms, now: float) -> Wait:
    """The Pod has a job that is not over: note its id, ask for its details, read the files of its script."""
    job = followed(facts)
    if job is None or facts.submitting:
        return Wait()
    actions: list[Action] = []
    if facts.noted != job.job_id and facts.staged:
        actions.append(Adopt(job.job_id))
    if facts.reachable and job.report is None and not job.unknown:
        actions.append(Ask((job.job_id,)))
    return both((Wait(tuple(actions)), _see(facts, job, terms, now), delete_others(facts, terms, now)))


def _see(facts: Facts, job: Job, terms: Terms, now: float) -> Wait:
    """Read the directory if it must hold more than is known: a claim that a note tells of, an exit file, a start."""
    if facts.inspected is None:
        return Wait() if facts.staged is False else Wait((Inspect(),))
    begun = bool(facts.life.jobs) or (job.alive and job.report is not None and job.report.started is not None)
    if not facts.life.unread and (facts.life.claimed or not begun):
        return Wait()
    again = facts.inspected + (terms.retry / 2 if facts.life.jobs else terms.retry_most / 2)
    return Wait((Inspect(),) if now >= again else (), max(again, now + terms.retry / 2))


def _going(facts: Facts, wait: Wait, terms: Terms, now: float) -> Plan:
    """The plan for a Pod whose run has not ended."""
    if departed(facts.pod):
        return Plan(wait.actions, again_at=wait.again_at)
    found = status(facts, None, terms, now, node_lost=wait.node_lost)
    annotations = _annotations(facts, over=False)
    later = _words_later(facts, found, terms, now)
    if later is not None:
        return Plan(wait.actions, annotations, again_at=sooner(wait.again_at, later))
    told = (*events(facts, found, annotations), *tells(facts, found, terms, now))
    write = found if found != facts.pod.status else None
    return Plan((*wait.actions, *told), annotations, write, wait.again_at)


def _words_later(facts: Facts, found: PodStatus, terms: Terms, now: float) -> float | None:
    """When to write a status that differs only in its words; None: now.

    A scheduler changes its comments every minute. The first words are written at once.
    """
    stored = facts.pod.status
    if facts.written_at is None or not stored.message or not only_words_differ(stored, found):
        return None
    later = facts.written_at + terms.words_interval
    return later if now < later else None


# --- the end ------------------------------------------------------------------------------------------------------


def _over(facts: Facts, ending: Ending, terms: Terms, now: float) -> Plan:
    """The run has ended: wait a while for the results, then write the terminal status with all known about the end."""
    rest = delete_others(facts, terms, now)
    if departed(facts.pod):
        found = both((rest, delete_lingering(facts, facts.ended_seen, terms, now)))
        return Plan(found.actions, again_at=found.again_at, over=not any(one.alive for one in facts.jobs))
    if facts.pod.status.terminal:  # another program has written this status
        return _after(facts, terms, now, ran=not ending.never_ran)
    results = Wait() if ending.never_ran else _results(facts, terms, now)
    if results.again_at is not None:
        found = both((results, rest))
        return Plan(found.actions, again_at=found.again_at)  # annotations are written with the status, in one request
    annotations = _annotations(facts, over=True)
    written = status(facts, ending, terms, now)
    actions = (*rest.actions, *events(facts, written, annotations))
    return Plan(actions, annotations, written, rest.again_at)


def _results(facts: Facts, terms: Terms, now: float) -> Wait:
    """Collect and wait for the results; nothing to do once they are collected, or were waited for long enough."""
    if facts.collected:
        return Wait()
    if facts.collecting_since is None:
        return Wait((Collect(),), now + terms.collect_patience)
    until = facts.collecting_since + terms.collect_patience
    return Wait((), until) if now < until else Wait()


def _after(facts: Facts, terms: Terms, now: float, *, ran: bool) -> Plan:
    """The terminal status is written, and nothing runs: clean up, and remove the Pod if the user deleted it."""
    results = _results(facts, terms, now) if ran else Wait()
    rest = delete_others(facts, terms, now)
    release = _release(facts, terms, now) if results.again_at is None else Wait()
    found = both((results, rest, release, delete_lingering(facts, _ended_at(facts), terms, now)))
    return Plan(found.actions, _annotations(facts, over=True), again_at=found.again_at, over=True)


def _ended_at(facts: Facts) -> float | None:
    """When the end of the run became known. An agent that was started later reads this time from the Pod."""
    if facts.ended_seen is not None:
        return facts.ended_seen
    ready = facts.pod.status.condition(CONDITION_READY)
    return ready.since if ready is not None and concluded(facts.pod.status) else None


def _release(facts: Facts, terms: Terms, now: float) -> Wait:
    """Ask the API server to remove a deleted Pod.

    The API server does this in two steps (``BeforeDelete`` of apiserver/pkg/registry/rest): it sets the grace period to
    0 and then removes the object, unless a finalizer holds it. If it is interrupted between the two, the object stays
    until a client asks once more. For a Pod on a Node this is the kubelet, and here the agent.
    """
    pod = facts.pod
    if pod.deleted_at is None or departed(pod):
        return Wait()
    if pod.grace == 0 and pod.finalizers:
        return Wait()  # the API server removes the Pod with its last finalizer
    first = 0 if pod.grace else pod.deleted_at + terms.retry  # another client's deletion may be under way
    again = max(first, due(facts.releases, facts.released_at, terms))
    return Wait((Release(),), now + terms.retry) if now >= again else Wait((), again)


def _annotations(facts: Facts, *, over: bool) -> Mapping[str, str]:
    """The agent's annotations that the Pod lacks or has with another value.

    :param over: whether the run has ended; the record of the end is written with the terminal status, in one request
    """
    job = followed(facts)
    if job is None:
        return {}
    wanted = {KEY_JOB_ID: (job.job_id, facts.pod.job_id)}
    report = job.report
    if report is not None:
        moved = report.queue if report.queue != facts.pod.queue or facts.pod.queue_now else ""
        wanted[KEY_QUEUE_NOW] = (moved, facts.pod.queue_now)
    if over and report is not None and report.verdict is not None:
        status = "none" if report.exit_status is None else str(report.exit_status)
        how = status if report.verdict is Verdict.ENDED else f"{status} ({report.verdict})"
        wanted[KEY_EXIT] = (how, facts.pod.exit)
        used = json.dumps(dict(report.used), sort_keys=True) if report.used else ""
        wanted[KEY_RESOURCES_USED] = (used, facts.pod.used)
    return {key: want for key, (want, have) in wanted.items() if want and want != have}
