"""Answers AdmissionReviews.

Pure. Knows the wire format ``admission.k8s.io/v1`` (the API server's contract: kubernetes.io/docs, "Dynamic Admission
Control"), but not HTTP. An invalid review raises ReviewError (the API server's problem, HTTP 400). For an invalid Job
(the user's problem) the answer is a denial that names the field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from router.errors import JobError, ReviewError
from router.gate import patching
from router.gate.evidence import Evidence, Refusal
from router.gate.judging import Gate, Judgement, judge
from router.gate.updating import judge_update
from router.policy.decision import Decision, Requester
from router.values import unchanging
from router.workload.fields import LONGEST_WARNING

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
JOB_KIND: Final = {"group": "batch", "version": "v1", "kind": "Job"}

DEEPEST: Final = 100
"""Most levels of mappings and lists in a review, itself included; a Job with all its managed fields has about 25."""

MOST_VALUES: Final = 500_000
"""Most mappings and lists in a review: the API server accepts 3 MiB, which hold fewer."""

LONGEST_WARNINGS: Final = 4096
"""Most characters of all warnings together: the API server drops the rest (apiserver/pkg/endpoints/filters)."""

LONGEST_MESSAGE: Final = 4096
LONGEST_PATH: Final = 512
_LONGEST_NAME: Final = 253
_LONGEST_NAMESPACE: Final = 63
_LONGEST_USER: Final = 256
_LONGEST_GROUP: Final = 256
_MOST_GROUPS: Final = 100
_LONGEST_UID: Final = 64
_LONGEST_OPERATION: Final = 16
CREATE: Final = "CREATE"
_UPDATE: Final = "UPDATE"
_INVALID: Final = "invalid"
INVALID_JOB: Final = "the Job is invalid"
OVER_BUDGET: Final = "the review took more than its budget"


@unchanging
class ReviewAnswer:
    """The whole AdmissionReview to send, the fields of the log line, and what a decision rests on.

    ``record`` holds ``uid``, ``operation``, ``namespace``, ``name``, ``user``, ``groups`` (the first 100),
    ``groups_left_out`` (how many more there are), ``dry_run``, ``allowed``, ``target`` (cloud, hpc, deny, invalid or
    untouched), ``rule``, ``reason``, ``site``, ``queue`` and ``audited`` (rules' names). Without a decision,
    ``evidence`` is None; of a denial without one there is a ``refusal``.
    """

    response: dict[str, Any]
    record: dict[str, Any]
    evidence: Evidence | None = None
    refusal: Refusal | None = None


@unchanging
class _Request:
    """The fields of a request. Without need for judgement, ``job`` and ``stored`` are None."""

    uid: str
    operation: str
    namespace: str
    name: str
    user: str
    groups: tuple[str, ...]
    dry_run: bool
    job: dict[str, Any] | None
    stored: dict[str, Any] | None


def review(body: object, gate: Gate) -> ReviewAnswer:
    """Answer one AdmissionReview. Raises ReviewError if the body is not a valid review."""
    demand_bounded(body)
    request = _read(body)
    if request.job is None:
        return ReviewAnswer(_response(request, allowed=True), _log_fields(request, allowed=True, target="untouched"))
    requester = Requester(
        request.user, request.groups, request.namespace, gate.cluster.namespaces.get(request.namespace)
    )
    try:
        if request.stored is None:
            judgement = judge(request.job, requester=requester, gate=gate)
        else:
            judgement = judge_update(request.stored, request.job, requester=requester, gate=gate)
    except JobError as error:
        return _invalid(request, error, INVALID_JOB, gate)
    return _judged(request, judgement, requester, gate)


def over_budget(body: object, gate: Gate, step: str, field: str, seconds: float) -> ReviewAnswer:
    """The answer to a review that was given up. Raises ReviewError if the body is not a valid review.

    :param step: the step that took longest, in words
    :param field: the field of the Job that was judged at that moment; empty if there was none
    :param seconds: the limit of CPU time
    """
    most = f"takes more than {seconds:g} seconds of processor time to judge, most of them for {step}"
    return _invalid(_read(body), JobError(field or "spec", f"{most}; make it smaller or simpler"), OVER_BUDGET, gate)


# --- answers ----------------------------------------------------------------------------------------------------


def _judged(request: _Request, judgement: Judgement, requester: Requester, gate: Gate) -> ReviewAnswer:
    decision = judgement.decision
    allowed = decision is None or decision.target != "deny"
    response = _response(request, allowed=allowed)
    inner = response["response"]
    if warnings := cut(judgement.warnings):
        inner["warnings"] = warnings
    fields: dict[str, Any] = {"target": "untouched"}
    if decision is not None:
        fields = _decided(decision)
        inner["auditAnnotations"] = _audit_annotations(decision)
    if not allowed:
        assert decision is not None  # noqa: S101 - as `allowed` says
        message = f"rule {decision.rule} denies this Job: {decision.reason}"
        inner["status"] = status_of(403, "Forbidden", message)
    elif operations := patching.diff(judgement.job, judgement.routed):
        inner["patchType"] = "JSONPatch"
        inner["patch"] = patching.encoded(operations)
    return ReviewAnswer(
        response, _log_fields(request, allowed=allowed, **fields), _evidence(judgement, requester, gate)
    )


def _evidence(judgement: Judgement, requester: Requester, gate: Gate) -> Evidence | None:
    if judgement.workload is None or judgement.decision is None:
        return None
    metadata = judgement.job.get("metadata") or {}
    return Evidence(metadata, requester, judgement.workload, judgement.decision, gate)


def _invalid(request: _Request, error: JobError, kind: str, gate: Gate) -> ReviewAnswer:
    response = _response(request, allowed=False)
    path, message = _cut(_plain(error.path), LONGEST_PATH), _cut(_plain(error.message), LONGEST_MESSAGE)
    status = status_of(422, "Invalid", f"{path}: {message}")
    status["details"] = {"causes": [{"reason": "FieldValueInvalid", "field": path, "message": message}]}
    response["response"]["status"] = status
    response["response"]["auditAnnotations"] = {"decision": _INVALID, "reason": status["message"]}
    metadata = (request.job or {}).get("metadata")
    return ReviewAnswer(
        response,
        _log_fields(request, allowed=False, target=_INVALID, reason=status["message"]),
        refusal=Refusal(kind, metadata if isinstance(metadata, dict) else {}, gate),
    )


def _response(request: _Request, *, allowed: bool) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": KIND, "response": {"uid": request.uid, "allowed": allowed}}


def status_of(code: int, reason: str, message: str) -> dict[str, Any]:
    """The Status of a denial, with its message on one line."""
    return {"status": "Failure", "code": code, "reason": reason, "message": _cut(_plain(message), LONGEST_MESSAGE)}


def _decided(decision: Decision) -> dict[str, Any]:
    route = decision.route
    return {
        "target": decision.target,
        "rule": decision.rule,
        "reason": _cut(_plain(decision.reason), LONGEST_MESSAGE),
        "site": route.site.name if route else "",
        "queue": route.queue.name if route else "",
        "audited": tuple(one.rule for one in decision.audited),
    }


def _audit_annotations(decision: Decision) -> dict[str, str]:
    """The audit annotations. Their keys have no prefix: the API server puts the webhook's name before them."""
    entries = {"decision": decision.target, "rule": decision.rule, "reason": decision.reason}
    if decision.route is not None:
        entries |= {"site": decision.route.site.name, "queue": decision.route.queue.name}
    if decision.audited:
        entries["audited"] = "; ".join(
            f"{one.rule}: {one.outcome}" if one.outcome else one.rule for one in decision.audited
        )
    return {key: _cut(_plain(value), LONGEST_MESSAGE) for key, value in entries.items()}


def _log_fields(request: _Request, *, allowed: bool, **decided: Any) -> dict[str, Any]:
    fields = {
        "uid": _cut(request.uid, _LONGEST_UID),
        "operation": _cut(request.operation, _LONGEST_OPERATION),
        "namespace": _cut(request.namespace, _LONGEST_NAMESPACE),
        "name": _cut(request.name, _LONGEST_NAME),
        "user": _cut(request.user, _LONGEST_USER),
        "groups": tuple(_cut(group, _LONGEST_GROUP) for group in request.groups[:_MOST_GROUPS]),
        "groups_left_out": max(0, len(request.groups) - _MOST_GROUPS),
        "dry_run": request.dry_run,
        "allowed": allowed,
        "target": "",
        "rule": "",
        "reason": "",
        "site": "",
        "queue": "",
        "audited": (),
    }
    return {**fields, **decided}


def cut(warnings: Sequence[str]) -> list[str]:
    """The warnings, cut so that they reach the user whole: one line each, at most 256 characters, 4096 in all."""
    shown: list[str] = []
    left = LONGEST_WARNINGS
    for warning in warnings:
        text = _cut(_plain(warning), LONGEST_WARNING)
        if len(text) > left:
            break
        left -= len(text)
        shown.append(text)
    return shown


def _cut(text: str, longest: int) -> str:
    """The text; if it is too long, cut at a word."""
    if len(text) <= longest:
        return text
    head = text[: longest - 1]
    words = head.rpartition(" ")[0]
    return f"{words if len(words) > longest // 2 else head}…"


def _plain(text: str) -> str:
    """The text on one line: the API server drops warnings that hold control characters or lone surrogates."""
    if text.isascii() and text.isprintable():
        return text
    whole = text.encode("utf-8", "replace").decode()
    return "".join(one if one.isprintable() else " " for one in whole)


# --- requests ---------------------------------------------------------------------------------------------------


def demand_bounded(body: object) -> None:
    """Refuse a review that is nested too deep or too large, before any code walks it recursively."""
    level: list[Any] = [body] if body.__class__ in _NESTED else []
    total = 0
    for _ in range(DEEPEST):
        level = [
            one
            for value in level
            for one in (value.values() if value.__class__ is dict else value)
            if one.__class__ in _NESTED
        ]
        if not level:
            return
        total += len(level)
        if total > MOST_VALUES:
            raise ReviewError(f"the review holds more than {MOST_VALUES} mappings and lists")
    raise ReviewError(f"the review is nested more than {DEEPEST} levels deep")


_NESTED: Final = frozenset({dict, list})


def _read(body: object) -> _Request:
    request = review_request(body)
    uid = uid_of(request)
    operation = text_at(request, "operation", "request.operation")
    user, groups = requester_of(request)
    namespace = text_at(request, "namespace", "request.namespace")
    job, stored = _objects(request, operation)
    if job is not None and not namespace:
        raise ReviewError("request.namespace is missing; a Job has one")
    return _Request(
        uid=uid,
        operation=_plain(operation),
        namespace=namespace,
        name=_plain(text_at(request, "name", "request.name") or _name_of(job)),
        user=user,
        groups=groups,
        dry_run=request.get("dryRun") is True,
        job=job,
        stored=stored,
    )


def uid_of(request: Mapping[str, Any]) -> str:
    """The uid of a request, which its answer repeats. Raises ReviewError."""
    uid = text_at(request, "uid", "request.uid")
    if not uid or not uid.isascii() or not uid.isprintable() or len(uid) > _LONGEST_NAME:
        raise ReviewError("request.uid is not a valid uid")
    return uid


def review_request(body: object) -> Mapping[str, Any]:
    """The request of an AdmissionReview. Raises ReviewError if the body is none of the version that we read."""
    if not isinstance(body, dict) or body.get("kind") != KIND:
        raise ReviewError(f"the body is not an {KIND}")
    version = body.get("apiVersion")
    if version != API_VERSION:
        raise ReviewError(
            f"apiVersion is {_shown(version)}, not {API_VERSION}: list only v1 in the webhook's admissionReviewVersions"
        )
    request = body.get("request")
    if not isinstance(request, dict):
        raise ReviewError("the review has no request")
    return request


def _objects(request: Mapping[str, Any], operation: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The Job to judge and, at an update, the stored one; None for requests that pass unjudged."""
    if operation not in {CREATE, _UPDATE} or text_at(request, "subResource", "request.subResource"):
        return None, None
    kind = request.get("kind")
    if kind != JOB_KIND:
        raise ReviewError(f"request.kind is {_shown(kind)}, not batch/v1 Job: the webhook's rules must name jobs only")
    job = _job(request, "object")
    return job, _job(request, "oldObject") if operation == _UPDATE else None


def _job(request: Mapping[str, Any], name: str) -> dict[str, Any]:
    job = request.get(name)
    if not isinstance(job, dict):
        raise ReviewError(f"request.{name} is missing or not a mapping")
    if job.get("kind", "Job") != "Job" or job.get("apiVersion", "batch/v1") != "batch/v1":
        raise ReviewError(f"request.{name} is not a batch/v1 Job, although request.kind says so")
    return job


def requester_of(request: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The user who sent a request, and the groups. Raises ReviewError."""
    info = request.get("userInfo")
    if not isinstance(info, dict):
        raise ReviewError("request.userInfo is missing: the requester is unknown")
    user = text_at(info, "username", "request.userInfo.username")
    if not user:
        raise ReviewError("request.userInfo.username is missing: the requester is unknown")
    groups = info.get("groups")
    if groups is None:
        return user, ()
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise ReviewError("request.userInfo.groups is not a list of names")
    return user, tuple(groups)


def text_at(parent: Mapping[str, Any], name: str, path: str) -> str:
    """A field of a review that is text; empty if it is missing. Raises ReviewError for another type."""
    value = parent.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ReviewError(f"{path} is {_shown(value)}, not text")
    return value


def _name_of(job: Mapping[str, Any] | None) -> str:
    metadata = job.get("metadata") if job is not None else None
    if not isinstance(metadata, dict):
        return ""
    name, prefix = metadata.get("name"), metadata.get("generateName")
    return name if isinstance(name, str) and name else f"{prefix}*" if isinstance(prefix, str) else ""


def _shown(value: object) -> str:
    return _cut(_plain(json.dumps(value)), 80)
