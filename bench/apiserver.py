"""Compares routed Jobs through a real kube-apiserver with a no-op Flask webhook that is registered in the same way.

One API server asks both webhooks in turns, for a namespace each. The creations are first dry runs, then stored, by one
client and by eight. Each answer for a routed Job must name its virtual node. Jobs are suspended, so that only their
creation is measured. At the end Jobs run from creation to end, and the growth of etcd's file is divided by their
number.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import statistics
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bench import etcd, serving
from bench.creating import Client, Target, Work, at_once, timed
from bench.report import Row, write
from bench.whole import JOBS, machine, sized, until, whole
from router.controlplane import building, installing
from router.controlplane.options import ADA, APISERVER, RESEARCHERS, Options
from router.controlplane.plane import ControlPlane
from router.controlplane.start import control_plane
from router.notation import documents

OURS, NOOP = "default", "noop"
SIZE = 1000
"""Number of Jobs that run from creation to end."""
TURNS = 5
ONE, EACH, CLIENTS = 120, 30, 8
"""Creations in a turn by a single client, and by each of several clients; the number of these."""
SECONDS = 1800.0
JOB, MPI = "02-large-goes-to-hpc", "03-mpi-over-two-nodes"
MARK = {OURS: b'"nodeName":"', NOOP: b'"kind":"Job"'}
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Side:
    """The cost of one webhook's Jobs: milliseconds of each creation by its kind, CPU seconds, number of creations."""

    times: dict[str, list[float]] = field(default_factory=dict)
    apiserver: float = 0.0
    webhook: float = 0.0
    creations: int = 0


@dataclass(frozen=True)
class Asked:
    """A control plane that asks both webhooks, and the webhooks by namespace."""

    plane: ControlPlane
    target: Target
    webhooks: dict[str, serving.Serving]


def main() -> None:
    """Print all figures; exit code 1 where a promise is missed."""
    count = sized(SIZE).parse_args().size
    building.ensure(lambda words: print(words, file=sys.stderr))
    rows = machine("before")
    with _asked() as asked:
        rows += _creations(asked) + _sizes(asked)
    rows += [_history(count), *machine("after")]
    sys.exit(not write("apiserver", rows))


@contextlib.contextmanager
def _asked() -> Iterator[Asked]:
    options = Options(editors={OURS: (RESEARCHERS,), NOOP: (RESEARCHERS,)}, raised_limits=True)
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bg-bench-", ignore_cleanup_errors=True)))
        serving.make_certificates(root)
        plane = stack.enter_context(control_plane(root / "plane", options))
        installing.install(plane)
        webhooks = {
            OURS: stack.enter_context(serving.webhook(root)),
            NOOP: stack.enter_context(serving.noop(root)),
        }
        installing.register(plane, f"https://localhost:{webhooks[OURS].port}", root / "ca.crt", [OURS])
        _register_noop(plane, webhooks[NOOP].port, root / "ca.crt")
        yield Asked(plane, _target(plane, root), webhooks)


def _register_noop(plane: ControlPlane, port: int, ca: Path) -> None:
    """Register the no-op webhook like ours, for its own namespace and server."""
    found = yaml.safe_load((installing.MANIFESTS / "registration" / "webhook.yaml").read_text())
    found["metadata"]["name"] = NOOP
    found["webhooks"][0] |= {
        "name": "noop.batchgate.dev",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NOOP}},
        "clientConfig": {
            "url": f"https://localhost:{port}/mutate",
            "caBundle": base64.b64encode(ca.read_bytes()).decode(),
        },
    }
    plane.apply(found)


def _target(plane: ControlPlane, root: Path) -> Target:
    """The API server, with the user's certificate and key written to one file."""
    (user,) = yaml.safe_load(plane.kubeconfig(ADA.name).read_text())["users"]
    file = root / "ada.pem"
    file.touch(mode=0o600)
    keys = ("client-certificate-data", "client-key-data")
    file.write_bytes(b"".join(base64.b64decode(user["user"][key]) for key in keys))
    return Target(plane.place.ports.apiserver, plane.ca_file, file)


def _jobs(example: str, count: int) -> list[dict[str, Any]]:
    made = documents.parse((serving.EXAMPLES / example / "job.yaml").read_text(), example)[0].value
    made["metadata"] = {**made["metadata"], "generateName": "bench-"}
    del made["metadata"]["name"]
    made["metadata"].pop("namespace", None)
    made["spec"]["suspend"] = True
    return [deepcopy(made) for _ in range(count)]


