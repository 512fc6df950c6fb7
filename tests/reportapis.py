"""Small definitions of the APIs for policy reports, with the fields that we write; viewers and engines bring the real ones."""

from __future__ import annotations

from typing import Any

from router.controlplane.plane import ControlPlane
from router.replay.policyreports import OPENREPORTS, RESULTS, Form
from tests.webhook.servers import until

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "integer"}
_PLACES: Json = {"apiVersion": TEXT, "kind": TEXT, "namespace": TEXT, "name": TEXT, "uid": TEXT}


def _mapping(required: tuple[str, ...] = (), /, **fields: Json) -> Json:
    return {"type": "object", "properties": fields, **({"required": list(required)} if required else {})}


def _list(item: Json) -> Json:
    return {"type": "array", "items": item}


def definition(form: Form) -> Json:
    """The CustomResourceDefinition of an API for reports."""
    result = _mapping(
        ("policy",),
        **dict.fromkeys(("source", "policy", "rule", "category", "message"), TEXT),
        severity={**TEXT, "enum": ["critical", "high", "low", "medium", "info"]},
        result={**TEXT, "enum": list(RESULTS)},
        scored={"type": "boolean"},
        timestamp=_mapping(("nanos", "seconds"), nanos={**NUMBER, "format": "int32"}, seconds=NUMBER),
        properties={"type": "object", "additionalProperties": TEXT},
        resources=_list(_mapping(**_PLACES)),
    )
    fields = {
        "apiVersion": TEXT,
        "kind": TEXT,
        "metadata": {"type": "object"},
        "scope": _mapping(**_PLACES),
        "summary": _mapping(**dict.fromkeys(RESULTS, NUMBER)),
        "results": _list(result),
        **({"source": TEXT} if form == OPENREPORTS else {}),
    }
    version = {
        "name": form.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _mapping(**fields)},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # Groups of Kubernetes' own need a word about their review (kubernetes/enhancements, KEP 1111).
        "metadata": {
            "name": f"{form.plural}.{form.group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": form.group,
            "scope": "Namespaced",
            "names": {"plural": form.plural, "singular": form.kind.lower(), "kind": form.kind},
            "versions": [version],
        },
    }


def define(plane: ControlPlane, form: Form) -> None:
    """Have the API server serve it."""
    plane.apply(definition(form))
    until(lambda: not plane.run_kubectl("get", f"{form.plural}.{form.group}", "-A").returncode)


def remove(plane: ControlPlane, *forms: Form) -> None:
    """Take it away, with all reports."""
    for form in forms:
        plane.kubectl("delete", "crd", f"{form.plural}.{form.group}", "--ignore-not-found")
        until(lambda form=form: plane.run_kubectl("get", "--raw", form.path).returncode)  # type: ignore[misc]
