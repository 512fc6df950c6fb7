"""Which namespaces' Jobs the webhook judges, as its registration says.

Pure. A label selector is as Kubernetes has it (kubernetes.io/docs, "Labels and selectors").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router import names

Json = Mapping[str, Any]


def judged_namespaces(registration: Json | None, namespaces: Mapping[str, Mapping[str, str]]) -> frozenset[str] | None:
    """Those of the namespaces whose new Jobs the API server shows to the webhook; None without a registration.

    :param registration: the MutatingWebhookConfiguration, if there is one
    :param namespaces: each namespace's labels
    """
    webhooks = (registration or {}).get("webhooks") or ()
    selectors = [one.get("namespaceSelector") or {} for one in webhooks if one.get("name") == names.JOBS_WEBHOOK]
    if not selectors:
        return None
    return frozenset(
        name for name, labels in namespaces.items() if any(_selects(selector, labels) for selector in selectors)
    )


def _selects(selector: Json, labels: Mapping[str, str]) -> bool:
    """Whether all requirements are met; an empty selector has none."""
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _meets(one, labels.get(one["key"])) for one in selector.get("matchExpressions") or ()
    )


def _meets(requirement: Json, value: str | None) -> bool:
    values = requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case operator:
            return operator == "DoesNotExist" and value is None
