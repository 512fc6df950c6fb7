"""Measures an agent with 10,000 jobs: status commands, processor time at the default interval, memory.

The agent is the real one, a process of its own with default times. The API server and the batch server are simulated
(``bench.simulated``, ``bench.simulatedbatch``): 10,000 jobs of ours, of which a fifth runs, among 50,000 of other users
and a history of 200,000. First the agent adopts all jobs and writes each Pod's status. The promises are about the time
after that, when nothing changes. Memory is the agent's maximum.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench import simulatedbatch
from bench.report import Row, write
from bench.whole import QUEUE, SITE, job, machine, policy, scraped, until
from router.agent.batch.questions import MOST_WORDS
from router.agent.settings import CYCLE_SECONDS
from router.controlplane import ports
from router.controlplane.options import ADA
from router.gate import judging as gate
from router.placement import signing
from router.pod.layout import site_directory
from router.policy import load
from router.policy.decision import NO_QUEUE_STATES, Requester
from router.workload.cluster import UNKNOWN_CLUSTER

SIZE = 10_000
SECONDS = 120.0
"""Seconds for which the quiet agent is watched: four cycles."""
AT_REST = 0.8
"""Least time between two cycles of an agent at rest, as a part of the default interval."""
LONGEST = 1800.0
STATUS = ("list", "details", "find")
"""Kinds of commands that only ask."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Look:
    """An agent at one moment: processor seconds of itself and of its commands, MiB of memory, counts of its metrics."""

    when: float
    own: float
    commands: float
    resident: float
    most: float
    asked: float
    cycles: float
    steps: float


@dataclass(frozen=True)
class Agent:
    """The agent's process, and the address of its metrics."""

    process: subprocess.Popen[bytes]
    metrics: str

    def look(self) -> Look:
        """All present figures. If the agent has ended, the program ends too."""
        if self.process.poll() is not None:
            raise SystemExit(f"the agent ended with code {self.process.returncode}")
        proc = Path(f"/proc/{self.process.pid}")
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        times = [int(field) / _TICKS for field in fields[11:15]]
        lines = (line.split() for line in (proc / "status").read_text().splitlines())
        memory = {words[0]: int(words[1]) / 1024 for words in lines if words[0] in {"VmRSS:", "VmHWM:"}}
        return Look(
            when=time.monotonic(),
            own=times[0] + times[1],
            commands=times[2] + times[3],
            resident=memory["VmRSS:"],
            most=memory["VmHWM:"],
            asked=sum(self.metric("commands_total", kind=kind) for kind in STATUS),
            cycles=self.metric("cycle_seconds_count"),
            steps=self.metric("steps_total"),
        )

    def metric(self, name: str, **labels: str) -> float:
        return scraped(self.metrics, f"batchgate_agent_{name}", **labels)


def main() -> None:
    """Start the agent and both servers, wait until nothing changes, watch the agent for a while."""
    asked = _arguments()
    before = machine("before")
    with tempfile.TemporaryDirectory(prefix="bg-bench-") as name, _agent(Path(name), asked.size) as agent:
        begun = time.monotonic()
        until(lambda: _known(agent) == asked.size, "all jobs known", LONGEST, pause=1.0)
        known = time.monotonic() - begun
        _await_rest(agent)
        settled = time.monotonic() - begun
        first = agent.look()
        _await_cycles(agent, first, asked.seconds)
        last = agent.look()
    rows = [*before, *_rows(first, last, asked.size), *machine("after")]
    rows[len(before) : len(before)] = [
        Row(f"from the start of the process to {asked.size} jobs known", known, "s"),
        Row("from the start of the process to the first cycle at rest", settled, "s"),
        Row("processor time until then", first.own, "s"),
    ]
    sys.exit(not write("many", rows))


def _rows(first: Look, last: Look, count: int) -> list[Row]:
    seconds, cycles = last.when - first.when, last.cycles - first.cycles
    return [
        Row("cycles looked at", cycles, ""),
        Row("plans made for Pods meanwhile", last.steps - first.steps, ""),
        Row(f"{count} jobs: status commands a cycle", (last.asked - first.asked) / cycles, "", 2.0),
        Row(f"{count} jobs: of one core, the agent", (last.own - first.own) / seconds * 100, "%", 20.0),
        Row("the same, the commands that it runs", (last.commands - first.commands) / seconds * 100, "%"),
        Row("memory of the agent now", last.resident, "MiB"),
        Row("memory of the agent at its most", last.most, "MiB", 250.0),
    ]


