"""Keeps the webhook's certificates and keys in a cluster: ``certs ensure``.

Shell (the API, the clock). ``serving`` and ``signingkeys`` decide; here objects are read in the order that ``rotation``
asks for, and one write is made at a time. Who loses a race reads again, and finds what the winner made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from router import names
from router.certs import objects, serving, signingkeys
from router.certs.objects import Json, Objects, Write
from router.certs.rotation import Clock, Outcome, Rules, Wait
from router.errors import ApiError, ConfigError, Conflict, NotFound
from router.kube.client import Api

REGISTRATIONS: Final = "/apis/admissionregistration.k8s.io/v1"
MUTATING: Final = f"{REGISTRATIONS}/mutatingwebhookconfigurations"
_VALIDATING: Final = f"{REGISTRATIONS}/validatingwebhookconfigurations"
_SECONDS: Final = 10.0
_MOST: Final = 100
"""Writes and lost races of one run: a first run makes a dozen writes."""
_PATHS: Final = {
    "Secret": "secrets",
    "ConfigMap": "configmaps",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}


class Foreign(StrEnum):
    """What to do where cert-manager keeps the certificate: leave it alone, or take it over once its Certificate is gone."""

    REFUSE = "refuse"
    LEAVE = "leave"
    TAKE_OVER = "take-over"


@dataclass(frozen=True, slots=True)
class Target:
    """Whose certificates are kept.

    :param registration: the name of the MutatingWebhookConfiguration
    """

    rules: Rules
    registration: str = names.REGISTRATION

    @property
    def namespace(self) -> str:
        """Where the Secrets are."""
        return self.rules.namespace

    def secret(self, name: str) -> str:
        """The path of a Secret."""
        return f"/api/v1/namespaces/{self.namespace}/secrets/{name}"

    def config_map(self, name: str) -> str:
        """The path of a ConfigMap."""
        return f"/api/v1/namespaces/{self.namespace}/configmaps/{name}"


def host_names(service: str, namespace: str) -> tuple[str, ...]:
    """The names of a Service. The API server calls the first; the others are the same Service for everybody else."""
    return f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", f"{service}.{namespace}"


def utc_now() -> datetime:
    """The time."""
    return datetime.now(UTC)


def ensure(
    api: Api,
    target: Target,
    say: Callable[[str], None],
    *,
    foreign: Foreign = Foreign.REFUSE,
    clock: Callable[[], datetime] = utc_now,
) -> tuple[Wait, ...]:
    """Write what is due now, one object after the other; returns what a later run has to do.

    Safe to repeat, to interrupt, and to run twice at once.

    :param say: gets a sentence for each write
    :param foreign: what to do where cert-manager keeps the certificate
    :raises ConfigError: an object holds what does not belong there, or cert-manager keeps it
    :raises ApiError: the API server refuses, or does not answer
    """
    for _ in range(_MOST):
        found, moment = look(api, target, clock)
        outcomes = _outcomes(found, target.rules, moment, foreign)
        write = next((one for one in outcomes if isinstance(one, Write)), None)
        if write is None:
            return tuple(one for one in outcomes if isinstance(one, Wait))
        try:
            put(api, target, write.body)
        except (Conflict, NotFound):  # another run was quicker, or somebody deleted it
            say(f"{write.named}: changed by another at this moment; looked at again")
        else:
            say(f"{write.named}: {write.words}")
    raise ConfigError(f"others change the same Secrets all the time; given up after {_MOST} tries")


def _outcomes(found: Objects, rules: Rules, clock: Clock, foreign: Foreign) -> tuple[Outcome | None, ...]:
    theirs = objects.foreign(found)
    if theirs is None:
        return outcomes_of(found, rules, clock)
    if foreign is Foreign.LEAVE:
        return (signingkeys.next_write(found, rules, clock),)
    if foreign is Foreign.REFUSE:
        objects.refuse_foreign(found)
    return (theirs,)


def outcomes_of(found: Objects, rules: Rules, clock: Clock) -> tuple[Outcome | None, Outcome]:
    """What is next for the signing key, and for certificates. The key comes first: a webhook starts only when the
    certificate is there too, so it never signs with an unpublished key.
    """
    return signingkeys.next_write(found, rules, clock), serving.next_write(found, rules, clock)


def look(api: Api, target: Target, clock: Callable[[], datetime] = utc_now) -> tuple[Objects, Clock]:
    """All objects, each before those that it depends on, and the time before and after."""
    began = clock()
    registrations = [_registration(api, path, target) for path in (MUTATING, _VALIDATING)]
    tls = _typed(api, target.secret(names.WEBHOOK_TLS), "Secret")
    authority = _typed(api, target.secret(names.WEBHOOK_CA), "Secret")
    public = _typed(api, target.config_map(names.PUBLIC_KEYS_CONFIG_MAP), "ConfigMap")
    signing = _typed(api, target.secret(names.WEBHOOK_SIGNING), "Secret")
    there = tuple(one for one in registrations if one is not None)
    found = Objects(there, tls, authority, public, signing)
    if signingkeys.older(found):
        found = Objects(there, tls, authority, public, signing, _used(api, signingkeys.published(found)))
    return found, Clock(began, clock())


def _registration(api: Api, path: str, target: Target) -> Json | None:
    kind = "MutatingWebhookConfiguration" if path == MUTATING else "ValidatingWebhookConfiguration"
    return _typed(api, f"{path}/{target.registration}", kind)


def _typed(api: Api, path: str, kind: str) -> Json | None:
    found = api.find(path, _SECONDS)
    return None if found is None else {**found, "kind": kind}


def _used(api: Api, keys: signingkeys.Keys) -> frozenset[str] | None:
    """The ids of keys in use; None if listing Jobs or Pods is forbidden."""
    label = f"{names.KEY_TARGET}={names.TARGET_HPC}"
    try:
        jobs = [one for page, _ in api.pages("/apis/batch/v1/jobs", labelSelector=label) for one in page]
        pods = [one for page, _ in api.pages("/api/v1/pods", labelSelector=label) for one in page]
    except ApiError as error:
        if error.status in (403, 410):  # too old a page: the next run lists again
            return None
        raise
    return signingkeys.used_by(jobs, pods, keys)


def put(api: Api, target: Target, body: Json) -> Json:
    """Create an object, or replace the version of it that was read.

    :raises Conflict: it was made, or has changed, meanwhile
    """
    kind, metadata = body["kind"], body["metadata"]
    within = f"/api/v1/namespaces/{target.namespace}" if kind in ("Secret", "ConfigMap") else REGISTRATIONS
    collection = f"{within}/{_PATHS[kind]}"
    if "resourceVersion" not in metadata:
        return api.create(collection, body, _SECONDS)
    return api.replace(f"{collection}/{metadata['name']}", body, _SECONDS)
