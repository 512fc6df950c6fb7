"""Bringing single Pods on, step by step: plan, act, plan again, until nothing is left to do now; one bad Pod never stops another.

Shell: a few threads that plan and do what is quick, and more that wait for the batch system or copy results. There are
only as many as were needed so far: a site has hundreds of users with a Pod or none. At most one thread plans for a Pod
at a time, and at most one action of a kind is under way for it. The one place of the agent where every exception is
caught: it is logged with the Pod, which comes again later.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from router import names
from router.agent.batch.reachability import Reachability
from router.agent.pods import actions
from router.agent.pods.actions import Tools
from router.agent.pods.fencing import Fence
from router.agent.pods.workqueue import Workqueue
from router.agent.records import Record, Records
from router.background.backoff import BackOff
from router.errors import ApiError, ApiUnavailable, Conflict, NotFound
from router.host import HostUnavailable
from router.pod.view import PodView, view
from router.reconcile import outcomes
from router.reconcile.model import Action, Attempt, Collect, Plan, Submit, Terms
from router.reconcile.planning import plan

log: Final = logging.getLogger("batchgate.agent")

PLANNERS: Final = 4
ENDERS: Final = 3
COLLECTORS: Final = 2
_COLLECT: Final = "collect"
_ROUNDS: Final = 20
"""Plans of one turn. More would be a plan that never comes to rest, which must not take all of a core."""
_BACK_OFF: Final = BackOff(first=1.0, longest=60.0)
_TOLD_AGAIN: Final = 5
"""A step that fails again and again is logged in full so often, then once for every doubling."""


@dataclass(frozen=True, slots=True)
class Deciding:
    """What planning needs beside the Pod's facts.

    :param terms: what holds for a Pod
    :param leads: whether this agent leads: asked before each action
    :param finished: called when nothing is left of a Pod on the site that could still change; OSError
    :param refusal: why no Job of an MPI profile (empty: without one) may be submitted to the site now; empty where it may
    """

    terms: Callable[[PodView], Terms]
    reach: Reachability
    fence: Fence
    leads: Callable[[], bool]
    finished: Callable[[Record], None]
    refusal: Callable[[str], str]


class Reconciler:
    """Takes Pods from the queue and brings them on; ``start`` it, ``stop`` it in the end.

    :param submitters: submissions that are made at once
    """

    def __init__(
        self, queue: Workqueue, records: Records, tools: Tools, deciding: Deciding, *, submitters: int
    ) -> None:
        self._queue = queue
        self._records = records
        self._tools = tools
        self._deciding = deciding
        self._metrics = tools.metrics
        self._joining = threading.Lock()
        self._threads: list[threading.Thread] = []
        queue.drained = self._join
        self._submitting = ThreadPoolExecutor(submitters, "submit")
        self._ending = ThreadPoolExecutor(ENDERS, "end")
        self._collecting = ThreadPoolExecutor(COLLECTORS, "collect")

    @property
    def alive(self) -> bool:
        """Whether all of its threads run."""
        return all(thread.is_alive() for thread in self._threads)

    def start(self) -> None:
        """Begin."""
        self._join()

    def _join(self) -> None:
        """One more thread that plans, so that one waits while others are held up; not too many."""
        with self._joining:
            if len(self._threads) < PLANNERS:
                thread = threading.Thread(target=self._work, name=f"planner-{len(self._threads)}", daemon=True)
                thread.start()
                self._threads.append(thread)

    def stop(self, seconds: float) -> bool:
        """Begin nothing more and finish what is in hand, within so many seconds; whether it was finished."""
        until = time.monotonic() + seconds
        self._queue.close()
        pools = (self._submitting, self._ending, self._collecting)
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)
        finished = self._queue.idle(seconds)
        while any(record.busy for record in self._records.all()) and time.monotonic() < until:
            time.sleep(0.05)
        return finished and time.monotonic() < until

    def finish(self) -> None:
        """Finish what is in hand, however long that takes, and end: nothing is to be left for later."""
        self._queue.close()
        with self._joining:
            threads = list(self._threads)
        for thread in threads:
            thread.join()
        for pool in (self._submitting, self._ending, self._collecting):
            pool.shutdown()

    def _work(self) -> None:
        while (uid := self._queue.take()) is not None:
            record = self._records.get(uid)
            if record is not None:
                self._guarded(record, "plan", partial(self._advance, record))
            self._queue.done(uid)

    def _guarded(self, record: Record, what: str, function: Callable[[], None]) -> bool:
        """Do something for one Pod, whatever comes of it; whether it came out well."""
        try:
            try:
                function()
            except (NotFound, Conflict) as error:
                self._read_again(record, error)
        except Exception as error:  # noqa: BLE001 - one bad Pod never stops the others
            self._failed(record, what, error)
            return False
        self._metrics.steps.labels(what, "ok").inc()
        record.failures = 0
        return True

    def _failed(self, record: Record, what: str, error: Exception) -> None:
        record.failures += 1
        self._metrics.steps.labels(what, "failed").inc()
        pause = _BACK_OFF.after(record.failures)
        if isinstance(error, ApiError) and error.retry_after:
            pause = max(pause, error.retry_after)
        self._queue.at(record.uid, time.monotonic() + pause)
        count = record.failures
        if count > _TOLD_AGAIN and count & (count - 1):
            return
        fields = {
            "pod": record.key,
            "uid": record.uid,
            "step": what,
            "error": f"{type(error).__name__}: {error}"[:2000],
        }
        if reason := told_as(error, what):
            actions.tell(self._tools, record, "Warning", reason, str(error))
        ordinary = isinstance(error, ApiError | OSError)
        level = logging.WARNING if isinstance(error, ApiUnavailable) else logging.ERROR
        log.log(level, "step failed", extra={"fields": fields}, exc_info=None if ordinary else error)

    def _read_again(self, record: Record, error: ApiError) -> None:
        """The Pod is gone, or another has its name: the watch will say so, but perhaps not soon.

        Raises the error again where that is not so.
        """
        found = self._tools.api.find(f"/api/v1/namespaces/{record.namespace}/pods/{record.name}")
        if found is not None and found["metadata"]["uid"] == record.uid:
            record.wrote(view(found), outcomes.with_pod)
            raise error
        record.missing = record.missing or time.time()

    def _advance(self, record: Record) -> None:
        """Plan and act until nothing is left that can be done now."""
        for _ in range(_ROUNDS):
            if record.missing is not None and record.facts.pod.name:
                return
            if not self._deciding.leads():
                self._later(record)
                return
            found = self._plan(record)
            if record.missing is not None:
                if not self._learn(record, found):
                    return
            elif not self._perform(record, found):
                self._rest(record, found)
                return
        log.warning("a plan that does not come to rest", extra={"fields": {"pod": record.key, "uid": record.uid}})
        self._later(record)

    def _learn(self, record: Record, found: Plan) -> bool:
        """Learn more of what is left of a Pod that nobody knows, without touching it; whether to plan again at once.

        Whether the Pod is there all the same is not sure yet. That its run is over is, once its batch job's record or its
        script's last word says so, and then nobody needs to wait for it.
        """
        if found.over:
            self._end_wait(record)
            self._records.drop(record)
            return False
        looks = (action for action in found.actions if isinstance(action, actions.LEARN))
        news = [actions.quick(self._tools, record, action) for action in looks]
        return any(news)

    def _later(self, record: Record) -> None:
        """Come again soon: a lead that was lost for a moment only may be ours once more before anybody noticed."""
        self._queue.at(record.uid, time.monotonic() + _BACK_OFF.first)

    def _plan(self, record: Record) -> Plan:
        fence = self._deciding.fence
        if not record.fenced and not record.facts.jobs and record.facts.pod.name:
            for uid in fence.look(record):
                self._queue.wake(uid)
            record.fenced = True
        surroundings = partial(
            outcomes.surroundings,
            reachable=self._deciding.reach.ok,
            refused=self._deciding.refusal(record.facts.pod.profile),
            older=fence.older(record),
            disruptions=fence.disruptions(record),
        )
        facts = record.change(surroundings)
        return plan(facts, self._deciding.terms(facts.pod), time.time())

    def _perform(self, record: Record, found: Plan) -> bool:
        """Do what a plan says, in its order, as long as this agent leads; whether it is worth planning again at once."""
        news = False
        for action in found.actions:
            if not self._deciding.leads():
                return True
            if isinstance(action, actions.SLOW):
                self._begin(record, action)
            else:
                news |= actions.quick(self._tools, record, action)
        if found.annotations and self._deciding.leads():
            actions.annotate(self._tools, record, dict(found.annotations))
        if found.status is not None and self._deciding.leads():
            actions.report(self._tools, record, found.status)
        return news or bool(found.annotations) or found.status is not None

    def _rest(self, record: Record, found: Plan) -> None:
        """Nothing is left to do now: when to look again, and whether ever."""
        if found.over and not record.over:
            self._end_wait(record)
            self._deciding.finished(record)
        record.over = found.over
        if found.again_at is not None:
            pause = max(0.0, found.again_at - time.time())
            self._queue.at(record.uid, time.monotonic() + pause)
        if record.owed and not record.busy:
            self._begin(record, Collect())
        if found.over and not record.facts.pod.name and not record.busy and not record.owed:
            self._records.drop(record)
            self._queue.forget(record.uid)

    def _end_wait(self, record: Record) -> None:
        """Nothing of a Pod can run any more: whoever waits for that at the fence goes on."""
        record.over = True
        for one in self._records.siblings(record):
            if one.facts.older:
                self._queue.wake(one.uid)

    def _begin(self, record: Record, action: Action) -> None:
        """Start a slow action, unless one of its kind is under way for this Pod."""
        kind = type(action).__name__.lower()
        if kind in record.busy:
            return
        record.busy.add(kind)
        if isinstance(action, Submit):
            record.change(outcomes.submitting)
        elif isinstance(action, Collect):
            record.change(partial(outcomes.collecting, now=time.time()))
        pools = {"submit": self._submitting, _COLLECT: self._collecting}
        try:
            pools.get(kind, self._ending).submit(self._run, record, kind, action)
        except RuntimeError:  # the agent is ending
            record.busy.discard(kind)

    def _run(self, record: Record, kind: str, action: Action) -> None:
        leads = self._deciding.leads()
        profile = record.facts.pod.profile
        # It may have come since this was planned, as thousands may be in line.
        if isinstance(action, Submit) and self._deciding.refusal(profile):
            record.change(outcomes.not_begun)
            well = True
        else:
            well = leads and self._guarded(record, kind, partial(actions.slow, self._tools, record, action))
        if isinstance(action, Collect):
            record.owed = not well
        if record.facts.submitting and isinstance(action, Submit):  # nobody knows how far it came
            attempt = Attempt(names.REASON_QUEUED, "", not_before=time.time() + _BACK_OFF.first)
            record.change(partial(outcomes.unclear, attempt=attempt))
        record.busy.discard(kind)
        if well:
            self._queue.wake(record.uid)
        elif not leads:
            self._later(record)


def told_as(error: Exception, what: str) -> str:
    """The reason under which a failure is told on the Pod itself; empty where something else tells of it."""
    if isinstance(error, HostUnavailable):
        # The Node tells of a host that nobody reaches. One user's way that somebody has to mend is read of nowhere else.
        return names.REASON_HPC_UNAVAILABLE if error.lasting else ""
    # Collecting tells itself of what it cannot bring.
    return names.REASON_SITE_STORAGE if isinstance(error, OSError) and what != _COLLECT else ""
