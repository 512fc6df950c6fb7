"""Whose process this is: the name of its user.

Shell: asks the machine's accounts (passwd, NSS) and, for a person, the environment.
"""

from __future__ import annotations

import getpass
import os
import pwd

from router.errors import ConfigError


def own_account() -> str:
    """The name of the account that this process has, by its effective uid. Raises ConfigError if it has none."""
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise _without_account(uid, "start this as a user who has one") from None


def caller() -> str:
    """The name of the person at the command line: ``LOGNAME`` and its like, else the account.

    Raises ConfigError if neither names anybody.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # KeyError until Python 3.12, OSError from 3.13 on
        raise _without_account(os.getuid(), "name the user in the variable LOGNAME") from None


def _without_account(uid: int, otherwise: str) -> ConfigError:
    return ConfigError(
        f"uid {uid} has no account here, as `getent passwd {uid}` shows: "
        f"add one to /etc/passwd (in a container: to its image's), or {otherwise}"
    )