def _await_rest(agent: Agent) -> None:
    """Wait for a cycle at the default interval, with at most twice ``MOST_WORDS`` plans since the cycle before."""
    end = time.monotonic() + LONGEST
    before = agent.look()
    while time.monotonic() < end:
        cycles = before.cycles
        until(lambda: agent.metric("cycle_seconds_count") > cycles, "another cycle", LONGEST, pause=1.0)  # noqa: B023
        now = agent.look()
        if now.when - before.when > AT_REST * CYCLE_SECONDS and now.steps - before.steps <= 2 * MOST_WORDS:
            return
        before = now
    raise SystemExit(f"the agent did not come to rest in {LONGEST:.0f} s")


def _await_cycles(agent: Agent, first: Look, seconds: float) -> None:
    """Wait for ``seconds``, and then for the end of a cycle."""
    time.sleep(seconds)
    cycles = agent.metric("cycle_seconds_count")
    until(lambda: agent.metric("cycle_seconds_count") > max(cycles, first.cycles), "another cycle", LONGEST)


def _known(agent: Agent) -> float:
    """How many Pods have a batch job of a known state."""
    return agent.metric("jobs", state="Running") + agent.metric("jobs", state="Queued")


@contextmanager
def _agent(root: Path, count: int) -> Iterator[Agent]:
    """The agent between the two simulated servers."""
    for directory in ("site", "policy", "server"):
        (root / directory).mkdir()
    documents = {name: yaml.safe_dump(document) for name, document in policy(root).items()}
    for name, text in documents.items():
        (root / "policy" / name).write_text(text)
    key = Ed25519PrivateKey.generate()
    (root / "signing.pub").write_bytes(signing.public_pem([key.public_key()]))
    user = getpass.getuser()
    place = site_directory(str(root / "site"), user, SITE, simulatedbatch.CLUSTER)
    fleet = simulatedbatch.Fleet(count, place, user, QUEUE)
    template, script = _routed(documents, key)
    simulatedbatch.write_directories(fleet, script)
    program = simulatedbatch.prepare_batch_server(fleet, root / "server")
    described = {"fleet": asdict(fleet), "template": template, "site": SITE}
    (root / "fleet.json").write_text(json.dumps(described))
    argv = [sys.executable, "-m", "bench.simulated", str(root / "fleet.json")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as api:
        try:
            assert api.stdout is not None
            reached = kubeconfig(root, api.stdout.readline().strip())
            with _started(root, reached, program) as agent:
                yield agent
        finally:
            api.kill()


def _routed(documents: dict[str, str], key: Ed25519PrivateKey) -> tuple[dict[str, Any], bytes]:
    """The Pod template and script of a Job that the gate has routed."""
    opened = gate.Gate(load(documents), UNKNOWN_CLUSTER, NO_QUEUE_STATES, signing.Signer(key, {}), int(time.time()))
    judged = gate.judge(job("sweep", "exec sleep 86400"), requester=Requester(ADA.name, (), "default"), gate=opened)
    assert judged.script is not None, judged.decision
    return judged.routed["spec"]["template"], judged.script.text.encode()


def kubeconfig(root: Path, port: str) -> Path:
    """Write a kubeconfig for plain HTTP without credentials, as with ``kubectl proxy``."""
    text = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path = root / "kubeconfig"
    path.write_text(yaml.safe_dump(text))
    return path


@contextmanager
def _started(root: Path, kubeconfig: Path, program: Path) -> Iterator[Agent]:
    (port,) = ports.free(1, "127.0.0.1")
    metrics = f"127.0.0.1:{port}"
    options = {
        "--site": SITE,
        "--policy": root / "policy",
        "--public-key": root / "signing.pub",
        "--kubeconfig": kubeconfig,
        "--listen": "127.0.0.1:0",
        "--metrics": metrics,
        "--address": "127.0.0.1",
        "--cluster-id": simulatedbatch.CLUSTER,
        "--local-state": root / "server",
        "--local-commands": f"/bin/sh {program}",
    }
    words = [str(word) for pair in options.items() for word in pair]
    log = root / "agent.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "router", "agent", "--self-signed", *words], stdout=output, stderr=output
        )
    try:
        yield Agent(process, metrics)
    except SystemExit:
        print("".join(log.read_text().splitlines(keepends=True)[-20:]), file=sys.stderr)
        raise
    finally:
        process.terminate()
        process.wait(60)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=SIZE, help=f"jobs of ours; the promises are about {SIZE}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for which the quiet agent is watched")
    return parser.parse_args()


if __name__ == "__main__":
    main()
