"""Holds how a Pod finds other hosts: lines that it adds to ``/etc/hosts``, and its settings of DNS.

Pure data.
"""

from __future__ import annotations

from router.values import unchanging


@unchanging
class Naming:
    """What the Pod adds to the names that its node knows.

    :param hosts: lines for ``/etc/hosts``: an address, then names, each after a tab
    :param alone: whether only the Pod's own settings of DNS count (``dnsPolicy: None``), and not the node's
    :param servers: addresses of name servers, like ``searches`` (domains) and ``options`` (``ndots:2``)
    """

    hosts: tuple[str, ...] = ()
    alone: bool = False
    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def resolves(self) -> bool:
        """Whether the Pod has a resolv.conf of its own."""
        return self.alone or bool(self.servers or self.searches or self.options)

    def __bool__(self) -> bool:
        """Whether anything is added."""
        return bool(self.hosts) or self.resolves
