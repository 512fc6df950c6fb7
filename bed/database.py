"""Sets up Slurm's accounting: MariaDB, slurmdbd's rights there, and the rights of users.

Shell: makes a database, runs sacctmgr.
"""

from __future__ import annotations

import secrets
import shutil
from typing import Final

from bed import commands, files
from bed.accounts import LIMITED, MOST_QUEUED, PROJECT
from bed.layout import OPERATOR, USERS, Layout
from bed.slurmconf import CLUSTER, DATABASE

_SECONDS: Final = 60.0
_THERE: Final = ("Nothing new added", "already exist")
"""sacctmgr's messages, with exit code 1, if all exists already; the second is for a cluster."""


def make(layout: Layout) -> None:
    """Make MariaDB's data directory if it is missing; its owner is slurm, as MariaDB runs as slurm here."""
    data = layout.state / "mariadb"
    if (data / "mysql").is_dir():
        return
    shutil.rmtree(data, ignore_errors=True)
    files.directory(data, mode=0o700, owner="slurm")
    commands.run(
        [
            *("mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=slurm", "--skip-test-db"),
            *("--auth-root-authentication-method=socket", "--auth-root-socket-user=root"),
        ]
    )


def password(layout: Layout) -> str:
    """The password of slurmdbd for MariaDB; made once."""
    path = layout.state / "mariadb-password"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(16))
    return path.read_text()


def admit(layout: Layout) -> None:
    """Wait for MariaDB and give slurmdbd its rights there."""
    client = ["mariadb", "--no-defaults", f"--socket={layout.database_socket}", "--user=root", "--batch"]
    commands.wait(
        lambda: commands.attempt([*client, "-e", "select 1"]).returncode == 0,
        _SECONDS,
        lambda: f"MariaDB does not answer; see {layout.logs / 'mariadbd.out'}",
    )
    # The password goes over standard input. It is hexadecimal, so it needs no quotes.
    who = "slurm@'127.0.0.1'"
    commands.run(
        client,
        stdin=(
            f"create user if not exists {who};"
            f"alter user {who} identified by '{password(layout)}';"
            f"grant all on {DATABASE}.* to {who};"
        ),
    )


def fill(layout: Layout) -> None:
    """Wait for slurmdbd; add the cluster, the accounts, the users and the operator."""
    commands.wait(
        lambda: commands.attempt(["sacctmgr", "-n", "list", "cluster"]).returncode == 0,
        _SECONDS,
        lambda: f"slurmdbd does not answer; see {layout.logs / 'slurmdbd.log'}",
    )
    everybody = ",".join((*USERS, OPERATOR))
    _add("cluster", CLUSTER)
    _add("account", PROJECT)
    _add("account", LIMITED, f"MaxSubmitJobs={MOST_QUEUED}")
    _add("user", everybody, f"Account={PROJECT}", f"DefaultAccount={PROJECT}")
    _add("user", ",".join(USERS), f"Account={LIMITED}")
    commands.run(["sacctmgr", "-i", "modify", "user", OPERATOR, "set", "AdminLevel=Operator"])


def _add(*words: str) -> None:
    done = commands.attempt(["sacctmgr", "-i", "add", *words])
    said = done.stdout + done.stderr
    if done.returncode and not any(sentence in said for sentence in _THERE):
        raise commands.BedError(f"sacctmgr add {' '.join(words)}: {said.strip()}")
