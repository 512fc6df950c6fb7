"""Tells whether a stored Job is as the webhook signed it.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from router import names
from router.placement import signing


def signed_claims(job: Mapping[str, Any], keys: Mapping[str, Ed25519PublicKey]) -> signing.Claims:
    """What was signed for a stored Job, after checking that the Job is as it was signed.

    Results are left out of the comparison: they are hints, which may have changed since without effect.

    :param keys: the public keys in force by their ids
    :raises SignatureError: the signature is missing, is of no key in force, or is for another Job
    """
    metadata, template = _mapping(job, "metadata"), _mapping(job, "spec", "template")
    annotations, labels = _mapping(template, "metadata", "annotations"), _mapping(template, "metadata", "labels")
    claims = signing.read(signing.text_under(names.KEY_SIGNATURE, annotations), keys)
    found = signing.claims_of(
        metadata,
        annotations,
        template.get("spec"),
        namespace=signing.text_under("namespace", metadata),
        site=signing.text_under(names.KEY_SITE, labels),
        queue=signing.text_under(names.KEY_QUEUE, labels),
        signed=claims,
    )
    signing.compare(claims, found)
    return claims


def _mapping(value: object, *path: str) -> Mapping[str, Any]:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}
