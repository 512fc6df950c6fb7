"""Decides the next write for the webhook's signing key and the public keys that agents trust. Pure.

``signing.key`` of the Secret holds the private key that signs and, after it, the other public keys in force: with these
the webhook believes what another replica signed. ``next.key`` is the private key that will sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from router import names
from router.certs import issuing, objects
from router.certs.objects import Json, Objects, Write
from router.certs.rotation import RENEWED_AT, Clock, Outcome, Rules, Wait, lasted
from router.errors import ConfigError, SignatureError
from router.placement import signing

Keys = Mapping[str, Ed25519PublicKey]


@dataclass(frozen=True, slots=True)
class Signing:
    """The Secret. ``others``: the public keys beside the signing one."""

    found: Json
    key: Ed25519PrivateKey
    next: Ed25519PrivateKey | None
    others: Keys

    @property
    def key_id(self) -> str:
        """The id of the key that signs."""
        return signing.key_id(self.key.public_key())

    @property
    def own(self) -> Keys:
        """The public keys of the private ones here."""
        keys = [self.key, *([self.next] if self.next else [])]
        return {signing.key_id(one.public_key()): one.public_key() for one in keys}


def next_write(found: Objects, rules: Rules, clock: Clock) -> Outcome | None:
    """The next write, or when to look again; None if the key stays.

    :raises ConfigError: the Secret or the ConfigMap holds something else than what belongs there
    """
    if found.signing is None:
        data = {objects.SIGNING_KEY: issuing.make_signing_keys().private}
        body = objects.secret(names.WEBHOOK_SIGNING, rules.namespace, data)
        return Write(objects.with_annotation(body, names.MADE_AT, objects.seen("key", clock.ended)), "made a key")
    here = _signing(found.signing)
    public = published(found)
    return (
        _published(found, here, public, rules)
        or _believed(here, public)
        or _observed(here, public, clock)
        or _promoted(here, public, rules, clock)
        or _dropped(found, here, public, rules, clock)
        or _next_key(here, rules, clock)
    )


def published(found: Objects) -> Keys:
    """The public keys that agents trust, by their ids."""
    text = ((found.public_keys or {}).get("data") or {}).get(objects.PUBLIC_KEYS) or ""
    if not text.strip():
        return {}
    try:
        return signing.load_public(text.encode())
    except ConfigError as error:
        where = f"ConfigMap {names.PUBLIC_KEYS_CONFIG_MAP}: {objects.PUBLIC_KEYS}"
        raise ConfigError(f"{where}: {error}") from None


def older(found: Objects) -> frozenset[str]:
    """The ids of published keys with which nothing is signed any more, or soon."""
    if found.signing is None:
        return frozenset()
    return frozenset(published(found)) - frozenset(_signing(found.signing).own)


def used_by(jobs: Iterable[Json], pods: Iterable[Json], keys: Keys) -> frozenset[str]:
    """The ids of the keys with which unfinished Jobs, and Pods on virtual nodes, are signed.

    Only what an agent takes counts; else anybody could have an old key trusted for ever. So the signature is verified with
    the key that it names. It must be for this namespace, and for a Job with this uid or of that time.

    :param keys: the public keys in force
    """
    found = set[str]()
    for one in jobs:
        template = (one.get("spec") or {}).get("template") or {}
        key_id, signed = _signed(template, keys)
        if signed is not None and not _ended(one) and _is_for(signed, one.get("metadata") or {}):
            found.add(key_id)
    for one in pods:
        key_id, signed = _signed(one, keys)
        place = str((one.get("spec") or {}).get("nodeName") or "")
        namespace = (one.get("metadata") or {}).get("namespace")
        if signed is not None and signed.namespace == namespace and place.endswith(names.NODE_SUFFIX):
            found.add(key_id)
    return frozenset(found)


def _signed(one: Json, keys: Keys) -> tuple[str, signing.Claims | None]:
    """The key's id and the claims of a Pod or template; None without a signature by one of the keys."""
    text = signing.text_under(names.KEY_SIGNATURE, (one.get("metadata") or {}).get("annotations") or {})
    try:
        claims = signing.read(text, keys)
    except SignatureError:
        return "", None
    return text.split(".")[1], claims


def _is_for(signed: signing.Claims, metadata: Json) -> bool:
    created = objects.time_of(str(metadata.get("creationTimestamp") or ""))
    seconds = created.timestamp() if created else 0.0
    fits = (
        signed.job_uid == metadata.get("uid")
        if signed.job_uid
        else (abs(signed.issued_at - seconds) <= signing.TOLERANCE)
    )
    return fits and signed.namespace == metadata.get("namespace")


def _ended(job: Json) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(one.get("type") in ("Complete", "Failed") and one.get("status") == "True" for one in conditions)


