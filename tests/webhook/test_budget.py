"""Reviews that take too long: what they are told, and what the others notice of them."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest
from werkzeug.test import Client

from router.gate import review as admission
from router.gate.judging import judge
from router.policy.decision import Requester
from router.webhook.app import create_app
from router.webhook.budget import Budget, Crowded, OverBudget, Step, place_of
from router.webhook.metrics import Metrics
from router.webhook.service import LARGE_AT_ONCE, Service
from tests.gates import gate, review_of, sized
from tests.placement.given import job_of
from tests.webhook.fake import FakePolicy, over_budget
from tests.webhook.servers import Server, until

Start = Callable[..., Server]
LOG = logging.getLogger("test")


@pytest.mark.parametrize("how", ["loops", "swallows"])
def test_a_review_over_its_budget_is_denied_and_the_others_go_on(start: Start, how: str) -> None:
    server = start("--budget", "5")
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(server.review, uid="slow", spin=how)
        until(lambda: server.logged("began"))
        answers = [server.review(uid=str(number))[0] for number in range(5)]
        beside = not slow.done()

        status, answer = slow.result(200)

    assert (answers, beside) == ([200] * 5, True)
    assert (status, answer["response"]) == (200, {"uid": "slow", "allowed": False, "over": ["judging it", "", 5.0]})
    assert server.metrics()["batchgate_reviews_over_budget_total"] == 1
    (line,) = server.logged("a review over its budget")
    assert (line["level"], line["uid"], line["step"], line["cpu"]) == ("warning", "slow", "judging it", 5.0)
    assert server.review(uid="after")[0] == 200


def test_as_many_slow_reviews_as_there_are_threads_stop_nobody(start: Start) -> None:
    server = start("--budget", "1", "--threads", "8")
    with ThreadPoolExecutor(16) as pool:
        slow = [pool.submit(server.review, uid=f"slow-{number}", spin="loops") for number in range(8)]
        until(lambda: server.logged("began"))
        answers = [server.review(uid=str(number))[0] for number in range(5)]
        results = [one.result(200) for one in slow]

    assert answers == [200] * 5
    # Each one is denied, or told to ask again as there is no place for another that takes long.
    told = [(status, answer.get("error")) for status, answer in results]
    crowded = "this review takes long, and 3 that are large or take long are in hand already; ask again"
    assert set(told) <= {(200, None), (429, crowded)}
    assert told.count((200, None)) >= LARGE_AT_ONCE


@pytest.mark.parametrize(("how", "options"), [("in C", ()), ("in C alone", ("--heartbeat", "8"))])
def test_a_call_into_c_that_does_not_end_ends_the_worker_alone(
    start: Start, how: str, options: tuple[str, ...]
) -> None:
    server = start("--budget", "0.3", *options)
    before = until(server.children)

    with ThreadPoolExecutor() as pool:
        pool.submit(server.review, uid="slow", spin=how)
        until(lambda: [one for one in server.children() if one not in before])

    assert server.review(uid="after")[0] == 200


def _spun(budget: Budget, seconds: float, slowed: Callable[[], bool] = lambda: True) -> str:
    def work() -> str:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass
        return "done"

    return budget.spend(work, slowed)


def test_what_is_within_its_budget_is_not_disturbed() -> None:
    budget = Budget(LOG, 30)
    called = []

    def slowed() -> bool:
        called.append("slow")
        return True

    assert _spun(budget, 0.3, slowed) == "done"
    assert called == ["slow"]


def test_waiting_costs_nothing() -> None:
    assert Budget(LOG, 0.1).spend(lambda: time.sleep(0.5), lambda: True) is None


def test_what_the_work_raises_comes_through() -> None:
    def work() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        Budget(LOG, 1).spend(work, lambda: True)


def test_one_for_which_there_is_no_place_ends_before_its_budget() -> None:
    began = time.thread_time()

    with pytest.raises(Crowded):
        _spun(Budget(LOG, 30), 20, lambda: False)

    assert time.thread_time() - began < 10


def test_nothing_is_raised_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    # Else a look that comes a quarter of a second late on a busy machine would end this process.
    monkeypatch.setattr("router.webhook.budget._STUBBORN", 1000)
    budget = Budget(LOG, 0.06)
    for _ in range(10):
        for seconds in (0.06, 0.07, 0.08):  # just before, at and after the moment in which it is interrupted
            with contextlib.suppress(OverBudget):
                _spun(budget, seconds)
            assert sum(range(1000)) == 499500

    with pytest.raises(OverBudget):
        _spun(budget, 60)


_PROFILED = """
import logging, sys
from router.webhook.budget import Budget, OverBudget

