"""An OpenPBS or TORQUE as a site: what these tests need of the machine, the policy, and the agent's command line.

They are run as root on the server's host, with ``qstat`` on the PATH, in /opt/pbs/bin or in /opt/torque/bin, and a queue
that every user may use, whose ``kill_delay`` leaves deleted jobs some seconds. OpenPBS has ``job_history_enable`` on;
TORQUE ``keep_completed`` of 300, its MoMs ``$exec_with_exec true``, and ``BATCHGATE_PBS_START`` names a command that
starts those of its daemons that do not run. People and accounts are those of the bed (``bed.layout``): two users; a service account
that sudo lets start the site helper as them, and ``qstat`` and ``pbsnodes`` as the observer; the observer itself.
Names that differ from the defaults here stand in variables of the environment.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from bed import layout
from bed.layout import OPERATOR, SERVICE, USERS
from router import names
from tests.agent.pbs import server
from tests.agent.whole.jobs import Runs

SITE = "pbs"
ADA, BEN = USERS
PEOPLE = {"ada": ADA, "ben": BEN}
"""Who has which account on the site."""
HELPER = Path(os.environ.get("BATCHGATE_PBS_HELPER", layout.HELPER))
QUEUE = os.environ.get("BATCHGATE_PBS_QUEUE", "workq")
IMAGE = Path(os.environ.get("BATCHGATE_PBS_IMAGE", layout.Layout().image))
SHARED = Path(os.environ.get("BATCHGATE_PBS_DIR", "/srv/batchgate-pbs"))
"""A directory that all nodes have, root's; everything below it is these tests' own."""


SHORT: Mapping[str, object] = MappingProxyType(
    {
        # A loaded machine stops an agent for seconds, which then gives up its lease, ends, and serves logs elsewhere.
        "--lease-seconds": 10,
        "--node-lease-seconds": 40,
        "--cycle-seconds": 5,
        "--quick-seconds": 2,
        "--command-seconds": 30,
        "--orphan-seconds": 20,
    }
)
"""Times of an agent that tests wait for."""


def node_of(queue: str) -> str:
    """The Node of one of the site's queues."""
    return names.node_name(SITE, queue)


NODE = node_of(QUEUE)
RUNS = Runs(SHARED / "runs")
"""Where containers tell that they run, under the same path in each."""


def obstacle() -> str:
    """Why these tests cannot be run here; empty where they can."""
    if "pbs_version" not in server.version() and not server.TORQUE:
        return "no OpenPBS or TORQUE here: qstat --version"
    if os.geteuid() != 0:
        return "only root can start the agent as another user"
    if server.run("qstat", "-B").returncode != 0:
        return "the server does not answer"
    if server.TORQUE and not server.START:
        return "no BATCHGATE_PBS_START, a command that starts TORQUE's daemons"
    if not server.TORQUE and server.server().get("job_history_enable") != "True":
        return "the server keeps no history: job_history_enable"
    return _missing()


