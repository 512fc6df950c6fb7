"""Runs the study of ``bench.study`` on an OpenPBS or TORQUE of this machine: the one of the tests marked ``pbs``.

It needs what those tests need (tests/agent/pbs/site.py); without it this is skipped. All jobs go to one queue, which is to
have the execution hosts for itself. By hand each is a ``qsub`` with one ``apptainer exec``.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from bench import drawn, study, ways
from bench.drawn import Task
from bench.whole import demand, run, until
from router.controlplane import building
from router.errors import ConfigError
from router.kube.client import connect
from tests.agent.pbs import conftest, server
from tests.agent.pbs.site import ADA, IMAGE, QUEUE, RUNS, SITE, as_user, obstacle

_AT_ONCE = 100
"""Jobs that one command asks about."""
_RESERVED, _FEW = 1024, 20
_TIME_WAIT = "06"
"""In ``/proc/net/tcp``: ``TCP_TIME_WAIT`` of Linux' ``tcp_states.h``."""
_KEPT = "86400"
"""Seconds for which TORQUE keeps ended jobs: until the last one has ended, and longer."""


@contextmanager
def _standing() -> Iterator[study.Bench]:
    demand(obstacle())
    hosts = server.hosts()
    if len(set(hosts.values())) != 1:
        raise SystemExit(f"Error: the free hosts must have as many cores as each other, at least one host: {hosts}")
    cores = next(iter(hosts.values()))
    try:
        building.ensure(lambda words: print(words, file=sys.stderr))
        with (
            server.setting("keep_completed", _KEPT) if server.TORQUE else nullcontext(),
            tempfile.TemporaryDirectory(prefix="bg-bench-") as name,
            conftest.founded(Path(name), plain_node=False) as cluster,
            conftest.attended(
                cluster,
                named={"queue": drawn.declared(len(hosts), cores)},
                rules=drawn.rules(QUEUE),
                times={"--lost-seconds": study.LOST_SECONDS},
            ) as stack,
        ):
            place = ways.Place(
                plane=cluster.plane,
                api=connect(str(cluster.plane.kubeconfig("ada"))),
                lines=stack.agent.lines,
                hand=ways.ByHand(_submit, _left, _held),
                queue=f"{SITE}/{QUEUE}",
                nodes=len(hosts),
                cores=cores,
                shared=RUNS.directory,
                documents=stack.site.documents(),
                rest=_rest,
            )
            agent = study.Victim(stack.agent.kill, stack.agent.start)
            pbs = study.Victim(lambda: server.kill("server"), server.start)
            yield study.Bench(place, (agent, pbs), server.start)
    except ConfigError as error:
        raise SystemExit(f"Error: {error}") from error


def _submit(task: Task, words: str) -> str:
    inside = f"apptainer --quiet exec --bind {RUNS.directory} {IMAGE} /bin/sh -c"
    script = f'#!/bin/bash\nexec {inside} "{words}"\n'
    memory = f"{drawn.MEBIBYTES}mb"
    chunk = f"nodes=1:ppn={task.cores},mem={memory}" if server.TORQUE else f"select=1:ncpus={task.cores}:mem={memory}"
    asked = ["-q", QUEUE, "-l", chunk, "-l", f"walltime={task.minutes * 60}", "-j", "oe", "-o", "/dev/null"]
    return run([*as_user(ADA), server.program("qsub"), *asked, "-"], script).strip()


def _left(ids: Sequence[str]) -> bool:
    return not set(server.living(ADA)).isdisjoint(ids)


def _held(ids: Sequence[str]) -> list[float]:
    """In whole seconds, as the server counts them."""
    found = []
    for first in range(0, len(ids), _AT_ONCE):
        said = server.ok(*server.DETAILS, *ids[first : first + _AT_ONCE])
        for hours, minutes, seconds in re.findall(r"resources_used\.walltime = (\d+):(\d+):(\d+)", said):
            found.append(int(hours) * 3600 + int(minutes) * 60 + float(seconds))
    if len(found) != len(ids):
        raise SystemExit(f"Error: the server tells what {len(found)} of {len(ids)} jobs have used")
    return found


def _rest() -> None:
    """Wait until the ports of earlier commands are free.

    A login to the server takes one of the host's ports below 1024, which stays taken for a minute after it. OpenPBS uses
    512 of them: when none is left, each command waits (measured on 23.06.06). To ask what 500 jobs have used takes 500.
    """
    until(lambda: _taken() < _FEW, "ports below 1024", 300, pause=1.0)


def _taken() -> int:
    """How many of this host's ports below 1024 belong to connections that have ended (TIME_WAIT)."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(
        state == _TIME_WAIT and int(local.rpartition(":")[2], 16) < _RESERVED for _, local, _, state, *_ in lines
    )


if __name__ == "__main__":
    study.main("torque" if server.TORQUE else "openpbs", __doc__, _standing)
