"""The join file: all that a machine needs to join a cluster as the agent of one site.

Pure. It holds a credential for an hour or so, and is read by root on the login node. Text in, values out; a wrong file
gets an error with file, line and what to do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from router import names
from router.errors import ConfigError, InputError, SignatureError
from router.kube import tokens
from router.notation import documents
from router.notation.documents import Document
from router.placement import signing

KIND: Final = "SiteJoin"
VERSION: Final = f"{names.PREFIX}v1"
_KEYS: Final = ("apiVersion", "kind", "site", "namespace", "server", "tlsServerName", "ca", "publicKeys", "token")
_OPTIONAL: Final = ("tlsServerName", "ca")
_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----\n.+-----END CERTIFICATE-----\s*", re.DOTALL)
_AGAIN: Final = "make another one with `batchgate site add`"


@dataclass(frozen=True, slots=True)
class Join:
    """What a join file says.

    :param server: the API server's URL
    :param server_name: the name in its certificate, if it is another than the URL's; else empty
    :param ca: of that certificate, PEM; empty: the system's CAs
    :param public_keys: by which the webhook's signatures are verified, PEM
    :param token: of the site's account
    """

    site: str
    namespace: str
    server: str
    server_name: str
    ca: str
    public_keys: str
    token: str


def write(join: Join) -> dict[str, Any]:
    """The document of a join file."""
    found = {
        "apiVersion": VERSION,
        "kind": KIND,
        "site": join.site,
        "namespace": join.namespace,
        "server": join.server,
        "tlsServerName": join.server_name,
        "ca": join.ca,
        "publicKeys": join.public_keys,
        "token": join.token,
    }
    return {key: value for key, value in found.items() if value or key not in _OPTIONAL}


def parse(text: str, source: str) -> Join:
    """Read a join file.

    :param source: the file's name, for messages
    :raises InputError: with file, line and what to do
    """
    found = documents.parse(text, source)
    if len(found) != 1 or not isinstance(found[0].value, dict):
        raise InputError(f"{source}: is no join file, which is one mapping; {_AGAIN}")
    document = found[0]
    values = _texts(document, source)
    if (values["apiVersion"], values["kind"]) != (VERSION, KIND):
        raise _wrong(document, source, "kind", f"is {values['apiVersion']} {values['kind']}, not {VERSION} {KIND}")
    join = Join(
        site=values["site"],
        namespace=values["namespace"],
        server=values["server"],
        server_name=values.get("tlsServerName", ""),
        ca=values.get("ca", ""),
        public_keys=values["publicKeys"],
        token=values["token"],
    )
    _check(join, document, source)
    return join


def _texts(document: Document, source: str) -> dict[str, str]:
    value = document.value
    assert isinstance(value, dict)  # noqa: S101 - parse has looked
    unknown = [key for key in value if key not in _KEYS]
    if unknown:
        raise _wrong(document, source, unknown[0], f"is unknown; the keys are {', '.join(_KEYS)}")
    for key in _KEYS:
        if key not in value and key not in _OPTIONAL:
            raise InputError(f"{source}: has no {key}; {_AGAIN}")
        if key in value and (not isinstance(value[key], str) or not value[key].strip()):
            raise _wrong(document, source, key, "is no text, or empty")
    return dict(value)


def _check(join: Join, document: Document, source: str) -> None:
    address = urlsplit(join.server)
    if address.scheme != "https" or not address.hostname:
        raise _wrong(document, source, "server", f"{join.server!r} is no https:// URL")
    if join.ca and not _PEM.fullmatch(join.ca):
        raise _wrong(document, source, "ca", "is no certificate in PEM form")
    try:
        signing.load_public(join.public_keys.encode())
    except (ConfigError, SignatureError) as error:
        raise _wrong(document, source, "publicKeys", str(error)) from None
    try:
        held = tokens.claims(join.token)
    except InputError as error:
        raise _wrong(document, source, "token", str(error)) from None
    account = names.agent_account(join.site)
    if (held.namespace, held.account) != (join.namespace, account):
        raise _wrong(document, source, "token", f"is of {held.user}, not of {account} in {join.namespace}")


def _wrong(document: Document, source: str, key: str, words: str) -> InputError:
    line, _ = document.position((key,))
    return InputError(f"{source}:{line}: {key}: {words}; {_AGAIN}")


def demand_site(join: Join, site: str, source: str) -> None:
    """Raise ConfigError if the file is another site's."""
    if join.site != site:
        raise ConfigError(f"{source}: is for site {join.site!r}, not {site!r}; name the site that it is for")


def demand_in_time(join: Join, source: str, now: float) -> None:
    """Raise ConfigError if the file's credential has ended. ``now``: seconds since 1970."""
    ends = tokens.claims(join.token).expires
    if now >= ends:
        raise ConfigError(
            f"{source}: its credential ended {tokens.shown(ends)} (here it is {tokens.shown(now)}); run `batchgate site add "
            f"{join.site}` again and bring its file here"
        )
