"""``batchgate certs create | show``.

Shell: reads options, files and the clock, prints, and sets the exit code. ``issuing`` makes certificates, ``checking``
finds their problems, ``router.placement.signing`` knows signatures.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
from cryptography import x509

from router.certs import checking, files, issuing
from router.errors import ConfigError
from router.placement import signing

CA_CERTIFICATE: Final = "ca.crt"
CA_KEY: Final = "ca.key"
# The file names of Kubernetes' TLS Secrets, so that a mounted Secret and a directory made here look the same.
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
SIGNING_KEY: Final = "signing.key"
VERIFYING_KEY: Final = "signing.pub"

DIRECTORY = click.Path(path_type=Path)


@click.group()
def certs() -> None:
    """Make and show certificates and signing keys.

    \b
    Example:  batchgate certs create certs --host-name batchgate.example.org --signing-key
    """


@certs.command()
@click.argument("directory", type=DIRECTORY)
@click.option("--host-name", "host_names", multiple=True, help="DNS name or IP address of the webhook; repeatable.")
@click.option(
    "--days",
    type=click.IntRange(1, 825),
    default=issuing.SERVER_DAYS,
    show_default=True,
    help="Of the server certificate.",
)
@click.option("--signing-key", is_flag=True, help="Also make a key pair for signatures (alone without --host-name).")
@click.option("--renew", is_flag=True, help="Make a new server certificate from the CA in DIRECTORY.")
@click.option("--force", is_flag=True, help="Overwrite files, also those of the CA and the signing key.")
def create(directory: Path, host_names: tuple[str, ...], days: int, **flags: bool) -> None:
    """Make a CA, a server certificate and a signing key pair in DIRECTORY.

    Files are made with mode 0600: ca.crt, ca.key, tls.crt, tls.key, signing.key, signing.pub. Nothing is overwritten
    without --force or --renew.

    \b
    Example: batchgate certs create certs --host-name batchgate.batchgate-system.svc --signing-key
    """
    if not host_names and not flags["signing_key"]:
        raise click.UsageError("name the webhook's host: --host-name batchgate.batchgate-system.svc")
    now = datetime.now(UTC)
    made: dict[str, bytes] = {}
    if host_names:
        made |= _renewed(directory, host_names, days, now) if flags["renew"] else _made(host_names, days, now)
    if flags["signing_key"]:
        pair = issuing.make_signing_keys()
        made |= {SIGNING_KEY: pair.private, VERIFYING_KEY: pair.public}
    replaceable = {CERTIFICATE, KEY} if flags["renew"] else set()
    there = [name for name in files.present(directory, made) if name not in replaceable]
    if there and not flags["force"]:
        raise ConfigError(f"{directory} already has {', '.join(there)}; --force overwrites, --renew keeps the CA")
    files.write_all(directory, made)
    for name in made:
        click.echo(str(directory / name))


@certs.command()
@click.argument("directory", type=DIRECTORY)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def show(directory: Path, output: str) -> None:
    """Describe the certificates and the signing key in DIRECTORY, or one certificate FILE.

    Exit code 1 if a certificate has expired, or a key does not fit its certificate or signing.pub.

    \b
    Example: batchgate certs show certs -o json
    """
    pair = _signing(directory) if directory.is_dir() else None
    shown = _shown(directory, needed=pair is None)
    if output == "json":
        document: dict[str, Any] = {"certificates": [one.as_json() for one in shown]}
        if pair is not None:
            document["signing"] = pair.as_json()
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo("\n\n".join([*[one.as_text() for one in shown], *([pair.as_text()] if pair else [])]))
    fits = [*[one.key_fits for one in shown], *([pair.key_fits] if pair else [])]
    if False in fits or any(one.expired for one in shown):
        raise click.exceptions.Exit(1)


@dataclass(frozen=True, slots=True)
class Shown:
    """One certificate file, described. ``key_fits`` is None without a key file beside it."""

    path: Path
    description: checking.Description
    key_fits: bool | None
    expired: bool

    def as_json(self) -> dict[str, Any]:
        """Stable machine output; times are RFC 3339 in UTC."""
        return {
            "file": str(self.path),
            "subject": self.description.subject,
            "issuer": self.description.issuer,
            "hostNames": list(self.description.host_names),
            "notBefore": self.description.not_before.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "notAfter": self.description.not_after.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "expired": self.expired,
            "fingerprintSHA256": self.description.fingerprint,
            "isCA": self.description.is_ca,
            "keyFits": self.key_fits,
        }

    def as_text(self) -> str:
        """A paragraph for a person."""
        fits = {True: "yes", False: "NO", None: "no key beside it"}[self.key_fits]
        values = {
            "subject": self.description.subject,
            "issuer": self.description.issuer,
            "hosts": ", ".join(self.description.host_names) or "none",
            "valid from": f"{self.description.not_before:%Y-%m-%d %H:%M:%S} UTC",
            "valid until": f"{self.description.not_after:%Y-%m-%d %H:%M:%S} UTC{' (EXPIRED)' if self.expired else ''}",
            "SHA-256": self.description.fingerprint,
            "CA": "yes" if self.description.is_ca else "no",
            "key fits": fits,
        }
        return _paragraph(self.path, values)


@dataclass(frozen=True, slots=True)
class ShownSigning:
    """The signature keys: the ids of keys that agents accept, and the id of the signing key, or None."""

    path: Path
    key_ids: tuple[str, ...]
    signs: str | None

    @property
    def key_fits(self) -> bool | None:
        """Whether agents accept signatures of the key; None without a key."""
        return None if self.signs is None else self.signs in self.key_ids

    def as_json(self) -> dict[str, Any]:
        """Stable machine output."""
        return {"file": str(self.path), "keyIDs": list(self.key_ids), "signs": self.signs, "keyFits": self.key_fits}

    def as_text(self) -> str:
        """A paragraph for a person."""
        fits = {
            True: "yes",
            False: f"NO: nothing that {SIGNING_KEY} signs will be run",
            None: f"no {SIGNING_KEY} beside it",
        }[self.key_fits]
        values = {"key ids": ", ".join(self.key_ids), "signs": self.signs or "not known", "key fits": fits}
        return _paragraph(self.path, values)


def _paragraph(path: Path, values: dict[str, str]) -> str:
    return "\n".join([str(path), *(f"  {name:<12} {value}" for name, value in values.items())])


def _made(host_names: tuple[str, ...], days: int, now: datetime) -> dict[str, bytes]:
    ca = issuing.make_ca(now)
    server = issuing.make_server_certificate(ca, host_names, now, days)
    return {CA_CERTIFICATE: ca.public, CA_KEY: ca.private, CERTIFICATE: server.public, KEY: server.private}


def _renewed(directory: Path, host_names: tuple[str, ...], days: int, now: datetime) -> dict[str, bytes]:
    public = files.read(directory / CA_CERTIFICATE, "the CA's certificate")
    private = files.read(directory / CA_KEY, "the CA's private key")
    authority = checking.certificates_of(public, str(directory / CA_CERTIFICATE))[0]
    if not checking.key_fits(authority, checking.private_key_of(private, str(directory / CA_KEY))):
        raise ConfigError(f"{directory / CA_CERTIFICATE} and {CA_KEY} do not belong together; make both anew: --force")
    server = issuing.make_server_certificate(issuing.Pair(public, private), host_names, now, days)
    return {CERTIFICATE: server.public, KEY: server.private}


def _signing(directory: Path) -> ShownSigning | None:
    """The signing keys of a directory, or None.

    :raises ConfigError: the public key is missing, or a file holds no key
    """
    public, private = directory / VERIFYING_KEY, directory / SIGNING_KEY
    if not public.exists() and not private.exists():
        return None
    with _naming(public):
        key_ids = tuple(signing.load_public(files.read(public, f"the public key of {SIGNING_KEY}")))
    if not private.exists():
        return ShownSigning(public, key_ids, None)
    with _naming(private):
        key = signing.load_private(files.read(private, "the signing key"))
    return ShownSigning(public, key_ids, signing.key_id(key.public_key()))


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Make a ConfigError within the block name the file."""
    try:
        yield
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if text.startswith(str(path)) else f"{path}: {text}") from None


def _shown(path: Path, *, needed: bool) -> list[Shown]:
    candidates = [path / CA_CERTIFICATE, path / CERTIFICATE] if path.is_dir() else [path]
    found = [one for one in candidates if one.exists()]
    if not found and needed:
        raise ConfigError(
            f"{path} holds no {CERTIFICATE}; make one with: batchgate certs create {path} --host-name HOST"
        )
    now = datetime.now(UTC)
    return [_described(one, now) for one in found]


def _described(path: Path, now: datetime) -> Shown:
    certificate: x509.Certificate = checking.certificates_of(files.read(path, "a certificate"), str(path))[0]
    key_path = path.with_suffix(".key")
    fits: bool | None = None
    if key_path.exists():
        key = checking.private_key_of(files.read(key_path, "a private key"), str(key_path))
        fits = checking.key_fits(certificate, key)
    description = checking.describe(certificate)
    return Shown(path, description, fits, expired=now > description.not_after)
