"""When the webhook says that it may be asked, and when it says that it may not."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from werkzeug.exceptions import ServiceUnavailable
from werkzeug.test import Client

from router import policy
from router.webhook.app import LARGEST_IN_TURN, POLICY_WAIT_SECONDS, create_app
from router.webhook.budget import Budget
from router.webhook.metrics import Metrics
from router.webhook.service import LARGE_AT_ONCE, Service
from tests.policies import LARGE_GO_TO_HPC
from tests.webhook.fake import FakePolicy, over_budget, review
from tests.webhook.servers import until


def _service(**given: Any) -> Service:
    parts: dict[str, Any] = {
        "review": review,
        "over_budget": over_budget,
        "budget": Budget(logging.getLogger("test")),
        "policy": FakePolicy(),
        "metrics": Metrics(),
        "log": logging.getLogger("test"),
    }
    return Service(**(parts | given))


def _get(service: Service, path: str) -> tuple[int, dict[str, Any]]:
    response = Client(create_app(service)).get(path)
    return response.status_code, json.loads(response.data)


def test_not_ready_while_no_policy_was_ever_loaded() -> None:
    status, shown = _get(_service(policy=FakePolicy(generation=0, digest="", loaded_at=None)), "/readyz")

    assert (status, shown["ready"], shown["policy"]) == (
        503,
        False,
        {"generation": 0, "digest": None, "loadedAt": None},
    )


def test_not_ready_while_draining() -> None:
    service = _service()
    service.draining = True

    status, shown = _get(service, "/readyz")

    assert (status, shown["ready"], shown["draining"]) == (503, False, True)


def test_not_alive_once_nobody_watches_the_files() -> None:
    assert _get(_service(watching=lambda: False), "/livez") == (503, {"alive": False})
    assert _get(_service(watching=lambda: True), "/livez") == (200, {"alive": True})


def test_not_ready_before_the_cluster_was_seen() -> None:
    status, shown = _get(_service(synced=lambda: False), "/readyz")

    assert (status, shown["ready"], shown["synced"]) == (503, False, False)


def test_a_review_without_a_policy_is_503_and_nothing_is_counted_as_decided() -> None:
    def nothing(_: object, __: str) -> Any:
        raise ServiceUnavailable("no policy is in force; /readyz tells why")

    service = _service(review=nothing)
    response = Client(create_app(service)).post("/mutate", json={"uid": "1"})

    assert (response.status_code, json.loads(response.data)) == (
        503,
        {"error": "no policy is in force; /readyz tells why"},
    )
    assert "batchgate_decisions_total{" not in service.exposition().decode()
    assert 'batchgate_refused_requests_total{code="503"} 1.0' in service.exposition().decode()


def test_figures_that_are_read_at_every_scrape() -> None:
    moment = datetime(2026, 6, 1, tzinfo=UTC)
    service = _service(certificate_expiry=lambda: moment, queue_states=lambda: (3, 12.5))

    lines = (line for line in service.exposition().decode().splitlines() if not line.startswith("#"))
    samples = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    assert samples["batchgate_certificate_expiry_timestamp_seconds"] == moment.timestamp()
    assert samples["batchgate_queue_states"] == 3
    assert samples["batchgate_queue_states_timestamp_seconds"] == 12.5


def test_what_rules_may_decide_is_counted_from_zero_on() -> None:
    """So that the first decision of a rule is an increase for Prometheus."""
    rules = """\
rules:
  - {name: watched, when: job.cpus > 64, deny: too many, mode: audit}
  - {name: huge, when: job.cpus > 32, deny: too many}
  - {name: strict, when: job.cpus > 16, hpc: [{queue: batch}], ifNotRoutable: deny}
  - {name: large, when: job.cpus > 8, hpc: [{queue: batch}]}
  - {name: rest, cloud: true}
