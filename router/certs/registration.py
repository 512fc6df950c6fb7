"""Reads the webhooks that shall be registered, from the ConfigMap ``batchgate-registration``.

Pure. Who may edit that ConfigMap has no rights over webhook configurations; ``certs ensure --activate``, which copies it
into one, has. So it takes what the chart registers and no more: our Service, asked about Jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from router import names
from router.errors import ConfigError

Json = dict[str, Any]

NAME: Final = names.JOBS_WEBHOOK
SWITCHING: Final = "switching.jobs.batchgate.dev"
"""The webhook that is there only while namespaces change from opting in to opting out, or back."""
PATH: Final = "/mutate"
_KEYS: Final = frozenset(
    {
        "name",
        "admissionReviewVersions",
        "clientConfig",
        "rules",
        "namespaceSelector",
        "matchConditions",
        "failurePolicy",
        "timeoutSeconds",
        "reinvocationPolicy",
        "matchPolicy",
        "sideEffects",
    }
)
_RULE: Final = {"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"], "scope": "Namespaced"}
_OPERATIONS: Final = ("CREATE", "UPDATE")


def webhooks_of(text: str, where: str, service: str, namespace: str) -> list[Json]:
    """The webhooks of a YAML text.

    :param service: the webhook's Service, which must be the one that is asked
    :param namespace: of the Service
    :raises ConfigError: it is something else than a YAML list of webhooks as the chart makes them, without a CA bundle
    """
    try:
        document = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{where}{line}: no YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, list) or not document:
        raise ConfigError(f"{where}: must be a list of webhooks, as in a MutatingWebhookConfiguration")
    asked = {"name": service, "namespace": namespace, "path": PATH}
    for index, one in enumerate(document):
        if problem := _problem(one, asked):
            raise ConfigError(f"{where}: [{index}]{problem}")
    return document


def switching(registered: Mapping[str, Any] | None) -> bool:
    """Whether a MutatingWebhookConfiguration is the one between opt-in and opt-out."""
    return any(one.get("name") == SWITCHING for one in (registered or {}).get("webhooks") or ())


def _problem(one: object, asked: Mapping[str, str]) -> str:
    if not isinstance(one, Mapping):
        return ": must be a webhook, with name, clientConfig and rules"
    if one.get("name") not in (NAME, SWITCHING):
        return f".name: must be {NAME}, or {SWITCHING}"
    if unknown := sorted(str(key) for key in one if key not in _KEYS):
        return f".{unknown[0]}: is nothing that Batchgate registers; take it out"
    return _client_problem(one.get("clientConfig"), asked) or _rules_problem(one.get("rules"))


def _client_problem(client: object, asked: Mapping[str, str]) -> str:
    shown = ", ".join(f"{key}: {value}" for key, value in asked.items())
    if not isinstance(client, Mapping):
        return f".clientConfig: must be service: {{{shown}}}"
    if "caBundle" in client:
        return ".clientConfig.caBundle: leave it out; the CA of this cluster is put there"
    if client != {"service": asked}:
        return f".clientConfig: must be service: {{{shown}}}, as no other may be asked about Jobs"
    return ""


def _rules_problem(rules: object) -> str:
    if not isinstance(rules, Sequence) or isinstance(rules, str) or not rules:
        return ".rules: must be a list of rules about Jobs"
    for index, rule in enumerate(rules):
        operations = rule.get("operations") if isinstance(rule, Mapping) else None
        known = isinstance(operations, list) and bool(operations) and all(one in _OPERATIONS for one in operations)
        if not isinstance(rule, Mapping) or {**rule, "operations": None} != {**_RULE, "operations": None} or not known:
            return (
                f".rules[{index}]: must be about apiGroups [batch], apiVersions [v1], resources [jobs], scope Namespaced, "
                "with the operations CREATE and UPDATE or one of them"
            )
    return ""
