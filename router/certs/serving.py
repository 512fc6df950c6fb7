"""Decides the next write for the webhook's CA and server certificate, with the rules of ``rotation``. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from router import names
from router.certs import checking, issuing, objects
from router.certs.issuing import Pair
from router.certs.objects import Json, Objects, Write
from router.certs.rotation import Clock, Outcome, Rules, Wait, due, lasted
from router.errors import ConfigError

_DAY: Final = timedelta(days=1)
_TLS: Final = "kubernetes.io/tls"


@dataclass(frozen=True, slots=True)
class Authority:
    """The Secret of the CA: the CA in force, the next one while it is replaced, and older ones that are still trusted."""

    found: Json
    current: Pair
    next: Pair | None
    old: tuple[bytes, ...]

    @property
    def target(self) -> Pair:
        """The CA that shall issue."""
        return self.next or self.current

    @property
    def trusted(self) -> tuple[bytes, ...]:
        """All CAs that belong into bundles, PEM each."""
        newer = (self.next.public,) if self.next else ()
        return tuple(dict.fromkeys((self.current.public, *newer, *self.old)))

    @property
    def bundle(self) -> bytes:
        """All of them in one text."""
        return b"".join(self.trusted)


def next_write(found: Objects, rules: Rules, clock: Clock) -> Outcome:
    """The next write, or when to look again.

    :raises ConfigError: a Secret holds something else than what belongs there
    """
    if found.authority is None:
        return _first_authority(found, rules, clock)
    authority = _authority(found.authority)
    if found.tls is None:
        return _first_server(authority, rules, clock)
    return (
        _adopted(found, found.tls, authority)
        or _joined(found, found.tls, authority)
        or _observed(found.tls, authority, clock)
        or _next_authority(authority, rules, clock)
        or _issued(found.tls, authority, rules, clock)
        or _left(found.tls, authority, rules, clock)
        or _nothing(found.tls, authority)
    )


def _first_authority(found: Objects, rules: Rules, clock: Clock) -> Write:
    made = issuing.make_ca(clock.ended, rules.lives.authority / _DAY)
    data = {objects.CA_CERTIFICATE: made.public, objects.CA_KEY: made.private}
    old = _bundled(found) if found.tls is not None else ()
    words = "made a CA"
    if old:
        data[objects.OLD_CERTIFICATES] = b"".join(old)
        words = "made a CA; the one in force until now stays trusted until its certificate is replaced"
    return Write(objects.secret(names.WEBHOOK_CA, rules.namespace, data), words)


def _bundled(found: Objects) -> tuple[bytes, ...]:
    """The CAs that are trusted now, though there is no Secret of ours with them: made by hand, or the Secret was lost."""
    texts = [bundle for one in found.registrations for bundle in objects.bundles_of(one)]
    if found.tls is not None:
        texts.append(objects.value_of(found.tls, objects.CA_CERTIFICATE))
    return tuple(dict.fromkeys(one for text in texts if text.strip() for one in _apart(text, "a caBundle")))


def _apart(text: bytes, source: str) -> tuple[bytes, ...]:
    return tuple(one.public_bytes(Encoding.PEM) for one in checking.certificates_of(text, source))


def _first_server(authority: Authority, rules: Rules, clock: Clock) -> Write:
    """The CA in force issues it: it is in the bundles, or there are none yet."""
    data = _server(authority.current, authority, rules, clock)
    return Write(objects.secret(names.WEBHOOK_TLS, rules.namespace, data, _TLS), "made a server certificate")


def _server(by: Pair, authority: Authority, rules: Rules, clock: Clock) -> dict[str, bytes]:
    left = checking.certificates_of(by.public, names.WEBHOOK_CA)[0].not_valid_after_utc - clock.ended
    pair = issuing.make_server_certificate(by, rules.host_names, clock.ended, min(rules.lives.server, left) / _DAY)
    return {
        objects.CERTIFICATE: pair.public,
        objects.KEY: pair.private,
        objects.CA_CERTIFICATE: authority.bundle,
    }


def _adopted(found: Objects, tls: Json, authority: Authority) -> Write | None:
    """Where somebody else made the certificate, what is trusted now stays trusted until it is replaced."""
    try:
        certificate = checking.certificates_of(objects.value_of(tls, objects.CERTIFICATE), names.WEBHOOK_TLS)[0]
    except ConfigError:
        return None
    theirs = [one for one in _bundled(found) if one not in authority.trusted]
    if not theirs or any(_by(certificate, one) for one in authority.trusted):
        return None
    body = objects.with_data(authority.found, {objects.OLD_CERTIFICATES: b"".join((*authority.old, *theirs))})
    return Write(body, "the CA in force until now stays trusted until its certificate is replaced")


def _joined(found: Objects, tls: Json, authority: Authority) -> Write | None:
    """Every bundle holds all CAs that are trusted, and no other. A registration stays whose it was."""
    for one in found.registrations:
        if any(bundle != authority.bundle for bundle in objects.bundles_of(one)):
            body = {**one, "webhooks": objects.with_bundle(one["webhooks"], authority.bundle)}
            return Write(body, f"caBundle set to {_count(authority)}")
        if left := objects.disowned(one):
            return left
    if objects.value_of(tls, objects.CA_CERTIFICATE) != authority.bundle:
        body = objects.with_data(tls, {objects.CA_CERTIFICATE: authority.bundle})
        return Write(body, f"{objects.CA_CERTIFICATE} set to {_count(authority)}")
    return None


def _count(authority: Authority) -> str:
    count = len(authority.trusted)
    return "the CA" if count == 1 else f"{count} CAs"


def _observed(tls: Json, authority: Authority, clock: Clock) -> Write | None:
    """Note which bundle and which server certificate are in force, and since when."""
    body = authority.found
    prints = {
        names.SEEN_BUNDLE: objects.fingerprint(*authority.trusted),
        names.SEEN_SERVED: objects.fingerprint(objects.value_of(tls, objects.CERTIFICATE)),
    }
    unseen = [key for key in prints if objects.seen_since(body, key, prints[key], clock.ended) is None]
    for key in unseen:
        body = objects.with_annotation(body, key, objects.seen(prints[key], clock.ended))
    return Write(body, "noted which CAs are trusted and which certificate is served") if unseen else None


def _issued(tls: Json, authority: Authority, rules: Rules, clock: Clock) -> Outcome | None:
    """The server certificate is of the CA that shall issue, has all names, and is in the first part of its life."""
    reason = _unfit(tls, authority, rules, clock)
    if not reason:
        return None
    since = objects.seen_since(authority.found, names.SEEN_BUNDLE, objects.fingerprint(*authority.trusted), clock.ended)
    words = "until every API server trusts the CA that issues the next server certificate"
    if since is not None and (wait := lasted(since, rules.bounds.bundle, clock, words)):
        return wait
    data = _server(authority.target, authority, rules, clock)
    return Write(objects.with_data(tls, data), f"made a server certificate, as the one before {reason}")


def _unfit(tls: Json, authority: Authority, rules: Rules, clock: Clock) -> str:
    """Why the server certificate needs a successor; empty if it needs none."""
    try:
        certificate = checking.certificates_of(objects.value_of(tls, objects.CERTIFICATE), names.WEBHOOK_TLS)[0]
        key = checking.private_key_of(objects.value_of(tls, objects.KEY), names.WEBHOOK_TLS)
    except ConfigError:
        return "could not be read"
    known = checking.host_names_of(certificate)
    missing = [name for name in rules.host_names if not checking.covers(known, name)]
    if not checking.key_fits(certificate, key):
        return "had another key"
    if missing:
        return f"was not for {', '.join(missing)}"
    if not _by(certificate, authority.target.public):
        return "was of an older CA"
    if server_due(certificate) <= clock.ended:
        return f"ends on {certificate.not_valid_after_utc:%Y-%m-%d}"
    return ""


def _by(certificate: x509.Certificate, authority: bytes) -> bool:
    """Whether a CA, in PEM, issued the certificate."""
    try:
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def server_due(certificate: x509.Certificate) -> datetime:
    """When a certificate's successor is made."""
    return due(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def _left(tls: Json, authority: Authority, rules: Rules, clock: Clock) -> Outcome | None:
    """Only the CA of the server certificate stays, once every replica serves that certificate."""
    if authority.next is None and not authority.old:
        return None
    served = objects.fingerprint(objects.value_of(tls, objects.CERTIFICATE))
    since = objects.seen_since(authority.found, names.SEEN_SERVED, served, clock.ended)
    words = "until every replica serves the new certificate; then the old CA is no longer trusted"
    if since is not None and (wait := lasted(since, rules.bounds.served, clock, words)):
        return wait
    data: dict[str, bytes | None] = {
        objects.CA_CERTIFICATE: authority.target.public,
        objects.CA_KEY: authority.target.private,
        objects.NEXT_CERTIFICATE: None,
        objects.NEXT_KEY: None,
        objects.OLD_CERTIFICATES: None,
    }
    return Write(objects.with_data(authority.found, data), "the old CA is no longer trusted")


def _next_authority(authority: Authority, rules: Rules, clock: Clock) -> Write | None:
    """The CA has a successor in time. One that has ended, as after a long outage, is of no use, and is replaced too."""
    certificate = checking.certificates_of(authority.target.public, names.WEBHOOK_CA)[0]
    ends = certificate.not_valid_after_utc
    under_way = authority.next is not None or bool(authority.old)
    if clock.ended < (ends if under_way else server_due(certificate)):
        return None
    made = issuing.make_ca(clock.ended, rules.lives.authority / _DAY)
    data = {objects.NEXT_CERTIFICATE: made.public, objects.NEXT_KEY: made.private}
    return Write(
        objects.with_data(authority.found, data), f"made the next CA, as the one before ends on {ends:%Y-%m-%d}"
    )


def _nothing(tls: Json, authority: Authority) -> Wait:
    texts = (authority.current.public, objects.value_of(tls, objects.CERTIFICATE))
    first = min(server_due(checking.certificates_of(text, "a certificate")[0]) for text in texts)
    return Wait(first, "for two thirds of a certificate's life")


def _authority(found: Json) -> Authority:
    current = _pair(found, objects.CA_CERTIFICATE, objects.CA_KEY)
    has_next = bool(objects.value_of(found, objects.NEXT_CERTIFICATE))
    old = objects.value_of(found, objects.OLD_CERTIFICATES)
    return Authority(
        found,
        current,
        _pair(found, objects.NEXT_CERTIFICATE, objects.NEXT_KEY) if has_next else None,
        _apart(old, f"Secret {names.WEBHOOK_CA}: {objects.OLD_CERTIFICATES}") if old.strip() else (),
    )


def _pair(found: Json, certificate: str, key: str) -> Pair:
    source = f"Secret {names.WEBHOOK_CA}"
    pair = Pair(objects.value_of(found, certificate), objects.value_of(found, key))
    public = checking.certificates_of(pair.public, f"{source}: {certificate}")
    private = checking.private_key_of(pair.private, f"{source}: {key}")
    if len(public) != 1 or not checking.key_fits(public[0], private):
        raise ConfigError(f"{source}: {certificate} and {key} do not belong together; delete it, and it is made anew")
    return pair
