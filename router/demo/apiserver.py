"""The API server's part in the demo: posts an AdmissionReview for a Job over verified TLS, and applies the patch.

Shell: sends one HTTPS request per Job, like the API server.
"""

from __future__ import annotations

import base64
import json
import ssl
import urllib.request
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jsonpatch

from router.errors import ConfigError

SECONDS: Final = 10
"""The API server's default timeout for a webhook (timeoutSeconds)."""


@dataclass(frozen=True, slots=True)
class AdmissionOutcome:
    """The webhook's answer about one Job, and the Job after its patch."""

    allowed: bool
    message: str
    warnings: tuple[str, ...]
    audit: Mapping[str, str]
    job: dict[str, Any]


def review_of(job: Mapping[str, Any], *, user: str, groups: tuple[str, ...], namespace: str) -> dict[str, Any]:
    """The AdmissionReview (v1) of a Job's creation."""
    metadata = job.get("metadata", {})
    request = {
        "uid": str(uuid.uuid4()),
        "kind": {"group": "batch", "version": "v1", "kind": "Job"},
        "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
        "operation": "CREATE",
        "name": metadata.get("name", ""),
        "namespace": namespace,
        "userInfo": {"username": user, "groups": [*groups, "system:authenticated"]},
        "object": {**job, "metadata": {**metadata, "namespace": namespace}},
        "dryRun": False,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def post(url: str, review: Mapping[str, Any], ca_file: Path) -> AdmissionOutcome:
    """Post a review and apply the patch of the answer. Raises ConfigError if the answer is for another review."""
    context = ssl.create_default_context(cafile=str(ca_file))
    request = urllib.request.Request(  # noqa: S310 - always https, made by ourselves
        url, data=json.dumps(review).encode(), headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=SECONDS, context=context) as reply:  # noqa: S310
        response = json.load(reply)["response"]
    if response["uid"] != review["request"]["uid"]:
        raise ConfigError(f"{url}: the webhook answered another review")
    job = review["request"]["object"]
    if "patch" in response:
        job = jsonpatch.apply_patch(job, json.loads(base64.b64decode(response["patch"])))
    return AdmissionOutcome(
        allowed=response["allowed"],
        message=response.get("status", {}).get("message", ""),
        warnings=tuple(response.get("warnings", ())),
        audit=response.get("auditAnnotations", {}),
        job=job,
    )


def is_ready(url: str, ca_file: Path) -> bool:
    """Whether the webhook reports that it is ready."""
    context = ssl.create_default_context(cafile=str(ca_file))
    try:
        with urllib.request.urlopen(url, timeout=SECONDS, context=context) as reply:  # noqa: S310
            return bool(reply.status == 200)
    except OSError:
        return False
