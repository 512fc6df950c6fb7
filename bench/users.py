"""Measures an agent with 400 HPC users: threads, open connections and memory, at the start and when they are at rest.

The parts of a leading agent run in this process, between a simulated API server and batch server (``bench.simulated``, ``bench.simulatedbatch``).
The users' hosts are simulated too: directories of this machine that count as open connections once they are used. No
user has a Job. The idle time is the agent's default; users without a Job rest once all their files and jobs were looked
at.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path, PurePath

from bench import simulatedbatch
from bench.many import kubeconfig
from bench.report import Row, write
from bench.whole import QUEUE, SITE, machine, policy, until
from router.agent import sites
from router.agent.batch.commands import BatchCommands
from router.agent.leader.leading import Lead
from router.agent.metrics import Metrics
from router.agent.settings import AgentSettings
from router.agent.users.nowhere import Nowhere
from router.agent.users.seats import Seat, Seats
from router.agent.users.world import World
from router.host import Host
from router.host.local import LocalHost
from router.kube.client import connect
from router.kube.election import Election
from router.kube.events import Recorder
from router.policy import load
from router.reconcile.model import Terms
from router.startup.settings import Address

USERS = 400
MOST_AT_REST = 100
"""Most threads of an agent whose users all rest, except the visited ones."""
LONGEST = 900.0


class SimulatedHost(LocalHost):
    """A directory of this machine; its use counts as an open connection to a user's site helper."""

    def __init__(self, root: PurePath | str) -> None:
        super().__init__(root)
        self.open = False

    def check(self) -> None:
        self.open = True
        super().check()

    def names(self, path: PurePath | str) -> list[str]:
        self.open = True
        return super().names(path)

    def rest(self, seconds: float) -> None:
        self.open = self.open and seconds > 0


def main() -> None:
    """Lead, measure when all users are attended to, and again when all users rest or the time is over."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--users", type=int, default=USERS, help=f"the promise is about {USERS}")
    parser.add_argument("--seconds", type=float, default=LONGEST, help="for which rest is waited for")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bg-bench-") as name, _world(Path(name), asked.users) as (world, hosts):
        lead = Lead(world)
        before = _look("before the lead", hosts)
        world.recorder.start()
        world.election.start()
        world.election.wait(60)
        lead.stand_by()
        lead.start()
        until(lambda: not lead.ready, "all users attended to", LONGEST, pause=1.0)
        busy = _look("all users attended to", hosts)
        end = time.monotonic() + asked.seconds
        while time.monotonic() < end and threading.active_count() > MOST_AT_REST:
            lead.turn()
            time.sleep(1)
        rest = _look("users at rest", hosts, bound=MOST_AT_REST)
        kept = write("users", [*machine("before"), *before, *busy, *rest, *machine("after")])
    os._exit(not kept)  # without waiting for its threads


def _look(when: str, hosts: dict[str, SimulatedHost], bound: float | None = None) -> list[Row]:
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    resident = next(int(words[1]) / 1024 for words in lines if words[0] == "VmRSS:")
    return [
        Row(f"{when}: threads", threading.active_count(), "", bound),
        Row(f"{when}: connections to simulated hosts", sum(one.open for one in hosts.values()), "", bound),
        Row(f"{when}: memory", resident, "MiB"),
    ]


@contextmanager
def _world(root: Path, count: int) -> Iterator[tuple[World, dict[str, SimulatedHost]]]:
    """The objects that exist before an agent leads, and the users' hosts."""
    (root / "server").mkdir()
    fleet = simulatedbatch.Fleet(0, str(root / "none"), "nobody", QUEUE)
    program = simulatedbatch.prepare_batch_server(fleet, root / "server")
    (root / "fleet.json").write_text(json.dumps({"fleet": asdict(fleet), "template": {}, "site": SITE}))
    argv = [sys.executable, "-m", "bench.simulated", str(root / "fleet.json")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as api:
        try:
            assert api.stdout is not None
            hosts = {f"user{number:03}": SimulatedHost(root / f"user{number:03}") for number in range(count)}
            yield _made(root, kubeconfig(root, api.stdout.readline().strip()), program, hosts), hosts
        finally:
            api.kill()


def _made(root: Path, reached: Path, program: Path, hosts: dict[str, SimulatedHost]) -> World:
    found = load({name: json.dumps(document) for name, document in policy(root).items()})
    site = sites.site_of(found, SITE)
    free = Address("127.0.0.1", 0)
    settings = AgentSettings(
        site=SITE, policy=root, public_key=root, listen=free, metrics=free, address="127.0.0.1", self_signed=True
    )
    api, metrics = connect(str(reached)), Metrics()
    commands = sites.commands_of(site, root / "server", f"/bin/sh {program}")

    def seat(user: str, host: Host, place: Path) -> Seat:
        return Seat(user, str(place), host, BatchCommands(host, sites.system_of(site), commands, user, 60, metrics))

    election = Election(api, settings.namespace, f"batchgate-{SITE}", "bench", 15)
    return World(
        settings=settings,
        site=site,
        cluster=simulatedbatch.CLUSTER,
        gpu_resources={},
        terms=lambda _: Terms(),
        api=api,
        seats=Seats(hosts, make=lambda user: seat(user, hosts[user], root / user), refusal=lambda _: ""),
        nobody=seat("", Nowhere(), root),
        metrics=metrics,
        election=election,
        recorder=Recorder(api, election.identity),
        keys=dict,
    )


if __name__ == "__main__":
    main()
