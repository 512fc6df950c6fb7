"""Makes a registration active: ``certs ensure --activate``.

Shell (the API, the clock). The chart installs the registration with an empty list of webhooks, so no Job waits for
one that is still starting. Here the webhooks of ConfigMap ``batchgate-registration`` are written into it, once the webhook answers.

It is asked through the API server's proxy for Services. That is the way on which reviews come, so a NetworkPolicy that
lets only the API server in holds nobody up, and it is the same way inside and outside the cluster. The proxy does not
verify certificates. So the webhook says the fingerprint of its certificate, which must be that of the one we made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from cryptography.hazmat.primitives import hashes

from router import names
from router.certs import checking, objects, registration
from router.certs.ensuring import MUTATING, Target, put
from router.certs.objects import Json
from router.errors import ApiError, ConfigError, Conflict
from router.kube.client import Api

WEBHOOKS: Final = "webhooks.yaml"
_SECONDS: Final = 10.0
_PAUSE: Final = 1.0
_TRIES: Final = 10
_ASKED_AGAIN: Final = frozenset({0, 404, 429, 500, 502, 503, 504})
"""The answers while the Service, its endpoints or a ready replica are still to come; 0 is silence."""


def activate(api: Api, target: Target, service: str, wait: float, say: Callable[[str], None]) -> None:
    """Wait until the webhook answers, then write its webhooks into the registration; again if their ConfigMap changed.

    :param wait: most seconds to wait
    :raises ConfigError: the ConfigMap's content is unusable, or the webhook is silent for too long
    """
    webhooks = wanted(api, target, service)
    await_ready(api, target, service, wait, say)
    for _ in range(_TRIES):
        bundle = _bundle(api, target)
        found = api.find(f"{MUTATING}/{target.registration}", _SECONDS)
        if found is None:
            raise ConfigError(
                f"there is no MutatingWebhookConfiguration {target.registration}; the chart and the manifests make it, "
                "with an empty list of webhooks"
            )
        body = {**found, "kind": "MutatingWebhookConfiguration", "webhooks": objects.with_bundle(webhooks, bundle)}
        try:
            written = put(api, target, body)
        except Conflict:
            continue
        except ApiError as error:
            if error.status != 422:
                raise
            raise ConfigError(f"{_where(target)}: the API server refuses it: {error.message}") from None
        _say(found, written, say)
        return
    raise ConfigError(f"others change MutatingWebhookConfiguration {target.registration} all the time; try again")


def _say(found: Json, written: Json, say: Callable[[str], None]) -> None:
    name = objects.named({**written, "kind": "MutatingWebhookConfiguration"})
    count = len(written["webhooks"])
    same = found["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]
    words = "there already" if same else "active now" if not found.get("webhooks") else "changed as the ConfigMap says"
    say(f"{name}: {count} webhook{'s' if count > 1 else ''}, {words}")


def wanted(api: Api, target: Target, service: str) -> list[Json]:
    """The webhooks of the ConfigMap.

    :raises ConfigError: the ConfigMap is missing, or holds something else than webhooks of ours; says where
    """
    found = api.find(target.config_map(names.REGISTRATION_CONFIG_MAP), _SECONDS)
    if found is None:
        raise ConfigError(
            f"there is no ConfigMap {target.namespace}/{names.REGISTRATION_CONFIG_MAP}, whose key {WEBHOOKS} lists the "
            "webhooks; the chart and manifests/certs make it"
        )
    text = (found.get("data") or {}).get(WEBHOOKS) or ""
    return registration.webhooks_of(text, _where(target), service, target.namespace)


def _where(target: Target) -> str:
    return f"ConfigMap {target.namespace}/{names.REGISTRATION_CONFIG_MAP}, {WEBHOOKS}"


def _bundle(api: Api, target: Target) -> bytes:
    """The CAs that are trusted now; `ensure` keeps them beside the server certificate."""
    return objects.value_of(_tls(api, target), objects.CA_CERTIFICATE)


def _tls(api: Api, target: Target) -> Json:
    return {**api.get(target.secret(names.WEBHOOK_TLS), _SECONDS), "kind": "Secret"}


def await_ready(api: Api, target: Target, service: str, wait: float, say: Callable[[str], None]) -> None:
    """Wait until the Service leads to a webhook that is ready, with our certificate.

    :raises ConfigError: not in time; says what was missing
    :raises ApiError: the API server refuses to ask
    """
    path = f"/api/v1/namespaces/{target.namespace}/services/https:{service}:https/proxy/readyz"
    until = time.monotonic() + wait
    told = ""
    while missing := _missing(api, target, path):
        if missing != told:
            say(f"Waits, at most {wait:.0f} s, for Service {target.namespace}/{service}: {missing}")
            told = missing
        if time.monotonic() > until:
            raise ConfigError(
                f"Service {target.namespace}/{service} does not answer after {wait:.0f} s: {missing}. The registration "
                "stays as it is, so no Job waits for the webhook; see `kubectl -n "
                f"{target.namespace} get pods` and the webhook's log"
            )
        time.sleep(_PAUSE)
    say(f"Service {target.namespace}/{service}: ready, with the certificate of Secret {names.WEBHOOK_TLS}")


def _missing(api: Api, target: Target, path: str) -> str:
    """What is missing for reviews; empty if nothing is."""
    try:
        answer: Mapping[str, Any] = api.get(path, _SECONDS)
    except ApiError as error:
        if error.status not in _ASKED_AGAIN:
            raise
        return error.message
    if not answer.get("ready"):
        return "the webhook is not ready"
    served = (answer.get("certificate") or {}).get("sha256")
    made = checking.certificates_of(objects.value_of(_tls(api, target), objects.CERTIFICATE), names.WEBHOOK_TLS)[0]
    ours = made.fingerprint(hashes.SHA256()).hex()
    return "" if served == ours else "a replica does not serve the certificate of its Secret yet"
