"""Jobs of every kind that come, run, end and are deleted while a test does its harm, and what must be true of each."""

from __future__ import annotations

import contextlib
import itertools
import json
import pwd
import random
import threading
import time
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from router import names
from tests.agent.bed import faults
from tests.agent.bed.conftest import Stack
from tests.agent.bed.jobs import SECONDS
from tests.agent.bed.site import PEOPLE
from tests.agent.bed.tally import Line, await_empty, counted, lines, twice
from tests.agent.whole.jobs import LABEL
from tests.agent.whole.waiting import until

GONE = "gone"
_LOST = {names.REASON_JOB_LOST, names.REASON_NODE_FAILED, names.REASON_JOB_DELETED, names.REASON_JOB_FAILED}
DRAIN = 900.0
"""Seconds for all Jobs to end once the harm is over: a run that is held to be lost is waited for, and run again."""


@dataclass(frozen=True)
class Kind:
    """A kind of Job: how it ends, how often its container starts, and how often that comes to its own end.

    One that is deleted ends nowhere, and its container starts at most so often.
    """

    body: str
    outcome: str
    starts: int
    ends: int
    fields: dict[str, Any] = field(default_factory=dict)
    deletion: str = ""


_FINAL = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]}
_INDEXED = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimit": 6}
KINDS = {
    "short": Kind("true", "Complete", 1, 1),
    "long": Kind("sleep 15", "Complete", 1, 1),
    "fails": Kind("tell end; exit 3", "Failed", 1, 1, {"podFailurePolicy": _FINAL}),
    "indexed": Kind("sleep 2", "Complete", 3, 3, _INDEXED),
    "deadline": Kind("sleep 600", "Failed", 1, 0, {"activeDeadlineSeconds": 20, "backoffLimit": 6}),
    "deleted": Kind("sleep 600", GONE, 1, 0, deletion="background"),
    "foreground": Kind("sleep 600", GONE, 1, 0, deletion="foreground"),
}


