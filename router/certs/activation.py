"""Makes a registration active: ``certs ensure --activate``; and ready for other guards: ``--switch-to``.

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
_SWITCHING: Final = "switching.yaml"
_NAMESPACES: Final = "namespaces"
_SETTLED: Final = 10.0
"""Seconds until every API server has surely a changed registration or guard: they watch both, and take about one."""
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
    found = _config_map(api, target)
    if found is None:
        raise ConfigError(
            f"there is no ConfigMap {target.namespace}/{names.REGISTRATION_CONFIG_MAP}, whose key {WEBHOOKS} lists the "
            "webhooks; the chart and manifests/certs make it"
        )
    webhooks = _webhooks(found, WEBHOOKS, target, service)
    await_ready(api, target, service, wait, say)
    if registration.switching(_registered(api, target)):
        say(
            f"Waits {_SETTLED:.0f} s, until every API server has the guard of the namespaces that are judged from now on"
        )
        time.sleep(_SETTLED)
    _write(api, target, webhooks, WEBHOOKS, say)


def switch(api: Api, target: Target, service: str, namespaces: str, say: Callable[[str], None]) -> None:
    """Before guards change between opt-in and opt-out: have an active registration go with the guards of both.

    Afterwards guards may change at any time, and ``activate`` ends it.

    :param namespaces: how it shall be, ``opt-in`` or ``opt-out``
    :raises ConfigError: the ConfigMap's content is unusable
    """
    found = _config_map(api, target)
    before = ((found or {}).get("data") or {}).get(_NAMESPACES)
    if found is None or before in (None, namespaces) or not (_registered(api, target) or {}).get("webhooks"):
        return
    _write(api, target, _webhooks(found, _SWITCHING, target, service), _SWITCHING, say)
    say(f"From {before} to {namespaces}: waits {_SETTLED:.0f} s, until every API server has the registration of both")
    time.sleep(_SETTLED)


def _write(api: Api, target: Target, webhooks: list[Json], key: str, say: Callable[[str], None]) -> None:
    for _ in range(_TRIES):
        bundle = _bundle(api, target)
        found = _registered(api, target)
        if found is None:
            raise ConfigError(
                f"there is no MutatingWebhookConfiguration {target.registration}; the chart and the manifests make it, "
                "with an empty list of webhooks"
            )
        body = {**found, "kind": "MutatingWebhookConfiguration", "webhooks": objects.with_bundle(webhooks, bundle)}
        try:
            written = _put(api, target, body)
        except Conflict:
            continue
        except ApiError as error:
            if error.status != 422:
                raise
            raise ConfigError(f"{_where(target, key)}: the API server refuses it: {error.message}") from None
        _say(found, written, say)
        return
    raise ConfigError(f"others change MutatingWebhookConfiguration {target.registration} all the time; try again")


def _put(api: Api, target: Target, body: Json) -> Json:
    """Replace the registration, and own none of its fields afterwards."""
    written = put(api, target, body)
    left = objects.disowned({**written, "kind": body["kind"]})
    return written if left is None else put(api, target, left.body)


def _say(found: Json, written: Json, say: Callable[[str], None]) -> None:
    name = objects.named({**written, "kind": "MutatingWebhookConfiguration"})
    count = len(written["webhooks"])
    same = found["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]
    words = "there already" if same else "active now" if not found.get("webhooks") else "changed as the ConfigMap says"
    say(f"{name}: {count} webhook{'s' if count > 1 else ''}, {words}")


def _registered(api: Api, target: Target) -> Json | None:
    return api.find(f"{MUTATING}/{target.registration}", _SECONDS)


def _config_map(api: Api, target: Target) -> Json | None:
    return api.find(target.config_map(names.REGISTRATION_CONFIG_MAP), _SECONDS)


def _webhooks(found: Json, key: str, target: Target, service: str) -> list[Json]:
    text = (found.get("data") or {}).get(key) or ""
    return registration.webhooks_of(text, _where(target, key), service, target.namespace)


def _where(target: Target, key: str) -> str:
    return f"ConfigMap {target.namespace}/{names.REGISTRATION_CONFIG_MAP}, {key}"


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
