"""Reconciles single Pods: plan, act, plan again, until nothing is left to do now. One bad Pod never stops another.

Shell: a few threads plan and do quick actions; others wait for the batch system or copy results. Threads are started
only when needed, as a site has hundreds of users with one Pod or none. At most one thread plans for a Pod at a time,
and at most one action of a kind is under way for it. Only this module catches every exception: it logs the exception
with the Pod, and tries the Pod again later.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from router import names
from router.agent.batch.reachability import Reachability
from router.agent.pods import actions, tracing
from router.agent.pods.actions import Tools
from router.agent.pods.fencing import Fence
from router.agent.pods.workqueue import Workqueue
from router.agent.records import Record, Records
from router.background.backoff import BackOff
from router.errors import ApiError, ApiUnavailable, Conflict, NotFound
from router.host import HostUnavailable
from router.pod.view import PodView, view
from router.reconcile import outcomes
from router.reconcile.following import queue_of
from router.reconcile.model import Action, Attempt, Collect, Line, Plan, Submit, Terms
from router.reconcile.planning import plan

log: Final = logging.getLogger("batchgate.agent")

PLANNERS: Final = 4
ENDERS: Final = 3
COLLECTORS: Final = 2
_SUBMIT: Final = "submit"
_COLLECT: Final = "collect"
_END: Final = "end"
"""Pools of threads: for actions of these kinds, and for all others."""
_ROUNDS: Final = 20
"""Most plans of one turn: a plan that never comes to rest must leave the processor to others."""
_BACK_OFF: Final = BackOff(first=1.0, longest=60.0)
_TOLD_AGAIN: Final = 5
"""How many failures of a step in a row are all logged; after them, one at every power of two."""


@dataclass(frozen=True, slots=True)
class Deciding:
    """The inputs of planning beside the Pod's facts.

    :param terms: the terms of a Pod
    :param leads: whether this agent leads; asked before each action
    :param finished: called when a Pod's state on the site is final; may raise OSError
    :param refusal: why Jobs of an MPI profile (empty: Jobs without one) may not be submitted to the site now; empty if
        they may
    :param line: who waits in a queue; None without a recent answer
    """

    terms: Callable[[PodView], Terms]
    reach: Reachability
    fence: Fence
    leads: Callable[[], bool]
    finished: Callable[[Record], None]
    refusal: Callable[[str], str]
    line: Callable[[str], Line | None]


class Reconciler:
    """Takes Pods from the queue and reconciles them; ``start`` it, ``stop`` it in the end.

    :param submitters: most submissions at the same time
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
        self._stopped = False
        self._sizes = {_SUBMIT: submitters, _COLLECT: COLLECTORS, _END: ENDERS}
        self._pools = {name: ThreadPoolExecutor(size, name) for name, size in self._sizes.items()}

    @property
    def alive(self) -> bool:
        """Whether all planning threads run."""
        return all(thread.is_alive() for thread in self._threads)

    def start(self) -> None:
        """Start the first planning thread."""
        self._join()

    def _join(self) -> None:
        """Start one more planning thread, up to ``PLANNERS``, so that one is free while others are held up.

        At the machine's limit of threads those that are there go on alone. Raises RuntimeError if there is none.
        """
        with self._joining:
            if len(self._threads) < PLANNERS:
                thread = threading.Thread(target=self._work, name=f"planner-{len(self._threads)}", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    if not self._threads:
                        raise
                    return
                self._threads.append(thread)

    def stop(self) -> None:
        """Begin nothing new, without waiting for the work under way."""
        self._stopped = True
        self._queue.close()
        with self._joining:
            pools = list(self._pools.values())
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)

    def await_end(self, until: float) -> bool:
        """Wait, after ``stop``, for the work under way; returns whether it is finished.

        :param until: monotonic time at which the wait ends, whatever is left
        """
        finished = self._queue.idle(max(0.0, until - time.monotonic()))
        while (busy := any(record.busy for record in self._records.all())) and time.monotonic() < until:
            time.sleep(0.05)
        return finished and not busy

    def finish(self) -> None:
        """Finish the work under way, however long it takes, and end."""
        self._queue.close()
        with self._joining:
            threads = list(self._threads)
        for thread in threads:
            thread.join()
        for pool in self._pools.values():
            pool.shutdown()

    def _work(self) -> None:
        while (uid := self._queue.take()) is not None:
            record = self._records.get(uid)
            if record is not None:
                self._guarded(record, "plan", partial(self._advance, record))
            self._queue.done(uid)

    def _guarded(self, record: Record, what: str, function: Callable[[], None]) -> bool:
        """Run a step for one Pod and handle its exceptions; returns whether it succeeded."""
        try:
            try:
                function()
            except (NotFound, Conflict) as error:
                self._read_again(record, error)
        except Exception as error:  # noqa: BLE001 - one bad Pod never stops the others
            self._failed(record, what, error)
            return False
        self._metrics.steps.labels(what, "ok").inc()
        record.failures.pop(what, None)
        return True

    def _failed(self, record: Record, what: str, error: Exception) -> None:
        # Of this step: a plan between two tries of another step succeeds, and must not make their pauses short again.
        count = record.failures[what] = record.failures.get(what, 0) + 1
        self._metrics.steps.labels(what, "failed").inc()
        pause = _BACK_OFF.after(count)
        if isinstance(error, ApiError) and error.retry_after:
            pause = max(pause, error.retry_after)
        self._queue.at(record.uid, time.monotonic() + pause)
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
        """Read a Pod again after NotFound or Conflict, and mark it missing if it is gone or replaced.

        The watch will show this too, but perhaps later. Raises the error again if the Pod is still there.
        """
        found = self._tools.api.find(f"/api/v1/namespaces/{record.namespace}/pods/{record.name}")
        if found is not None and found["metadata"]["uid"] == record.uid:
            record.wrote(view(found), outcomes.with_pod)
            raise error
        record.missing = record.missing or time.time()

    def _advance(self, record: Record) -> None:
        """Plan and act until nothing more can be done now."""
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
        """Read more about a missing Pod without changing anything; returns whether to plan again at once.

        The Pod may still exist. But its run is surely over once its batch job's record or its script's last note says
        so. Then the Pods that wait for it at the fence go on.
        """
        if found.over:
            self._end_wait(record)
            self._records.drop(record)
            return False
        looks = (action for action in found.actions if isinstance(action, actions.LEARN))
        news = [actions.quick(self._tools, record, action) for action in looks]
        return any(news)

    def _later(self, record: Record) -> None:
        """Try again soon: after a short loss this agent may lead again before any other part has noticed."""
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
            line=self._deciding.line(queue_of(record.facts)),
        )
        facts = record.change(surroundings)
        return plan(facts, self._deciding.terms(facts.pod), time.time())

    def _perform(self, record: Record, found: Plan) -> bool:
        """Do the plan's steps in order while this agent leads; returns whether to plan again at once."""
        news = False
        for action in found.actions:
            if not self._deciding.leads():
                return True
            if isinstance(action, actions.SLOW):
                self._begin(record, action)
            else:
                news |= actions.quick(self._tools, record, action)
        if found.status is not None and self._deciding.leads():
            actions.report(self._tools, record, found.status, found.annotations)
        elif found.annotations and self._deciding.leads():
            actions.annotate(self._tools, record, found.annotations)
        siblings = partial(self._records.siblings, record)
        tracing.tell(self._tools.tell_span, record, siblings, over=found.over)
        return news or bool(found.annotations) or found.status is not None

    def _rest(self, record: Record, found: Plan) -> None:
        """Handle a Pod with nothing to do now: note when to look again, and finish it if it is over."""
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
        """Note that nothing of a Pod can run any more, and wake the Pods that wait for it at the fence."""
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
        self._hand_over(record, kind, action)

    def _hand_over(self, record: Record, kind: str, action: Action) -> None:
        """Have a thread run an action. Where none can be started, it is taken back, and begun again later."""
        name = kind if kind in self._pools else _END
        pool, taken = self._pools[name], threading.Lock()

        def run() -> None:
            if taken.acquire(blocking=False):
                self._run(record, kind, action)

        def over(future: Future[None]) -> None:
            if future.cancelled():
                self._take_back(record, kind, action)

        try:
            pool.submit(run).add_done_callback(over)
        except RuntimeError as error:  # The agent is ending; or no thread can be started, and the pool keeps it.
            if taken.acquire(blocking=False):
                self._take_back(record, kind, action)
                self._replace(name, pool)
                if not self._stopped:
                    self._failed(record, kind, error)

    def _take_back(self, record: Record, kind: str, action: Action) -> None:
        """Forget that an action was begun, as no thread has taken it."""
        if isinstance(action, Submit):
            record.change(outcomes.not_begun)
        elif isinstance(action, Collect):
            record.owed = True
        record.busy.discard(kind)

    def _replace(self, name: str, pool: ThreadPoolExecutor) -> None:
        """Use a new pool in place of one that could start no thread.

        In Python 3.11 such a pool counts a thread as idle that it has not, for good. Its own threads finish what they have.
        """
        with self._joining:
            if self._pools[name] is pool and not self._stopped:
                self._pools[name] = ThreadPoolExecutor(self._sizes[name], name)
                pool.shutdown(wait=False)

    def _run(self, record: Record, kind: str, action: Action) -> None:
        leads = self._deciding.leads()
        profile = record.facts.pod.profile
        # Asked again, as the action may have waited behind thousands since it was planned.
        if isinstance(action, Submit) and self._deciding.refusal(profile):
            record.change(outcomes.not_begun)
            well = True
        else:
            well = leads and self._guarded(record, kind, partial(actions.slow, self._tools, record, action))
        if isinstance(action, Collect):
            record.owed = not well
        if record.facts.submitting and isinstance(action, Submit):  # how far the submission came is unknown
            attempt = Attempt(names.REASON_QUEUED, "", not_before=time.time() + _BACK_OFF.first)
            record.change(partial(outcomes.unclear, attempt=attempt))
        record.busy.discard(kind)
        if well:
            self._queue.wake(record.uid)
        elif not leads:
            self._later(record)


def told_as(error: Exception, what: str) -> str:
    """The reason of the Pod's Event about a failure; empty if the failure is reported elsewhere."""
    if isinstance(error, HostUnavailable):
        # The Node reports a host that is down. Only the Pod can report a broken connection of a single user.
        return names.REASON_HPC_UNAVAILABLE if error.lasting else ""
    # The collector itself reports files that it cannot bring.
    return names.REASON_SITE_STORAGE if isinstance(error, OSError) and what != _COLLECT else ""
