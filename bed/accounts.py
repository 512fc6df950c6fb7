"""Makes the bed's Unix users, and defines their rights with sudo and in Slurm.

Pure except ``ensure``, ``check`` and ``remove``, which read and change the machine's users.
"""

from __future__ import annotations

import pwd
from pathlib import Path
from typing import Final

from bed import commands, files
from bed.layout import HELPER, MARK, OPERATOR, SERVICE, USERS

EVERYBODY: Final = (*USERS, SERVICE, OPERATOR)
PROJECT: Final = "research"
"""The Slurm account that jobs are charged to by default."""
LIMITED: Final = "limited"
"""A second Slurm account, in which each user may have at most ``MOST_QUEUED`` jobs."""
MOST_QUEUED: Final = 5

LOOKING: Final = (
    "/usr/bin/squeue",
    "/usr/bin/sacct",
    "/usr/bin/sinfo",
    "/usr/bin/scontrol show *",
)
"""The commands that the agent may run as the operator."""


def sudoers(helper: Path = HELPER) -> str:
    """The sudo rules: the service account may start the helper as one of the users, and look as the operator.

    ``""`` forbids arguments of the helper (sudoers(5)). The service account can become only the named users.
    """
    looking = ", ".join(LOOKING)
    return (
        f"# {MARK}.\n"
        f"Defaults:{SERVICE} !requiretty, !lecture, env_reset\n"
        f'{SERVICE} ALL=({",".join(USERS)}) NOPASSWD: {helper} ""\n'
        f"{SERVICE} ALL=({OPERATOR}) NOPASSWD: {looking}\n"
    )


def ensure() -> None:
    """Make the missing users.

    :raises BedError: a user of that name exists and is not the bed's
    """
    for name in EVERYBODY:
        known = _known(name)
        if known is None:
            commands.run(["useradd", "--create-home", "--shell", "/bin/bash", "--comment", MARK, name])
        elif known.pw_gecos != MARK:
            raise commands.BedError(f"the user {name} exists and is not the bed's. Nothing was changed.")
        # No password fits "*". A locked account, which useradd makes, is refused by an sshd without PAM.
        commands.run(["usermod", "--password", "*", name])
        files.directory(home(name), mode=0o700, owner=name)


def check() -> None:
    """Check, without making users, that ``ensure`` would succeed.

    :raises BedError: a user of that name exists and is not the bed's
    """
    for name in EVERYBODY:
        known = _known(name)
        if known is not None and known.pw_gecos != MARK:
            raise commands.BedError(f"the user {name} exists and is not the bed's. Nothing was changed.")


def remove() -> None:
    """Remove the bed's users with their home directories."""
    for name in EVERYBODY:
        known = _known(name)
        if known is not None and known.pw_gecos == MARK:
            commands.run(["userdel", "--remove", "--force", name])


def home(name: str) -> Path:
    """A user's home directory."""
    return Path(pwd.getpwnam(name).pw_dir)


def _known(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
