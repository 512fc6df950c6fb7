"""Answers AdmissionReviews of the ConfigMap that holds the policy: files that do not check are refused.

Pure. Replicas and agents keep the last good policy anyway. The refusal tells the admin at once, and keeps a broken
policy from the programs that start meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from router.errors import ConfigError, PolicyError, ReviewError
from router.gate.review import (
    API_VERSION,
    KIND,
    ReviewAnswer,
    cut,
    demand_bounded,
    requester_of,
    review_request,
    status_of,
    text_at,
    uid_of,
)
from router.policy.configmap import texts_of
from router.policy.loading import load

CONFIG_MAP_KIND: Final = {"group": "", "version": "v1", "kind": "ConfigMap"}
MOST_PROBLEMS: Final = 10
_REFUSED: Final = "the policy does not check, so nothing was changed (batchgate policy check DIR tells the same)"


def review(body: object) -> ReviewAnswer:
    """Answer one AdmissionReview of a ConfigMap. Raises ReviewError if the body is not a valid review of one."""
    demand_bounded(body)
    request = review_request(body)
    found = _config_map(request)
    metadata = found.get("metadata") or {}
    place = f"ConfigMap {metadata.get('namespace', '')}/{metadata.get('name', '')}"
    try:
        policy = load(texts_of(found, place))
    except PolicyError as error:
        return _answer(request, _problems(error), ())
    except ConfigError as error:
        return _answer(request, str(error), ())
    return _answer(request, "", policy.warnings)


def over_budget(body: object, seconds: float) -> ReviewAnswer:
    """The answer to a review that was given up after so many seconds of CPU time. Raises ReviewError."""
    words = f"it takes more than {seconds:g} seconds of processor time to check; make it smaller"
    return _answer(review_request(body), words, ())


def _config_map(request: Mapping[str, Any]) -> Mapping[str, Any]:
    if request.get("kind") != CONFIG_MAP_KIND:
        raise ReviewError("request.kind is not v1 ConfigMap: this webhook's rules must name configmaps only")
    found = request.get("object")
    if not isinstance(found, dict):
        raise ReviewError("request.object is missing: this webhook's rules must name CREATE and UPDATE only")
    for name in ("metadata", "data", "binaryData"):
        if not isinstance(found.get(name) or {}, dict):
            raise ReviewError(f"request.object.{name} is not a mapping")
    return found


def _problems(error: PolicyError) -> str:
    """The problems without the lines of the files, as the API server shows a message on one line."""
    heads = [str(problem).partition("\n")[0] for problem in error.problems]
    more = len(heads) - MOST_PROBLEMS
    return "; ".join([*heads[:MOST_PROBLEMS], *([f"and {more} more"] if more > 0 else [])])


def _answer(request: Mapping[str, Any], refusal: str, warnings: tuple[str, ...]) -> ReviewAnswer:
    response: dict[str, Any] = {"uid": uid_of(request), "allowed": not refusal}
    if refusal:
        response["status"] = status_of(422, "Invalid", f"{_REFUSED}: {refusal}")
    if told := cut([warning.partition("\n")[0] for warning in warnings]):
        response["warnings"] = told
    record = {
        "uid": uid_of(request),
        "operation": text_at(request, "operation", "request.operation"),
        "namespace": text_at(request, "namespace", "request.namespace"),
        "name": text_at(request, "name", "request.name"),
        "user": requester_of(request)[0],
        "dry_run": request.get("dryRun") is True,
        "allowed": not refusal,
        "reason": response.get("status", {}).get("message", ""),
    }
    return ReviewAnswer({"apiVersion": API_VERSION, "kind": KIND, "response": response}, record)
