"""Where the files of a site's agent lie on a login node.

Pure: paths as text. Site names are letters, digits, ``.``, ``_`` and ``-``, and begin with a letter or digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from router import names

ACCOUNT: Final = "batchgate"
"""The account of agents, unless the site's access makes one user's account the agent's."""
ETC: Final = "/etc/batchgate"
STATE: Final = "/var/lib/batchgate"
UNITS: Final = "/etc/systemd/system"
SUDOERS: Final = "/etc/sudoers.d"


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one site."""

    site: str

    @property
    def etc(self) -> str:
        """The directory of what root writes: only root and the agent's group read it."""
        return f"{ETC}/{self.site}"

    @property
    def kubeconfig(self) -> str:
        """How the agent reaches the cluster; names the token's file, and holds no secret itself."""
        return f"{self.etc}/kubeconfig"

    @property
    def ca(self) -> str:
        """The CA of the API server's certificate."""
        return f"{self.etc}/ca.crt"

    @property
    def public_keys(self) -> str:
        """The keys by which the webhook's signatures are verified."""
        return f"{self.etc}/{names.PUBLIC_KEYS_KEY}"

    @property
    def record(self) -> str:
        """What was put here for this site, and how."""
        return f"{self.etc}/installed.json"

    @property
    def state(self) -> str:
        """The directory that the agent writes."""
        return f"{STATE}/{self.site}"

    @property
    def token(self) -> str:
        """The credential, which the agent renews."""
        return f"{self.state}/token"

    @property
    def certificates(self) -> str:
        """The directory of the kubelet API's certificate."""
        return f"{self.state}/kubelet"

    @property
    def queue(self) -> str:
        """The directory of the embedded queue, for a site of system ``local``."""
        return f"{self.state}/queue"

    @property
    def unit(self) -> str:
        """The name of the systemd unit, which is that of the account in the cluster."""
        return f"{names.agent_account(self.site)}.service"

    @property
    def unit_file(self) -> str:
        """The unit's file."""
        return f"{UNITS}/{self.unit}"

    @property
    def sudoers(self) -> str:
        """The fragment for sudo, which ignores files with a dot in their name."""
        return f"{SUDOERS}/{names.agent_account(self.site)}"