def _published(found: Objects, here: Signing, public: Keys, rules: Rules) -> Write | None:
    missing = here.own.keys() - public.keys()
    if found.public_keys is not None and not missing:
        return None
    data = {objects.PUBLIC_KEYS: _text({**public, **here.own})}
    words = f"public key {', '.join(sorted(missing))} joined"
    if found.public_keys is None:
        return Write(objects.config_map(names.PUBLIC_KEYS_CONFIG_MAP, rules.namespace, data), words)
    return Write({**found.public_keys, "data": {**(found.public_keys.get("data") or {}), **data}}, words)


def _believed(here: Signing, public: Keys) -> Write | None:
    """The webhook believes what agents believe."""
    others = {key_id: key for key_id, key in public.items() if key_id != here.key_id}
    if others.keys() == here.others.keys():
        return None
    body = objects.with_data(here.found, {objects.SIGNING_KEY: _file(here.key, others)})
    return Write(body, f"{len(others)} public keys beside the signing one" if others else "no other key is believed")


def _observed(here: Signing, public: Keys, clock: Clock) -> Write | None:
    """Note which keys agents trust and which one signs, and since when."""
    body = here.found
    prints = {names.SEEN_PUBLISHED: _print(public), names.SEEN_SIGNS: here.key_id}
    unseen = [key for key in prints if objects.seen_since(body, key, prints[key], clock.ended) is None]
    for key in unseen:
        body = objects.with_annotation(body, key, objects.seen(prints[key], clock.ended))
    return Write(body, "noted which keys are trusted and which one signs") if unseen else None


def _print(public: Keys) -> str:
    return objects.fingerprint(*(key_id.encode() for key_id in public))


def _promoted(here: Signing, public: Keys, rules: Rules, clock: Clock) -> Outcome | None:
    if here.next is None:
        return None
    since = objects.seen_since(here.found, names.SEEN_PUBLISHED, _print(public), clock.ended)
    words = "until every agent trusts the next key; then the webhook signs with it"
    if since is not None and (wait := lasted(since, rules.bounds.published, clock, words)):
        return wait
    key_id = signing.key_id(here.next.public_key())
    others = {one: key for one, key in public.items() if one != key_id}
    data = {objects.SIGNING_KEY: _file(here.next, others), objects.NEXT_KEY: None}
    body = objects.with_annotation(objects.with_data(here.found, data), names.MADE_AT, objects.seen("key", clock.ended))
    return Write(body, f"signs with key {key_id} from now on")


def _dropped(found: Objects, here: Signing, public: Keys, rules: Rules, clock: Clock) -> Outcome | None:
    """A key of former signatures stays trusted as long as something needs it, or as that is unknown."""
    old = older(found)
    if not old or found.public_keys is None:
        return None
    since = objects.seen_since(here.found, names.SEEN_SIGNS, here.key_id, clock.ended)
    if since is not None and (wait := lasted(since, rules.bounds.served, clock, "until every replica signs with it")):
        return wait
    needed = old if found.used is None else old & found.used
    if needed == old:
        who = "Jobs may not be listed to see" if found.used is None else "unfinished Jobs or Pods have its signature"
        return Wait(clock.ended + rules.bounds.served, f"key {', '.join(sorted(old))} stays trusted: {who}")
    kept = {key_id: key for key_id, key in public.items() if key_id not in old - needed}
    data = {**(found.public_keys.get("data") or {}), objects.PUBLIC_KEYS: _text(kept)}
    return Write({**found.public_keys, "data": data}, f"key {', '.join(sorted(old - needed))} is no longer trusted")


def _next_key(here: Signing, rules: Rules, clock: Clock) -> Outcome | None:
    if rules.lives.signing is None:
        return None
    made = _made_at(here.found) or clock.ended
    moment = made + rules.lives.signing * RENEWED_AT
    if clock.ended < moment:
        return Wait(moment, "for two thirds of the signing key's life")
    body = objects.with_data(here.found, {objects.NEXT_KEY: issuing.make_signing_keys().private})
    return Write(body, f"made the next key, as this one is of {made:%Y-%m-%d}")


def _made_at(found: Json) -> datetime | None:
    written = str((found["metadata"].get("annotations") or {}).get(names.MADE_AT) or "")
    return objects.time_of(written.partition(" ")[2]) or objects.time_of(
        str(found["metadata"].get("creationTimestamp") or "")
    )


def _signing(found: Json) -> Signing:
    text, following = objects.value_of(found, objects.SIGNING_KEY), objects.value_of(found, objects.NEXT_KEY)
    try:
        signer = signing.load_signer(text)
        return Signing(found, signer.key, signing.load_private(following) if following else None, signer.others)
    except ConfigError as error:
        raise ConfigError(f"Secret {names.WEBHOOK_SIGNING}: {error}; or delete it, and it is made anew") from None


def _file(key: Ed25519PrivateKey, others: Keys) -> bytes:
    return signing.private_pem(key) + _text(others).encode()


def _text(keys: Keys) -> str:
    return signing.public_pem(keys[key_id] for key_id in sorted(keys)).decode()
