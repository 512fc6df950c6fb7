"""Signs claims about a Job for the webhook, and verifies the signature for the agent.

Pure: takes keys and texts, returns texts and claims. Of Kubernetes it knows only where a stored Job carries the signed
values.

A signature is ``v4.<key id>.<claims>.<Ed25519 signature>``. The claims are JSON; they and the signature are in
base64url without padding. Everything before the last dot is signed, so version and key cannot be exchanged. The claims
travel with the signature, so a refusal can say what differs. Format ``v3`` lacks the digest of the
surroundings, and ``v2`` that of groups; each is written where there is none. Format ``v1`` lacked the template's digest: it still tells the owner of a running Pod, but is not
enough to submit a job.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from router import names
from router.errors import ConfigError, SignatureError
from router.pod import template as podtemplate
from router.values import unchanging

VERSION: Final = "v4"
_WITHOUT_SURROUNDINGS: Final = "v3"
_WITHOUT_GROUPS: Final = "v2"
_EARLIEST: Final = "v1"
TOLERANCE: Final = 300
"""Most seconds between the issue of a signature without a Job's uid and the Job's creation."""

_KEY_ID_LENGTH: Final = 16
_LONGEST: Final = 64 * 1024
# The code for PEM is imported only where it is used: it loads every kind of key, and without signing a program would
# wait longer for it than for its policy.
_PEM: Final = re.compile(rb"-----BEGIN [^-]+-----.*?-----END [^-]+-----", re.DOTALL)


class UnknownFormat(SignatureError):
    """The signature has a format of another release: webhook and agents are not upgraded at the same moment."""


@unchanging
class Claims:
    """What is signed: who may run which script, on which queue.

    :param issued_at: seconds since 1970. On the agent's side: the Job's ``creationTimestamp``
    :param account: the HPC identity, as ``identity_text`` writes it
    :param results: the paths of the results to collect
    :param script_sha256: of the script in UTF-8, in hex (``script_digest``)
    :param template_sha256: digest of the Pod template (``podtemplate.digest``); empty in format ``v1``
    :param job_uid: empty if unknown, as at a Job's creation
    :param groups_sha256: of the annotation with the requester's groups (``groups_digest``); empty without one
    :param surroundings_sha256: of the Pod's hooks, probes and names (``podtemplate.surroundings``); empty without any
    """

    issued_at: int
    namespace: str
    requester: str
    site: str
    queue: str
    account: str
    results: tuple[str, ...]
    script_sha256: str
    template_sha256: str
    job_uid: str = ""
    groups_sha256: str = ""
    surroundings_sha256: str = ""


_CLAIMS: Final = tuple(one.name for one in fields(Claims))
_LACKS: Final = {
    _WITHOUT_SURROUNDINGS: ("surroundings_sha256",),
    _WITHOUT_GROUPS: ("groups_sha256", "surroundings_sha256"),
}
"""The claims that formats before this one lack."""
_COMPARED_APART: Final = frozenset({"issued_at", "job_uid", "template_sha256", "surroundings_sha256"})
_JSON: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def script_digest(text: str) -> str:
    """SHA-256 of a script in UTF-8, in hex. Raises UnicodeEncodeError if it holds a lone surrogate."""
    return hashlib.sha256(text.encode()).hexdigest()


def groups_text(groups: Iterable[str]) -> str:
    """Groups as the annotation has them, a line each in the API server's order.

    :raises ValueError: a group's name holds a line break
    """
    found = tuple(groups)
    if broken := next((one for one in found if "\n" in one), None):
        raise ValueError(f"the name of group {broken!r} holds a line break")
    return "\n".join(found)


def groups_in(annotations: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The groups that annotations record, as ``groups_text`` wrote them; None if unknown."""
    text = annotations.get(names.KEY_GROUPS)
    if not isinstance(text, str):
        return None
    return tuple(text.split("\n")) if text else ()


def groups_digest(annotations: Mapping[str, Any]) -> str:
    """SHA-256 of the annotation with the groups, in hex; empty without it. Raises UnicodeEncodeError."""
    text = annotations.get(names.KEY_GROUPS)
    return script_digest(text) if isinstance(text, str) else ""


def text_under(key: str, values: Mapping[str, Any]) -> str:
    """The text under a key; empty if the value is missing or not a text."""
    value = values.get(key)
    return value if isinstance(value, str) else ""


