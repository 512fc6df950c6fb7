"""Says which reviews get a span, and what the span tells: what was decided, and no value of a user's.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from router.gate.review import CREATE

NAME: Final = "review"
_ATTRIBUTES: Final = {
    "namespace": "k8s.namespace.name",
    "target": "batchgate.target",
    "rule": "batchgate.rule",
    "site": "batchgate.site",
    "queue": "batchgate.queue",
    "dry_run": "batchgate.dry_run",
}
"""Names of attributes by the fields of the log line. Namespaces have OpenTelemetry's own (its "K8s" conventions)."""


def wanted(review: object) -> bool:
    """Whether a review begins a Job's trace: it is about a Job that is created.

    An update would begin a second trace of the Job, and each controller sends some.
    """
    request = review.get("request") if isinstance(review, dict) else None
    return isinstance(request, dict) and request.get("operation") == CREATE


def told(record: Mapping[str, Any] | None) -> tuple[dict[str, str | bool], str]:
    """The attributes of a review's span, and an error: why there is no decision; empty if there is one.

    :param record: the fields of the log line; None for a review without an answer
    """
    if record is None:
        return {}, "unanswered"
    found = {name: record.get(field) for field, name in _ATTRIBUTES.items()}
    return {name: value for name, value in found.items() if isinstance(value, str | bool) and value != ""}, ""