def _missing() -> str:
    known = {one.pw_name for one in pwd.getpwall()}
    if missing := [user for user in (*USERS, SERVICE, OPERATOR) if user not in known]:
        return f"no users {', '.join(missing)}"
    if not IMAGE.exists():
        return f"no image {IMAGE}: BATCHGATE_PBS_IMAGE"
    needed: list[tuple[str, ...]] = [("sudo", "-n", "-l", "-u", user, str(HELPER)) for user in USERS]
    needed += [("sudo", "-n", "-l", "-u", OPERATOR, server.program(name)) for name in ("qstat", "pbsnodes")]
    for words in (*needed, (sys.executable, "-c", "import router")):
        done = subprocess.run([*as_user(SERVICE), *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"{SERVICE} may not run {' '.join(words)}: {done.stderr.strip()[-200:]}"
    return ""


def as_user(user: str) -> list[str]:
    """Words before a command that is to be a user's."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--"]


@dataclass(frozen=True)
class PbsSite:
    """``home`` is a directory of the service account's; ``observer`` looks at the jobs, or each user where it is empty.

    :param others: queues beside ``QUEUE``, each for the Jobs whose label ``queue`` names it
    :param named: further fields of the site, each of its queues, accounts and rules of these others
    :param rules: in place of these tests' own
    :param times: of the agent
    """

    home: Path
    observer: str = ""
    others: tuple[str, ...] = ()
    named: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rules: Sequence[Mapping[str, Any]] = ()
    times: Mapping[str, object] = field(default_factory=lambda: SHORT)

    @property
    def policy(self) -> Path:
        return self.home / "policy"

    @property
    def results(self) -> Path:
        return self.home / "results"

    def make(self) -> None:
        """The policy, the users' work directories, and the place where containers tell that they run."""
        for directory in (self.policy, self.results):
            directory.mkdir(parents=True)
        for name, document in self.documents().items():
            (self.policy / name).write_text(yaml.safe_dump(document, sort_keys=False))
        self.give(self.home)
        for user in USERS:
            work = SHARED / "work" / user
            work.mkdir(parents=True, exist_ok=True)
            shutil.chown(work, user, user)
            work.chmod(0o700)
        RUNS.directory.mkdir(exist_ok=True)
        RUNS.directory.chmod(0o1777)

    def give(self, path: Path) -> None:
        """Let a path and all below it be the service account's."""
        for one in (path, *path.rglob("*")):
            shutil.chown(one, SERVICE, SERVICE)
            one.chmod(0o700 if one.is_dir() else 0o600)

    def argv(self, kubeconfig: Path, public_key: Path) -> list[str]:
        """The command line of the agent."""
        options = {
            "--site": SITE,
            "--policy": self.policy,
            "--public-key": public_key,
            "--kubeconfig": kubeconfig,
            "--identity": "agent",
            "--listen": "127.0.0.1:0",
            "--metrics": "127.0.0.1:0",
            "--address": "127.0.0.1",
            "--certificates": self.home / "certificates",
            **self.times,
        }
        words = [str(word) for pair in options.items() for word in pair]
        return [*as_user(SERVICE), sys.executable, "-m", "router", "agent", *words]

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        queue = {
            "nodes": 1,
            "cpusPerNode": 4,
            "memoryPerNode": "2000Mi",
            "walltimeDefault": "10m",
            "walltimeMax": "1h",
            **self.named.get("queue", {}),
        }
        described = {
            "name": SITE,
            "system": "torque" if server.TORQUE else "openpbs",
            "access": "sudo",
            "helper": str(HELPER),
            **({"observer": self.observer} if self.observer else {}),
            "workDir": str(SHARED / "work" / "{user}"),
            "resultsDir": str(self.results),
            "runtime": "apptainer",
            "images": [{"match": "*", "path": str(IMAGE)}],
            "volumes": [{"hostPath": str(RUNS.directory), "path": str(RUNS.directory)}],
            "margin": 5,
            "fsDelay": 5,
            "queues": [{"name": name, **queue} for name in (QUEUE, *self.others)],
            **self.named.get("site", {}),
        }
        account = self.named.get("account", {})
        accounts = [{"users": [person], "site": SITE, "as": user, **account} for person, user in PEOPLE.items()]
        labelled = "job.cpus >= 2 && 'queue' in job.labels && job.labels['queue'] == '{}'"
        rules: list[dict[str, Any]] = [
            *(
                {"name": name, "when": labelled.format(name), "hpc": [{"queue": name}], **self.named.get("rule", {})}
                for name in self.others
            ),
            {"name": "busy", "when": "job.cpus >= 2", "hpc": [{"queue": QUEUE}]},
            {"name": "rest", "cloud": True},
        ]
        return {
            "sites.yaml": {"sites": [described]},
            "accounts.yaml": {"accounts": accounts},
            "rules.yaml": {"rules": list(self.rules) or rules},
        }