def claims_of(job: Mapping[str, Any], namespace: str, signed: Claims) -> Claims:
    """The claims that a stored Job would need now, to compare them with the signed ones (``compare``).

    The results are taken from the signed claims: they are hints, which may have changed since without effect. Missing
    values are empty, and an invalid time of creation is 0.

    :raises SignatureError: if its script holds a lone surrogate
    """
    metadata, template = _within(job, "metadata"), _within(job, "spec", "template")
    annotations, labels = _within(template, "metadata", "annotations"), _within(template, "metadata", "labels")
    spec = template.get("spec") or {}
    try:
        digest, groups = script_digest(text_under(names.KEY_SCRIPT, annotations)), groups_digest(annotations)
    except UnicodeEncodeError:
        raise SignatureError("its script or groups hold a lone surrogate, so Batchgate cannot have signed it") from None
    return Claims(
        issued_at=_seconds(text_under("creationTimestamp", metadata)),
        namespace=namespace,
        requester=text_under(names.KEY_REQUESTER, annotations),
        site=text_under(names.KEY_SITE, labels),
        queue=text_under(names.KEY_QUEUE, labels),
        account=text_under(names.KEY_ACCOUNT, annotations),
        results=signed.results,
        script_sha256=digest,
        template_sha256=podtemplate.digest(spec),
        job_uid=text_under("uid", metadata),
        groups_sha256=groups,
        surroundings_sha256=podtemplate.surroundings(spec, readiness=bool(signed.surroundings_sha256)),
    )


def signed_claims(job: Mapping[str, Any], namespace: str, keys: Mapping[str, Ed25519PublicKey]) -> Claims:
    """What was signed for a stored Job, after checking that the Job is as it was signed.

    :param keys: the public keys in force by their ids
    :raises SignatureError: the signature is missing, is of no key in force, or is for another Job
    """
    notes = _within(job, "spec", "template", "metadata", "annotations")
    signed = read(text_under(names.KEY_SIGNATURE, notes), keys)
    compare(signed, claims_of(job, namespace, signed))
    return signed


def _within(value: object, *path: str) -> Mapping[str, Any]:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _seconds(timestamp: str) -> int:
    """An RFC 3339 time in seconds since 1970; 0 for anything else."""
    try:
        return int(datetime.fromisoformat(timestamp).timestamp())
    except (ValueError, OverflowError):
        return 0


@lru_cache(maxsize=1024)
def identity_text(user: str, account: str | None, project: str | None) -> str:
    """The HPC identity as one unambiguous text: compact JSON of ``user``, ``account``, ``project``."""
    identity = {"user": user, "account": account, "project": project}
    return json.dumps({key: value for key, value in identity.items() if value is not None}, separators=(",", ":"))


def sign(claims: Claims, key: Ed25519PrivateKey) -> str:
    """The signature's text."""
    head = f"{_version(claims)}.{_id_of(key)}.{_encode(_canonical(claims))}"
    return f"{head}.{_encode(key.sign(head.encode()))}"


def verify(text: str, claims: Claims, keys: Mapping[str, Ed25519PublicKey]) -> Claims:
    """The signed claims, after checking that they are those of a Pod that is about to run.

    :param claims: as the Pod and its Job have them; ``issued_at`` is the Job's creationTimestamp
    :param keys: the public keys in force by their ids (``load_public``)
    :raises SignatureError: says what is missing or differs
    """
    signed = read(text, keys)
    compare(signed, claims)
    return signed


def read(text: str, keys: Mapping[str, Ed25519PublicKey]) -> Claims:
    """The claims of a signature by one of the keys. Raises SignatureError for any other signature."""
    version, key_id, payload, proof = _pieces(text)
    if version not in (VERSION, *_LACKS, _EARLIEST):
        raise UnknownFormat(f"the signature has format {version[:16]!r}, not {VERSION}: it is of another release")
    key = keys.get(key_id)
    if key is None:
        known = ", ".join(sorted(keys)) or "none"
        raise SignatureError(f"signed with key {key_id[:32]!r}, which is not among the keys in force ({known})")
    try:
        key.verify(_decode(proof), text.rpartition(".")[0].encode())
    except InvalidSignature:
        raise SignatureError(f"not signed by key {key_id}: the signature or its claims were altered") from None
    return _claims(_decode(payload), version)


def load_private(pem: bytes) -> Ed25519PrivateKey:
    """The signing key of a PEM file. Raises ConfigError if the file has none."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - see _PEM

    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError(f"holds no private key in PEM without a passphrase; {_ADVICE}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"the private key is not an Ed25519 key; {_ADVICE}")
    return key


@unchanging
class Signer:
    """The key that signs, and the other public keys in force by their ids: those of other replicas, and older ones."""

    key: Ed25519PrivateKey
    others: Mapping[str, Ed25519PublicKey]

    @property
    def believed(self) -> Mapping[str, Ed25519PublicKey]:
        """All public keys in force by their ids, the signing one's included."""
        return {**self.others, _id_of(self.key): self.key.public_key()}