@dataclass
class Traffic:
    """Jobs of two people that come one after another, each kind as often as any other; some are deleted soon after."""

    stack: Stack
    rng: random.Random
    every: float
    """Seconds from one to the next."""
    forgetful: bool = False
    """Whether the batch system may lose jobs that it had taken, or end them by itself. Then the Jobs have Kubernetes' own
    ``backoffLimit`` of 6, and run another Pod in place of one that says so."""
    kinds: dict[str, Kind] = field(default_factory=dict)
    """By the Job's name."""
    failures: list[str] = field(default_factory=list)
    """Commands of theirs that failed: nothing that is killed here stands in their way."""
    _before: frozenset[str] = field(default_factory=lambda: frozenset(_processes()))

    @contextlib.contextmanager
    def coming(self) -> Iterator[None]:
        """Let them come until this is left."""
        over = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            come = pool.submit(self._come, over)
            try:
                yield
            finally:
                over.set()
            come.result()

    def _come(self, over: threading.Event) -> None:
        due: list[tuple[float, str, str]] = []
        who = itertools.cycle((self.stack.ada, self.stack.ben))
        words: list[str] = []
        while not over.is_set():
            words = words or self.rng.sample(sorted(KINDS), len(KINDS))
            kind = KINDS[words.pop()]
            again = {"backoffLimit": 6} if self.forgetful else {}
            made = counted(kind.body, **{**again, **kind.fields})
            name = made["metadata"]["name"]
            self.kinds[name] = kind
            done = next(who).run("apply", "-f", "-", stdin=json.dumps(made))
            if done.rc:
                self.failures.append(f"{name}: {done}")
            if kind.deletion:
                due.append((time.monotonic() + self.rng.uniform(0, 15), name, kind.deletion))
            following = time.monotonic() + self.every
            while not over.wait(max(0.0, min([following, *(when for when, *_ in due)]) - time.monotonic())):
                self._delete([one for one in due if one[0] <= time.monotonic()], due)
                if time.monotonic() >= following:
                    break
        self._delete(list(due), due)

    def _delete(self, now: Sequence[tuple[float, str, str]], due: list[tuple[float, str, str]]) -> None:
        for one in now:
            due.remove(one)
            done = self.stack.ada.run("delete", "job", one[1], f"--cascade={one[2]}", "--wait=false")
            if done.rc:
                self.failures.append(f"{one}: {done}")

    def wrong(self) -> list[str]:
        """Wait until all is over; what is not as it would have been without any harm, and what is left."""
        ended = self._await_ends()
        await_empty(*self.kinds)
        until(self._left, lambda left: not left, seconds=SECONDS, what="for no process of a Job")
        lost = self.lost() if self.forgetful else {}
        found = [*self.failures]
        for name, kind in self.kinds.items():
            told = lines(name)
            starts = _as_often(told, lost, "start", kind.starts)
            if kind.deletion:
                starts = self.forgetful or sum(line.event == "start" for line in told) <= kind.starts
            if ended[name] != kind.outcome or not starts or not _as_often(told, lost, "end", kind.ends):
                found.append(f"{name} is {ended[name]} where {kind} was meant; told {told}")
            if both := _at_once(told):
                found.append(f"{name} ran at once in {both}: {told}")
        return found + [f"{name} ran twice in one Pod: {starts}" for name, starts in twice([*self.kinds]).items()]

    def lost(self) -> dict[str, str]:
        """Pods of which the agent says that the batch system has lost or ended them, and how, by their uid."""
        pods = [one for one in self.stack.ada.every("pods") if one["metadata"]["labels"].get(LABEL) in self.kinds]
        return {
            one["metadata"]["uid"]: f"{one['metadata']['name']}: {one['status']['message']}"
            for one in pods
            if one["status"].get("reason") in _LOST
        }

    def _await_ends(self) -> dict[str, str]:
        """How each Job ended; those that were deleted are gone, and so are their Pods."""
        text = '{range .items[*]}{.metadata.name}{" "}{.status.conditions[?(@.status=="True")].type}{"\\n"}{end}'
        pods = f'{{range .items[*]}}{{.metadata.labels.{LABEL}}}{{"\\n"}}{{end}}'
        deleted = {name for name, kind in self.kinds.items() if kind.deletion}

        def look() -> dict[str, str]:
            if self.forgetful:
                faults.resume()
            shown = [line.split() for line in self.stack.ada.ok("get", "jobs", "-o", f"jsonpath={text}").splitlines()]
            left = set(self.stack.ada.ok("get", "pods", "-o", f"jsonpath={pods}").splitlines())
            ends = {name: next((one for one in types if one in {"Complete", "Failed"}), "") for name, *types in shown}
            return {name: "is left" if name in deleted & left else ends.get(name, GONE) for name in self.kinds}

        def over(seen: dict[str, str]) -> bool:
            return all(seen[name] == GONE if name in deleted else seen[name] for name in seen)

        return until(look, over, seconds=DRAIN, pause=2, what="for all Jobs to end")

    def _left(self) -> list[str]:
        """What the two people's Jobs have left running."""
        return [words for one, words in _processes().items() if one not in self._before]


def _as_often(told: Sequence[Line], lost: Container[str], event: str, wanted: int) -> bool:
    """Whether an event was told as often as it should be; of Pods that were lost it may count, or have been in vain."""
    pods = [line.pod for line in told if line.event == event]
    return sum(pod not in lost for pod in pods) <= wanted <= len(pods)


def _at_once(told: Sequence[Line]) -> list[str]:
    """Pods that came to their end after another Pod of the same index had started."""
    last: dict[str, str] = {}
    found = []
    for line in told:
        if line.event == "start":
            last[line.index] = line.pod
        elif last.get(line.index) != line.pod:
            found.append(line.pod)
    return found


_WAYS = ("sshd", "sshfs", "ssh ", "sudo", "sitehelper", "sftp", "(sd-pam)")
"""What runs as a user without being of a Job: the ways there, and what was started with the bed."""


def _processes() -> dict[str, str]:
    """Command lines of the two people's processes that may be of a Job, by pid and time of start."""
    uids = {pwd.getpwnam(user).pw_uid for user in PEOPLE.values()}
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            uid = entry.stat().st_uid
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            since = (entry / "stat").read_text().rpartition(")")[2].split()[19]
        except OSError:
            continue
        if uid in uids and words and not any(way in words for way in _WAYS):
            found[f"{entry.name} {since}"] = words
    return found
