"""Decides by a client's certificate whether it may send reviews.

Pure: takes the result of ``ssl.SSLSocket.getpeercert``, which is empty or None unless the certificate was verified.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from werkzeug.exceptions import Forbidden, Unauthorized

from router.values import unchanging


@unchanging
class Clients:
    """The accepted clients: certificates of the CA with one of these common names; without names, all of the CA."""

    names: frozenset[str] = frozenset()

    def demand(self, certificate: Mapping[str, Any] | None) -> None:
        """Return if this client may send reviews.

        :raises Unauthorized: the client has sent no certificate
        :raises Forbidden: the certificate has another name
        """
        if not certificate:
            raise Unauthorized(
                "reviews are answered to clients with a certificate of --client-ca only; see docs/operating.md"
            )
        name = common_name(certificate)
        if self.names and name not in self.names:
            raise Forbidden(
                f"the certificate of {name!r} is none of --client-name; reviews are the API server's to ask"
            )


def common_name(certificate: Mapping[str, Any]) -> str:
    """The last common name of the subject, which the API server takes as the user; or empty."""
    subject = certificate.get("subject", ())
    return next((str(value) for part in reversed(subject) for key, value in part if key == "commonName"), "")