def load_signer(pem: bytes) -> Signer:
    """The signing key of a PEM file, with the public keys that follow it. Raises ConfigError if the file has none."""
    blocks = _PEM.findall(pem)
    private = [one for one in blocks if b" PRIVATE KEY-----" in one]
    if len(private) > 1:
        raise ConfigError(f"holds {len(private)} private keys, of which one can sign; {_ADVICE}")
    key = load_private(private[0] if private else pem)
    public = [one for one in blocks if one not in private]
    others = load_public(b"\n".join(public)) if public else {}
    return Signer(key, {one: others[one] for one in others if one != _id_of(key)})


def load_public(pem: bytes) -> dict[str, Ed25519PublicKey]:
    """The keys of a PEM file by their ids; several while keys are rotated. Raises ConfigError for any other key."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - see _PEM

    keys = {}
    for block in _PEM.findall(pem):
        try:
            key = serialization.load_pem_public_key(block)
        except (ValueError, UnsupportedAlgorithm):
            raise ConfigError(f"holds no public key in PEM; {_ADVICE}") from None
        if not isinstance(key, Ed25519PublicKey):
            raise ConfigError(f"a public key is not an Ed25519 key; {_ADVICE}")
        keys[key_id(key)] = key
    if not keys:
        raise ConfigError(f"holds no public key in PEM; {_ADVICE}")
    return keys


def private_pem(key: Ed25519PrivateKey) -> bytes:
    """A signing key as PEM (PKCS #8), unencrypted: the mode of its file protects it."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - see _PEM

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public_pem(keys: Iterable[Ed25519PublicKey]) -> bytes:
    """Public keys as PEM, one after the other."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - see _PEM

    return b"".join(
        key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo) for key in keys
    )


def key_id(key: Ed25519PublicKey) -> str:
    """A key's id: the first 16 hex digits of the SHA-256 of its 32 bytes."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:_KEY_ID_LENGTH]


_ADVICE: Final = "make a pair with: batchgate certs create DIRECTORY --signing-key"


@lru_cache(maxsize=16)
def _id_of(key: Ed25519PrivateKey) -> str:
    return key_id(key.public_key())


def _version(claims: Claims) -> str:
    """The earliest format that holds all claims, as it is what most agents know."""
    if claims.surroundings_sha256:
        return VERSION
    return _WITHOUT_SURROUNDINGS if claims.groups_sha256 else _WITHOUT_GROUPS


def _canonical(claims: Claims) -> bytes:
    lacks = _LACKS.get(_version(claims), ())
    named = [name for name in _CLAIMS if name not in lacks]
    return _JSON.encode({name: getattr(claims, name) for name in named}).encode()


def _pieces(text: str) -> list[str]:
    pieces = text.split(".") if len(text) <= _LONGEST and text.isascii() else []
    if len(pieces) != 4:
        raise SignatureError("is not a signature of Batchgate (version.key.claims.signature)")
    return pieces


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if _encode(data) != text:  # also if spare bits are set: a signature has only one text
        raise SignatureError("is not a signature of Batchgate: its parts are not base64url")
    return data


def _claims(payload: bytes, version: str) -> Claims:
    """Claims whose signature was verified. If their keys differ, another release of Batchgate wrote them."""
    values: dict[str, Any] = json.loads(payload)
    if version == _EARLIEST:
        values = {"template_sha256": "", **values}
    values = {**dict.fromkeys(_LACKS.get(version, _LACKS[_WITHOUT_GROUPS]) if version != VERSION else (), ""), **values}
    if values.keys() != set(_CLAIMS):
        raise SignatureError("its claims are not those that this release knows")
    return Claims(**{**values, "results": tuple(values["results"])})


def compare(signed: Claims, found: Claims) -> None:
    """Raise SignatureError, which says what differs, if signed claims are not those of the Pod or Job with them."""
    if not signed.template_sha256:
        raise SignatureError("it was signed by an earlier release, which did not cover the Pod template; apply it anew")
    differing = [
        f"{name} is signed as {getattr(signed, name)!r} and found as {getattr(found, name)!r}"
        for name in _CLAIMS
        if name not in _COMPARED_APART and getattr(signed, name) != getattr(found, name)
    ]
    if signed.template_sha256 != found.template_sha256:
        differing.append("its Job's Pod template is not the one that was signed: something changed it after Batchgate")
    if signed.surroundings_sha256 != found.surroundings_sha256:
        differing.append("hooks, probes or names of its Job's Pod template are not those that were signed")
    if signed.job_uid:
        if signed.job_uid != found.job_uid:
            differing.append(f"job_uid is signed as {signed.job_uid!r} and found as {found.job_uid!r}")
    elif abs(signed.issued_at - found.issued_at) > TOLERANCE:
        away = abs(signed.issued_at - found.issued_at)
        differing.append(f"it was issued {away} s from the Job's creation, more than {TOLERANCE} s")
    if differing:
        raise SignatureError(f"the signature is not for this Pod: {'; '.join(differing)}")
