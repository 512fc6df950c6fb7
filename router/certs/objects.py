"""Reads and makes the Secrets, the ConfigMap and the registrations that hold certificates and keys.

Pure: takes and returns objects as the API has them. Annotations hold fingerprints and times, never a key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from router.errors import ConfigError

Json = dict[str, Any]

CA_CERTIFICATE: Final = "ca.crt"
CA_KEY: Final = "ca.key"
NEXT_CERTIFICATE: Final = "next.crt"
NEXT_KEY: Final = "next.key"
OLD_CERTIFICATES: Final = "old.crt"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
SIGNING_KEY: Final = "signing.key"
PUBLIC_KEYS: Final = "signing.pub"

_LABELS: Final = {"app.kubernetes.io/part-of": "batchgate", "app.kubernetes.io/managed-by": "batchgate-certs"}
_CERT_MANAGER: Final = "cert-manager.io/"
_CERT_MANAGERS_LABEL: Final = "controller.cert-manager.io/"
_MANAGER: Final = "batchgate"
"""As the API server notes who wrote a field: the first part of our User-Agent."""
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class Objects:
    """What the cluster has; None or empty for what is missing.

    :param registrations: webhook configurations of our name
    :param used: the ids of the keys that unfinished Jobs and Pods are signed with; None if unknown
    """

    registrations: tuple[Json, ...] = ()
    tls: Json | None = None
    authority: Json | None = None
    public_keys: Json | None = None
    signing: Json | None = None
    used: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """One object to create, or to replace if it has a resourceVersion; ``words`` says why."""

    body: Json
    words: str

    @property
    def named(self) -> str:
        """Kind and name."""
        return named(self.body)


def named(found: Mapping[str, Any]) -> str:
    """Kind and name of an object."""
    return f"{found['kind']} {found['metadata']['name']}"


def secret(name: str, namespace: str, data: Mapping[str, bytes], kind: str = "Opaque") -> Json:
    """A new Secret."""
    metadata = {"name": name, "namespace": namespace, "labels": dict(_LABELS)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": _encoded(data)}


def config_map(name: str, namespace: str, data: Mapping[str, str]) -> Json:
    """A new ConfigMap."""
    metadata = {"name": name, "namespace": namespace, "labels": dict(_LABELS)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def with_data(found: Json, data: Mapping[str, bytes | None]) -> Json:
    """A Secret with these values changed; None takes a value away."""
    kept = {key: value for key, value in (found.get("data") or {}).items() if key not in data}
    return {**found, "data": {**kept, **_encoded({key: value for key, value in data.items() if value is not None})}}


def with_annotation(found: Json, key: str, value: str) -> Json:
    """An object with one annotation changed."""
    metadata = found["metadata"]
    return {**found, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), key: value}}}


def value_of(found: Mapping[str, Any], key: str) -> bytes:
    """A value of a Secret; empty if it is missing.

    :raises ConfigError: no base64
    """
    try:
        return base64.b64decode((found.get("data") or {}).get(key) or "", validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"{named(found)}: {key} is no base64; delete the Secret, and it is made anew") from None


def bundles_of(registration: Mapping[str, Any]) -> tuple[bytes, ...]:
    """The CA bundle of each webhook of a registration, PEM."""
    found = [one.get("clientConfig", {}).get("caBundle") or "" for one in registration.get("webhooks") or ()]
    try:
        return tuple(base64.b64decode(one) for one in found)
    except (binascii.Error, ValueError):
        return tuple(b"" for _ in found)


def with_bundle(webhooks: Iterable[Mapping[str, Any]], bundle: bytes) -> list[Json]:
    """Webhooks with this CA bundle."""
    text = base64.b64encode(bundle).decode()
    return [{**one, "clientConfig": {**(one.get("clientConfig") or {}), "caBundle": text}} for one in webhooks]


def disowned(registration: Json) -> Write | None:
    """A registration of which we own no field; None if that is so already.

    Helm applies on the server's side. In modes other than ``builtin`` the chart says how the registration shall be, and a
    change of a field that is ours would end in a conflict.
    """
    metadata = registration["metadata"]
    managers = metadata.get("managedFields") or []
    others = [one for one in managers if one.get("manager") != _MANAGER]
    if len(others) == len(managers):
        return None
    # An empty list would change nothing; one empty entry says that no field is anybody's.
    body = {**registration, "metadata": {**metadata, "managedFields": others or [{}]}}
    return Write(body, "its fields are left to whoever applies it")


def fingerprint(*values: bytes) -> str:
    """A short name of public values; the order does not matter."""
    return hashlib.sha256(b"\n".join(sorted(values))).hexdigest()[:16]


def seen(print_: str, moment: datetime) -> str:
    """An annotation that says since when a value is known to be in force."""
    return f"{print_} {moment.astimezone(UTC).strftime(_TIME)}"


def seen_since(found: Mapping[str, Any], key: str, print_: str, now: datetime) -> datetime | None:
    """Since when a value is known to be in force; None if that is unknown, or a wrong clock wrote a time to come."""
    written, _, stamp = str((found["metadata"].get("annotations") or {}).get(key) or "").partition(" ")
    moment = time_of(stamp)
    return moment if written == print_ and moment is not None and moment <= now else None


def time_of(stamp: str) -> datetime | None:
    """A time as annotations and ``creationTimestamp`` have it; None for anything else."""
    try:
        return datetime.strptime(stamp, _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


def foreign(found: Objects) -> Write | None:
    """The first object that cert-manager keeps, if any, without the marks of cert-manager."""
    for one in (found.tls, *found.registrations):
        annotations = (one or {}).get("metadata", {}).get("annotations") or {}
        if one is None or not any(key.startswith(_CERT_MANAGER) for key in annotations):
            continue
        metadata = one["metadata"]
        labels = metadata.get("labels") or {}
        kept = {
            "annotations": {key: value for key, value in annotations.items() if not key.startswith(_CERT_MANAGER)},
            "labels": {key: value for key, value in labels.items() if not key.startswith(_CERT_MANAGERS_LABEL)},
        }
        return Write({**one, "metadata": {**metadata, **kept}}, "taken over from cert-manager")
    return None


def refuse_foreign(found: Objects) -> None:
    """Raise ConfigError if cert-manager keeps the certificate: two that rotate it would undo each other's work."""
    theirs = foreign(found)
    if theirs is not None:
        raise ConfigError(
            f"{theirs.named} has annotations of cert-manager, which keeps it. Run no `certs ensure` beside it; or delete "
            "its Certificate and run `certs ensure --cert-manager=take-over` (chart: certificates.takeOver: true)"
        )


def _encoded(data: Mapping[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in data.items()}
