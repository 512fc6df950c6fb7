"""The bed as a site: its policy for each way in which the agent may reach its users, and the agent that does."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import yaml

from bed.commands import BedError
from bed.layout import HELPER, SERVICE, USERS
from bed.standing import layout, variant

SITE = "bed"
ADA, BEN = USERS
PEOPLE = {"ada": ADA, "ben": BEN}
"""Who has which account on the site."""
QUEUE = "all"
NODES = {"nodes": 4, "cpusPerNode": 4, "memoryPerNode": "4000Mi", "walltimeDefault": "10m", "walltimeMax": "1h"}
"""What a policy says of the queue."""
OWN_KEYS, SUDO, LOCAL_SUDO, ALONE, LOCAL = "own-keys", "sudo", "local-sudo", "alone", "local"
"""Each user's own key; a service account with sudo, over ssh and on the login node; one user's login; that user there."""
RUNS_AS = {OWN_KEYS: SERVICE, SUDO: SERVICE, LOCAL_SUDO: SERVICE, ALONE: SERVICE, LOCAL: ADA}
"""As whom the agent's process runs: never as root."""
LAYOUT = layout()
TALLY = LAYOUT.shared / "tally"
"""Where containers tell that they run, under the same path in each: a file system that all nodes and the tests share."""
SHORT: Mapping[str, object] = MappingProxyType(
    {
        "--lease-seconds": 3,
        "--node-lease-seconds": 12,
        "--cycle-seconds": 5,
        "--quick-seconds": 2,
        "--command-seconds": 30,
        "--orphan-seconds": 20,
    }
)
"""Times of an agent that tests wait for."""
CRON = ("system:serviceaccount:kube-system:cronjob-controller", "system:kube-controller-manager")


def obstacle() -> str:
    """Why these tests cannot be run here; empty where they can. With BATCHGATE_BED=required that is a failure."""
    words = _missing()
    assert not words or os.environ.get("BATCHGATE_BED") != "required", words
    return words


def _missing() -> str:
    if os.geteuid() != 0:
        return "only root can start the agent as another user"
    try:
        variant(LAYOUT)
    except BedError as error:
        return str(error)
    if subprocess.run(["sinfo", "--noheader"], capture_output=True, timeout=60, check=False).returncode != 0:
        return "the bed's Slurm does not answer; `make bed` starts it"
    if not LAYOUT.image.exists():
        return f"the bed has no image {LAYOUT.image}"
    for user in (SERVICE, ADA):
        done = subprocess.run([*as_user(user), sys.executable, "-c", "import router"], capture_output=True, check=False)
        if done.returncode != 0:
            return f"{user} may not run {sys.executable}: {done.stderr.decode(errors='replace').strip()[-200:]}"
    return ""


