"""Who may ask for reviews, by the certificate that a client has shown.

Pure: takes what ``ssl.SSLSocket.getpeercert`` returns, which is empty or None unless the certificate was verified.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from werkzeug.exceptions import Forbidden, Unauthorized

from router.values import unchanging


@unchanging
class Clients:
    """Whose certificates are taken: those with one of these common names; where there is none, every one of the CA."""

    names: frozenset[str] = frozenset()

    def demand(self, certificate: Mapping[str, Any] | None) -> None:
        """Return where this client may ask.

        :raises Unauthorized: it has shown no certificate
        :raises Forbidden: it is somebody else's
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
    """The last common name of the subject, which is the one that the API server takes for a user's; empty without."""
    subject = certificate.get("subject", ())
    return next((str(value) for part in reversed(subject) for key, value in part if key == "commonName"), "")
