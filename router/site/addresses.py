"""Reads the address of a site's host: ``ssh://[USER@]HOST[:PORT]``.

Pure. Refuses parts that begin with ``-``, which ssh would read as options.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

LOCAL: Final = "local"
FORM: Final = "ssh://[USER@]HOST[:PORT]"
_PORT: Final = 22
_ADDRESS: Final = re.compile(
    r"ssh://(?:(?P<user>[A-Za-z0-9_][\w.-]*)@)?"
    r"(?:(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)|\[(?P<number>[0-9A-Fa-f:.]+)\])(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Address:
    """A login node. ``user`` may be empty; ``host`` is a name or an IP address without brackets."""

    user: str
    host: str
    port: int

    @property
    def known_as(self) -> str:
        """The host as known_hosts has it (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""
        return self.host if self.port == _PORT else f"[{self.host}]:{self.port}"


def address_of(host: str) -> Address | None:
    """The parts of an address; None if it is invalid."""
    match = _ADDRESS.fullmatch(host)
    if match is None or not 0 < int(match["port"] or _PORT) < 65536:
        return None
    return Address(match["user"] or "", match["name"] or match["number"], int(match["port"] or _PORT))