"""
    found = policy.load({"all.yaml": LARGE_GO_TO_HPC.partition("rules:\n")[0] + rules})
    service = _service(policy=FakePolicy(rules=found.rules))
    begun = [line for line in service.exposition().decode().splitlines() if "{" in line and " 0.0" in line]

    assert {line for line in begun if line.startswith(("batchgate_decisions", "batchgate_audit"))} >= {
        'batchgate_audit_matches_total{rule="watched"} 0.0',
        *(
            f'batchgate_decisions_total{{dry_run="false",rule="{rule}",target="{target}"}} 0.0'
            for rule, target in (
                ("huge", "deny"),
                ("strict", "hpc"),
                ("strict", "cloud"),
                ("strict", "deny"),
                ("large", "hpc"),
                ("large", "cloud"),
                ("rest", "cloud"),
            )
        ),
    }
    assert service.exposition().decode().count("batchgate_decisions_total{") == 7


def test_two_services_do_not_share_figures() -> None:
    one, other = _service(), _service()

    Client(create_app(one)).post("/mutate", json={"uid": "1"})

    assert "batchgate_review_seconds_count 1.0" in one.exposition().decode()
    assert "batchgate_review_seconds_count 0.0" in other.exposition().decode()


@pytest.mark.parametrize(("padding", "in_turn"), [(0, True), (LARGEST_IN_TURN, False)])
def test_reviews_take_turns_but_a_large_one_holds_up_no_other(padding: int, in_turn: bool) -> None:
    had_it = []

    def seen(body: object, _: str) -> Any:
        had_it.append(service.turn.locked())
        return review(body, "")

    service = _service(review=seen)
    body = {"uid": "1", "padding": "x" * padding}

    assert Client(create_app(service)).post("/mutate", json=body).status_code == 200
    assert had_it == [in_turn]
    assert not service.turn.locked()
    assert not service.large_turn.locked()


def test_a_bug_in_a_large_review_gives_its_place_back() -> None:
    def broken(body: object, _: str) -> Any:
        raise KeyError(body)

    client = Client(create_app(_service(review=broken)))
    body = json.dumps({"uid": "1", "padding": "x" * LARGEST_IN_TURN})

    answers = [client.post("/mutate", data=body, content_type="application/json").status_code for _ in range(9)]

    assert answers == [500] * 9


def test_a_bug_gives_the_turn_back() -> None:
    service = _service()

    assert Client(create_app(service)).post("/mutate", json={"uid": "1", "bug": "x"}).status_code == 500
    assert not service.turn.locked()


READ = {"GET": 200, "HEAD": 200, "OPTIONS": 200, "POST": 405, "PUT": 405}
SENT = {"GET": 405, "HEAD": 405, "OPTIONS": 405, "POST": 415, "PUT": 405}
NOWHERE = dict.fromkeys(READ, 404)


@pytest.mark.parametrize(
    ("path", "port", "expected"),
    [
        *((path, port, READ) for path in ("/livez", "/readyz", "/statusz") for port in (8443, 9443)),
        *(("/metrics", 9443, READ), ("/metrics", 8443, NOWHERE)),
        *((path, port, SENT if port == 8443 else NOWHERE) for path in ("/mutate", "/policy") for port in (8443, 9443)),
        *((path, 8443, NOWHERE) for path in ("/", "/mutate/", "/readyz/", "/readyz//", "/Mutate", "/nothing")),
    ],
)
def test_each_path_and_method_beside_a_port_of_metrics(path: str, port: int, expected: dict[str, int]) -> None:
    client = Client(create_app(_service(metrics_port=9443)))

    answers = {method: client.open(path, method=method, base_url=f"https://localhost:{port}") for method in expected}

    assert {method: answer.status_code for method, answer in answers.items()} == expected
    refused = [answer for answer in answers.values() if answer.status_code == 405]
    allowed = ["GET, HEAD, OPTIONS"] if expected is READ else ["POST"]
    assert [answer.headers["allow"] for answer in refused] == allowed * len(refused)
    assert [answers[method].data for method in ("HEAD", "OPTIONS") if answers[method].status_code == 200] in (
        [],
        [b"", b""],
    )


def test_a_review_is_answered_with_its_type_and_its_length_alone() -> None:
    answer = Client(create_app(_service())).post("/mutate", json={"uid": "1"})

    assert (answer.status, list(answer.headers)) == (
        "200 OK",
        [("Content-Type", "application/json"), ("Content-Length", str(len(answer.data)))],
    )


POLICY_CHANGE = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "operation": "CREATE",
        "userInfo": {"username": "ada"},
        "object": {"metadata": {"name": "batchgate-policies"}, "data": {"all.yaml": LARGE_GO_TO_HPC}},
    },
}


def _changed(service: Service) -> tuple[int, str]:
    """The answer to a change of the policy: its status, and what is wrong."""
    response = Client(create_app(service)).post("/policy", json=POLICY_CHANGE)
    return response.status_code, json.loads(response.data).get("error", "")


def test_changes_of_the_policy_wait_for_each_other_and_not_for_jobs() -> None:
    service = _service()
    large = {"uid": "1", "padding": "x" * LARGEST_IN_TURN}
    busy = (429, "another change of the policy is being checked; ask again")
    with ThreadPoolExecutor() as pool:
        with service.policy_turn, service.policy_places:  # one is being checked
            began = time.monotonic()
            second = pool.submit(_changed, service)
            until(lambda: not _free(service.policy_places))
            third = _changed(service)
            at_once = time.monotonic() - began < POLICY_WAIT_SECONDS
            jobs = [Client(create_app(service)).post("/mutate", json=one).status_code for one in ({"uid": "2"}, large)]
            waited = second.result(30)
        after = _changed(service)

    assert (third, at_once, waited) == (busy, True, busy)
    assert (jobs, after) == ([200, 200], (200, ""))


def test_a_change_of_the_policy_takes_no_place_of_a_large_job() -> None:
    service = _service()
    with contextlib.ExitStack() as held:
        held.enter_context(service.turn)
        for _ in range(LARGE_AT_ONCE):
            held.enter_context(service.large_places)

        assert _changed(service) == (200, "")


def _free(places: threading.BoundedSemaphore) -> bool:
    """Whether there is one, without taking it: whoever asked at that moment would find none."""
    return places._value > 0
