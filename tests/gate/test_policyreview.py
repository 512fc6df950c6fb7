from __future__ import annotations

from typing import Any

import pytest

from router.errors import ReviewError
from router.gate import policyreview
from tests.policymap import BAD, GOOD

HEAD = "the policy does not check, so nothing was changed (batchgate policy check DIR tells the same)"
PLACE = "ConfigMap batchgate-system/batchgate-policies"


def _review(**changed: Any) -> dict[str, Any]:
    found = {"metadata": {"namespace": "batchgate-system", "name": "batchgate-policies"}, "data": {"a.yaml": GOOD}}
    request = {
        "uid": "u",
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "operation": "UPDATE",
        "namespace": "batchgate-system",
        "name": "batchgate-policies",
        "userInfo": {"username": "admin"},
        "object": {**found, **changed},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def test_a_policy_that_checks() -> None:
    assert policyreview.review(_review()).response == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u", "allowed": True},
    }


def test_warnings_reach_the_admin() -> None:
    data = {"a.yaml": GOOD, "x.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"}

    (warning,) = policyreview.review(_review(data=data)).response["response"]["warnings"]

    assert warning == "x.yaml:2:1: is a Service, which is neither a policy file nor a Job for a test; it is ignored"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a.yaml": BAD}, "a.yaml:2:18: rule rest: unknown key 'clod'; did you mean 'cloud'?"),
        ({"README.md": "x"}, f"{PLACE}: holds no policy file (a key *.yaml); see docs/policies.md for the least one"),
        (None, f"{PLACE}: holds no policy file (a key *.yaml); see docs/policies.md for the least one"),
    ],
)
def test_a_policy_that_does_not_check(data: dict[str, str] | None, message: str) -> None:
    answer = policyreview.review(_review(data=data))

    assert answer.response["response"] == {
        "uid": "u",
        "allowed": False,
        "status": {"status": "Failure", "code": 422, "reason": "Invalid", "message": f"{HEAD}: {message}"},
    }
    assert (answer.record["allowed"], answer.record["user"]) == (False, "admin")


def test_the_first_ten_problems_are_named() -> None:
    rules = "".join(f"  - {{name: r{number}, when: job.cpus > {number}, clod: true}}\n" for number in range(12))

    message = policyreview.review(_review(data={"a.yaml": f"rules:\n{rules}"})).record["reason"]

    assert message.count("unknown key 'clod'") == policyreview.MOST_PROBLEMS
    assert "; and " in message


def test_a_policy_that_takes_too_long() -> None:
    answer = policyreview.over_budget(_review(), 5.0)

    assert answer.record["reason"] == (
        f"{HEAD}: it takes more than 5 seconds of processor time to check; make it smaller"
    )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"kind": {"group": "", "version": "v1", "kind": "Secret"}}, "request.kind is not v1 ConfigMap"),
        ({"object": None}, "request.object is missing"),
        ({"object": {"data": [1]}}, "request.object.data is not a mapping"),
        ({"uid": ""}, "request.uid is not a valid uid"),
        ({"userInfo": None}, "request.userInfo is missing"),
    ],
)
def test_what_is_no_review_of_a_config_map(changed: dict[str, Any], words: str) -> None:
    review = _review()

    with pytest.raises(ReviewError, match=words):
        policyreview.review({**review, "request": {**review["request"], **changed}})
