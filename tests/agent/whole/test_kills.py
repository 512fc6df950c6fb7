"""The agent is killed again and again while 40 Jobs come, run, end and are deleted: each must end as it would have."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.agent.whole.jobs import job_of, unique
from tests.agent.whole.long import LONG, SEED, draw_seed
from tests.agent.whole.stack import LEADS, Stack
from tests.agent.whole.waiting import until

KILLS = 100 if LONG else 20
JOBS = 40


@dataclass(frozen=True)
class Kind:
    """A kind of Job: how it ends, how often its main container starts, and how many Pods it has.

    A kind that is deleted ends nowhere: its containers start at most so often. It would run for longer than the agent is
    killed for, which on a busy machine takes a while to come to anything between two kills.
    """

    make: Callable[[Stack, str], dict[str, Any]]
    outcome: str
    starts: int
    ends: int
    deletion: str = ""


def _init(stack: Stack, name: str) -> dict[str, Any]:
    init = stack.runs.container(name, "sleep 1", name="prepare", cpus=1)
    return job_of(name, [stack.runs.container(name, "sleep 1")], pod={"initContainers": [init]}, annotations={})


KINDS = {
    "short": Kind(lambda stack, name: stack.runs.job(name), "Complete", 1, 1),
    "medium": Kind(lambda stack, name: stack.runs.job(name, "sleep 4"), "Complete", 1, 1),
    "long": Kind(lambda stack, name: stack.runs.job(name, "sleep 15"), "Complete", 1, 1),
    "fails": Kind(lambda stack, name: stack.runs.job(name, "sleep 1; exit 3"), "Failed", 1, 1),
    "retried": Kind(lambda stack, name: stack.runs.job(name, "exit 1", backoffLimit=1), "Failed", 2, 2),
    "indexed": Kind(
        lambda stack, name: stack.runs.job(
            name, "sleep 2", completions=3, parallelism=2, completionMode="Indexed", backoffLimit=6
        ),
        "Complete", 3, 3,
    ),
    "deadline": Kind(
        lambda stack, name: stack.runs.job(name, "sleep 3000", activeDeadlineSeconds=16, backoffLimit=6), "Failed", 1, 0
    ),
    "init": Kind(_init, "Complete", 1, 1),
    "deleted": Kind(lambda stack, name: stack.runs.job(name, "sleep 3000"), "gone", 1, 0, deletion="background"),
    "foreground": Kind(lambda stack, name: stack.runs.job(name, "sleep 3000"), "gone", 1, 0, deletion="foreground"),
}  # fmt: skip


@dataclass
class Workload:
    """40 Jobs that come one after another; some are deleted at a moment of their own."""

    stack: Stack
    rng: random.Random
    seconds: float
    """Over which they come."""
    kinds: dict[str, Kind] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def submit(self) -> None:
        """Apply them all, each at its time; delete those that are to be deleted at theirs."""
        kinds = [list(KINDS)[number % len(KINDS)] for number in range(JOBS)]
        self.rng.shuffle(kinds)
        begun = time.monotonic()
        due: list[tuple[float, str, str]] = []
        for number, word in enumerate(kinds):
            kind, name = KINDS[word], unique(word)
            self.kinds[name] = kind
            self._pass_time(begun + number * self.seconds / JOBS, due)
            self._do("apply", "-f", "-", stdin=kind.make(self.stack, name))
            if kind.deletion:
                due.append((time.monotonic() + self.rng.uniform(0, 12), name, kind.deletion))
        while due:  # however long the last ones took to apply, and others to delete
            self._pass_time(time.monotonic() + 1, due)

    def _pass_time(self, until_then: float, due: list[tuple[float, str, str]]) -> None:
        while (now := time.monotonic()) < until_then:
            for entry in [entry for entry in due if entry[0] <= now]:
                due.remove(entry)
                self._do("delete", "job", entry[1], f"--cascade={entry[2]}", "--wait=false")
            time.sleep(0.05)

    def _do(self, *words: str, stdin: dict[str, Any] | None = None) -> None:
        done = self.stack.user.run(*words, stdin=json.dumps(stdin) if stdin else "")
        if done.rc:
            self.failures.append(f"{words}: {done}")


@pytest.mark.timeout(3000)
def test_every_job_ends_as_it_would_have(stack: Stack) -> None:
    seed = draw_seed()
    stack.notes.append(f"{SEED}={seed}")
    rng = random.Random(seed)
    workload = Workload(stack, random.Random(seed + 1), seconds=KILLS * 4)
    thread = threading.Thread(target=workload.submit)

    leads = 0  # it leads already when the first life begins
    thread.start()
    for _ in range(KILLS):
        _live(stack, rng, leads)
        stack.agent.kill()
        leads = len(stack.agent.logged(LEADS))
        stack.agent.start()
    thread.join()

    assert workload.failures == []
    assert _wrong(stack, workload) == []


def _live(stack: Stack, rng: random.Random, leads: int) -> None:
    """Let the agent live for a while: mostly until it leads and has begun to act, now and then not even so long.

    ``leads`` is how often it had become the leader in the lives before.
    """
    if rng.random() < 0.8:
        until(lambda: len(stack.agent.logged(LEADS)) > leads, what="for the agent to lead", pause=0.05)
        time.sleep(rng.uniform(0, 3))
    else:
        time.sleep(rng.uniform(0, 4))


def _wrong(stack: Stack, workload: Workload) -> list[str]:
    """Wait until all is over, and say of each Job what is not as it would have been."""
    stay = [name for name, kind in workload.kinds.items() if not kind.deletion]
    ended = dict(zip(stay, stack.await_end(*stay, seconds=300), strict=True))
    deleted = [name for name, kind in workload.kinds.items() if kind.deletion]
    stack.await_gone(*deleted, seconds=300)
    until(stack.site.living, lambda jobs: not jobs, what="for an empty queue")
    until(stack.runs.alive, lambda processes: not processes, what="for no process")
    found = []
    for name, kind in workload.kinds.items():
        if not kind.deletion and ended[name] != kind.outcome:
            found.append(f"{name} is {ended[name]}")
        starts, ends = stack.runs.started(name), stack.runs.ended(name)
        if (starts > kind.starts if kind.deletion else starts != kind.starts) or ends != kind.ends:
            found.append(f"{name} started {starts} times and ended {ends} times: {stack.runs.lines(name)}")
        if twice := stack.runs.twice(name):
            found.append(f"{name} ran twice in one Pod: {twice}")
    return found
