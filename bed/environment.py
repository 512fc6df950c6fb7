"""Describes a bed in variables for programs and sentences for people.

Pure except ``write``.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from bed.accounts import LIMITED, MOST_QUEUED, PROJECT
from bed.image import PROGRAM
from bed.layout import HELPER, OPERATOR, SERVICE, USERS, Layout, Variant
from bed.slurmconf import QUEUES

NAME: Final = "bed.env"
PREFIX: Final = "BATCHGATE_BED_"


def variables(layout: Layout, variant: Variant) -> dict[str, str]:
    """The variables, named without their prefix. Directories of users have one subdirectory for each user."""
    return {
        "SSH_HOST": "127.0.0.1",
        "SSH_PORT": str(layout.ssh_port),
        "KNOWN_HOSTS": str(layout.ssh / "known_hosts"),
        "SSH_CONFIG": str(layout.ssh / "ssh_config"),
        "HOST_KEY": str(layout.ssh / "host_key"),
        "USER_CA": str(layout.ssh / "user_ca"),
        "KEYS": str(layout.keys),
        "USERS": " ".join(USERS),
        "SERVICE": SERVICE,
        "OPERATOR": OPERATOR if variant.accounting else "",
        "HELPER": str(HELPER),
        "WORK": str(layout.work),
        "SLOW": str(layout.slow),
        "SIF": str(layout.image),
        "PROGRAM": str(layout.image.with_name(PROGRAM)),
        "QUEUES": " ".join(queue.name for queue in QUEUES),
        "ACCOUNTING": "slurmdbd" if variant.accounting else "none",
        "ACCOUNTS": f"{PROJECT} {LIMITED}" if variant.accounting else "",
        "CGROUPS": "yes" if variant.cgroups else "no",
        "PIDS": str(layout.running),
        "LOGS": str(layout.logs),
    }


def exports(layout: Layout, variant: Variant) -> str:
    """The text of ``bed.env``, which a shell reads with ``.``."""
    lines = [f"export {PREFIX}{name}={shlex.quote(value)}" for name, value in variables(layout, variant).items()]
    return "\n".join(lines) + "\n"


def write(layout: Layout, variant: Variant, directory: Path) -> Path:
    """Write ``bed.env`` into the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / NAME
    path.write_text(exports(layout, variant))
    return path


def sentences(layout: Layout, variant: Variant, path: Path) -> list[str]:
    """Sentences that tell people about a running bed."""
    held = (
        "Slurm holds jobs to their memory and devices (cgroup v1)."
        if variant.cgroups
        else "No cgroup v1 controllers are mounted here: memory is polled every 2 s, and every job sees all GPUs."
    )
    counted = (
        f"Accounting: slurmdbd. Operator, only for looking: {OPERATOR}. "
        f"Accounts: {PROJECT}, {LIMITED} ({MOST_QUEUED} jobs a user)."
        if variant.accounting
        else "Accounting: none, so there is no operator: each user's jobs are seen as that user only."
    )
    return [
        f"Queues: {', '.join(f'{queue.name} ({len(queue.nodes)} nodes)' for queue in QUEUES)}. Cores of a node: {variant.cores}.",
        f"Users: {', '.join(USERS)}; service account: {SERVICE}. {counted}",
        held,
        f"Login: ssh -F {layout.ssh / 'ssh_config'} {USERS[0]}",
        f"Work directories: {layout.work}/USER; as a slow network file system shows them: {layout.slow}/USER.",
        f"Image: {layout.image}" if layout.image.exists() else "No image was made.",
        f"Variables: . {path}",
    ]