def work():
    while True:
        pass

try:
    Budget(logging.getLogger(), 0.1).spend(work, lambda: True)
except OverBudget:
    sys.setprofile(lambda *_: None)
    work = str.upper("ended")
    (lambda: print(work))()
"""


def test_python_looks_for_no_interruption_any_more_once_one_has_come() -> None:
    """Where it does, a function that is profiled never begins."""
    run = subprocess.run([sys.executable, "-c", _PROFILED], capture_output=True, text=True, timeout=120, check=False)

    assert (run.returncode, run.stdout) == (0, "ENDED\n"), run.stderr


def test_many_threads_at_once_are_each_judged_by_their_own_time() -> None:
    budget = Budget(LOG, 1)
    ended: list[str] = []

    def one(seconds: float) -> None:
        try:
            ended.append(_spun(budget, seconds))
        except OverBudget:
            ended.append("over")

    threads = [threading.Thread(target=one, args=(seconds,)) for seconds in (0.2, 0.2, 0.2, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(ended) == ["done", "done", "done", "over"]


def test_the_denial_is_a_whole_review_that_names_the_field() -> None:
    body = review_of(job_of(pod=sized("3")), user="eve")

    answer = admission.over_budget(body, gate(), "its figures and containers", "spec.template.spec.volumes[3]", 1.5)

    message = (
        "takes more than 1.5 seconds of processor time to judge, most of them for its figures and containers; "
        "make it smaller or simpler"
    )
    assert answer.response == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "allowed": False,
            "status": {
                "status": "Failure",
                "code": 422,
                "reason": "Invalid",
                "message": f"spec.template.spec.volumes[3]: {message}",
                "details": {
                    "causes": [
                        {
                            "reason": "FieldValueInvalid",
                            "field": "spec.template.spec.volumes[3]",
                            "message": message,
                        }
                    ]
                },
            },
            "auditAnnotations": {"decision": "invalid", "reason": f"spec.template.spec.volumes[3]: {message}"},
        },
    }
    assert (answer.record["user"], answer.record["target"]) == ("eve", "invalid")


class _Slow(dict[str, Any]):
    """A mapping of a Job that is slow to be looked into: what nobody has thought of."""

    def get(self, key: str, default: Any = None) -> Any:
        if key == "name":
            while True:
                pass
        return super().get(key, default)


def test_what_nobody_thought_of_is_denied_with_the_field_that_took_longest() -> None:
    pod = sized("3")
    pod["containers"].append({"name": "slow", "image": "i", "env": [_Slow(name="A", value="1")]})
    body = review_of(job_of(pod=pod))
    service = Service(
        review=lambda _, __: admission.review(body, gate()),
        over_budget=lambda _, *told: admission.over_budget(body, gate(), *told),
        budget=Budget(LOG, 0.3),
        policy=FakePolicy(),
        metrics=Metrics(),
        log=LOG,
    )

    answer = Client(create_app(service)).post("/mutate", json={})

    status = json.loads(answer.data)["response"]["status"]
    assert (answer.status_code, status["code"]) == (200, 422)
    assert status["message"].startswith("spec.template.spec.containers[1].env[0]: takes more than 0.3 seconds")
    assert "most of them for its figures and containers" in status["message"]
    assert not service.turn.locked()


def _seen(function: Callable[[], object]) -> set[Step]:
    """Where the thread stands at each call and return of our own functions."""
    seen: set[Step] = set()

    def look(frame: FrameType, event: str, _arg: object) -> None:
        if event in ("call", "return") and frame.f_globals.get("__name__", "").startswith("router."):
            seen.add(place_of(frame))

    sys.setprofile(look)
    try:
        function()
    finally:
        sys.setprofile(None)
    return seen


@pytest.mark.parametrize("step", ["its script", "its figures and containers", "what changes in it", "the patch"])
def test_each_step_has_a_name(step: str) -> None:
    job = review_of(job_of(pod=sized("3")))

    assert step in {place.step for place in _seen(lambda: admission.review(job, gate()))}


def test_a_rule_in_hand_is_named() -> None:
    job = job_of(pod=sized("3"))
    ada = Requester("ada", (), "default")

    assert "rule large" in {place.step for place in _seen(lambda: judge(job, requester=ada, gate=gate()))}


def test_nobody_stands_nowhere() -> None:
    assert place_of(None) == Step("judging it", "")
    assert over_budget({"uid": "1"}, "a", "b", 1).record["target"] == "invalid"