def as_user(user: str) -> list[str]:
    """Words before a command that is to be a user's."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--"]


@dataclass(frozen=True)
class BedSite:
    """One way to reach the bed. ``home`` is a directory of the user that the agent's process is.

    :param charge: the account of Slurm that all Jobs are charged to; empty for each user's own
    :param brought: where results are brought to; below ``home`` if unset
    :param times: options of the agent
    :param work: below which the users' work directories lie
    :param fs_delay: seconds for which the login node may be shown what was there before
    :param lost_seconds: after which a job that Slurm does not know is held to be lost; the agent's own if unset
    """

    way: str
    home: Path
    observer: str = ""
    charge: str = ""
    brought: Path | None = None
    times: Mapping[str, object] = field(default_factory=lambda: SHORT)
    work: Path = LAYOUT.work
    fs_delay: int = 5
    lost_seconds: int | None = None

    name: ClassVar[str] = SITE
    queue: ClassVar[str] = QUEUE
    """One of its queues: where that is Ready, all are."""

    @property
    def policy(self) -> Path:
        return self.home / "policy"

    @property
    def results(self) -> Path:
        return self.brought or self.home / "results"

    @property
    def user(self) -> str:
        """Whose process the agent is."""
        return RUNS_AS[self.way]

    def make(self) -> None:
        """The policy, and the keys where the agent can read them and nobody else."""
        for directory in (self.policy, self.results, self.home / "keys"):
            directory.mkdir(parents=True, exist_ok=True)
        known = self.home / "known_hosts"
        shutil.copy(LAYOUT.state / "ssh" / "known_hosts", known)
        for user in (*USERS, SERVICE, *([self.observer] * bool(self.observer))):
            shutil.copy(LAYOUT.state / "keys" / user, self.home / "keys" / user)
        for name, document in self.documents().items():
            (self.policy / name).write_text(yaml.safe_dump(document, sort_keys=False))
        self.give(self.home)
        self.give(self.results)
        TALLY.mkdir(exist_ok=True)
        TALLY.chmod(0o1777)

    def give(self, path: Path) -> None:
        """Let a path and all below it be the agent's user's."""
        found = pwd.getpwnam(self.user)
        for one in (path, *path.rglob("*")):
            os.chown(one, found.pw_uid, found.pw_gid)
            one.chmod(0o700 if one.is_dir() else 0o600)

    def host(self) -> dict[str, Any]:
        """How the agent comes to the login node and to each user, as keys of the policy's site."""
        port, keys = LAYOUT.ssh_port, self.home / "keys"
        known = {"knownHosts": str(self.home / "known_hosts"), "helper": str(HELPER)}
        return {
            OWN_KEYS: {"host": f"ssh://127.0.0.1:{port}", "access": "own-keys", "keys": str(keys), **known},
            SUDO: {"host": f"ssh://{SERVICE}@127.0.0.1:{port}", "access": "sudo", "keys": str(keys / SERVICE), **known},
            LOCAL_SUDO: {"access": "sudo", "helper": str(HELPER)},
            ALONE: {"host": f"ssh://{ADA}@127.0.0.1:{port}", "access": "own", "keys": str(keys / ADA), **known},
            LOCAL: {},
        }[self.way]

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        people = {"ada": ADA} if self.way in (ALONE, LOCAL) else PEOPLE
        site = {
            "name": SITE,
            "system": "slurm",
            **self.host(),
            **({"observer": self.observer} if self.observer else {}),
            "workDir": str(self.work / "{user}"),
            "resultsDir": str(self.results),
            "runtime": "apptainer",
            "images": [{"match": "*", "path": str(LAYOUT.image)}],
            "volumes": [{"hostPath": str(TALLY), "path": str(TALLY)}],
            "margin": 5,
            "fsDelay": self.fs_delay,
            "queues": [{"name": QUEUE, **NODES}],
        }
        accounts: list[dict[str, Any]] = [
            {"users": [person], "site": SITE, "as": user} for person, user in people.items()
        ]
        if self.way in (ALONE, LOCAL):  # somebody whose account the agent cannot act as
            accounts.append({"users": ["ben"], "site": SITE, "as": BEN})
        accounts.append({"users": [*CRON], "controller": True})
        accounts.append({"namespaces": ["default"], "shared": True, "site": SITE, "as": ADA})
        if self.charge:
            accounts = [{**one, "account": self.charge} if "as" in one else one for one in accounts]
        rules = [
            {"name": "busy", "when": "job.cpus >= 2", "hpc": [{"queue": QUEUE}]},
            {"name": "rest", "cloud": True},
        ]
        return {
            "sites.yaml": {"sites": [site]},
            "accounts.yaml": {"accounts": accounts},
            "rules.yaml": {"rules": rules},
        }

    def argv(self, kubeconfig: Path, public_key: Path) -> list[str]:
        """The command line of the agent."""
        options = {
            "--site": self.name,
            "--policy": self.policy,
            "--public-key": public_key,
            "--kubeconfig": kubeconfig,
            "--identity": "agent",
            "--listen": "127.0.0.1:0",
            "--metrics": "127.0.0.1:0",
            "--address": "127.0.0.1",
            "--certificates": self.home / "certificates",
            **self.times,
            **({} if self.lost_seconds is None else {"--lost-seconds": self.lost_seconds}),
        }
        words = [str(word) for pair in options.items() for word in pair]
        return [*as_user(self.user), sys.executable, "-m", "router", "agent", *words]


def slurm(*argv: str) -> str:
    """What a command of Slurm prints to its admin; it must succeed."""
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout


def living(user: str) -> list[str]:
    """Ids of a user's jobs that are not over."""
    return slurm("squeue", "--noheader", "--user", user, "--format", "%i").split()


def files_of(user: str) -> Iterator[Path]:
    """All that lies below the user's work directory on the bed."""
    yield from (LAYOUT.shared / "work" / user).rglob("*")
