"""The rule by which sudo lets an agent start the site helper as the site's users, and nothing else.

Pure: text, in the form that docs/hosts.md explains. ``visudo`` checks it before it is put in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from router.errors import ConfigError

_SPECIAL: Final = re.compile(r"([^A-Za-z0-9_./-])")


def text(site: str, account: str, helper: str, users: Iterable[str], group: str = "") -> str:
    """The fragment.

    :param account: the agent's
    :param helper: the site helper's path
    :param users: the HPC users, where there is no ``group``
    :param group: whose members the users are
    :raises ConfigError: there are neither
    """
    who = f"%{_escaped(group)}" if group else ",".join(_escaped(user) for user in sorted(users))
    if not who:
        raise ConfigError(
            f"site {site}: the policy's accounts name no HPC user for it, so sudo has nobody to allow; name them there, "
            "or the group of all HPC users with --group"
        )
    path = _escaped(helper)
    return (
        f"# Written by `batchgate site install {site}`: its agent may start the site helper as these users. The two quotes\n"
        "# forbid arguments.\n"
        f"Defaults!{path} !requiretty, env_reset\n"
        f'{_escaped(account)} ALL=({who}) NOPASSWD: {path} ""\n'
    )


def _escaped(name: str) -> str:
    return _SPECIAL.sub(r"\\\1", name)