def _creations(asked: Asked) -> list[Row]:
    sides = {OURS: Side(), NOOP: Side()}
    for turn in range(-1, TURNS):
        for dry in (True, False):
            for several in (False, True):
                for namespace, side in sides.items():
                    _turn(asked, namespace, side if turn >= 0 else Side(), dry=dry, several=several)
    ours, noop = sides[OURS], sides[NOOP]
    rows = [
        Row("API server's CPU: no-op", 1000 * noop.apiserver / noop.creations, "ms"),
        Row("API server's CPU: routed", 1000 * ours.apiserver / ours.creations, "ms"),
        Row(
            "API server's CPU: routed, times the no-op's",
            (ours.apiserver / ours.creations) / (noop.apiserver / noop.creations),
            "",
            1.5,
        ),
        Row("webhook's CPU: no-op", 1000 * noop.webhook / noop.creations, "ms"),
        Row("webhook's CPU: routed", 1000 * ours.webhook / ours.creations, "ms"),
    ]
    for how, bound in (("1 client", 1.5), (f"{CLIENTS} clients", 1.7)):
        for what in ("tried", "stored"):
            mine, theirs = (statistics.median(side.times[f"{what}, {how}"]) for side in (ours, noop))
            rows += [
                Row(f"creation, {what}, {how}: no-op, median", theirs, "ms"),
                Row(f"creation, {what}, {how}: routed, median", mine, "ms"),
                Row(f"creation, {what}, {how}: routed, times the no-op's", mine / theirs, "", bound),
            ]
    return rows


def _turn(asked: Asked, namespace: str, side: Side, *, dry: bool, several: bool) -> None:
    pids = asked.plane.components[APISERVER].pid, asked.webhooks[namespace].worker()
    before = [_cpu(pid) for pid in pids]
    works = [
        Work(asked.target, namespace, _jobs(JOB, EACH if several else ONE), MARK[namespace], dry)
        for _ in range(CLIENTS if several else 1)
    ]
    found = at_once(works) if several else timed(works[0])
    apiserver, webhook = (_cpu(pid) - start for pid, start in zip(pids, before, strict=True))
    how = f"{CLIENTS} clients" if several else "1 client"
    side.times.setdefault(f"{'tried' if dry else 'stored'}, {how}", []).extend(found)
    side.apiserver += apiserver
    side.webhook += webhook
    side.creations += len(found)


def _cpu(pid: int) -> float:
    """CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _sizes(asked: Asked) -> list[Row]:
    """Sizes of routed Jobs as they are stored (Kubernetes' protobuf), and of the answers to their creation."""
    rows = []
    for example, bound in ((JOB, 5.0), (MPI, 6.0)):
        answer = Client(asked.target).create(OURS, _jobs(example, 1)[0], dry=False)
        assert MARK[OURS] in answer
        name = json.loads(answer)["metadata"]["name"]
        stored = _stored(asked, f"/apis/batch/v1/namespaces/{OURS}/jobs/{name}")
        rows += [
            Row(f"{example}: stored", stored / 1000, "KB", bound),
            Row(f"{example}: answer to its creation", len(answer) / 1000, "KB"),
        ]
    return rows


def _stored(asked: Asked, path: str) -> int:
    """The size of an object in the API server's protobuf, the form that it stores in etcd."""
    request = urllib.request.Request(
        f"https://127.0.0.1:{asked.target.port}{path}", headers={"Accept": "application/vnd.kubernetes.protobuf"}
    )
    with urllib.request.urlopen(request, context=asked.target.context(), timeout=60) as reply:
        return len(reply.read())


def _history(count: int) -> Row:
    """The growth of etcd's file for each Job that runs from creation to end."""
    with whole() as way:
        before = etcd.bytes_used(way.stack.plane)
        way.create([f"history-{number:04}" for number in range(count)], "true")

        def over() -> bool:
            jobs = way.api.get(JOBS)["items"]
            return sum(1 for one in jobs if one.get("status", {}).get("succeeded")) == count

        until(over, "the end of all Jobs", SECONDS, pause=5.0)
        grown = etcd.bytes_used(way.stack.plane) - before
    return Row(f"etcd's history of {count} routed Jobs, from create to Complete: each", grown / count / 1000, "KB")


if __name__ == "__main__":
    main()
