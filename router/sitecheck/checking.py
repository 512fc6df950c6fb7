"""``batchgate site check``: submits the probes, observes them, and passes the observations to ``router.preflight``.

Shell (threads, a clock). The probes of all users are submitted first, to see which user sees whose jobs. Then each
user's probes are followed in a thread of their own. At the end the jobs are always deleted, and the probes' directories
removed.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from router.agent import sites
from router.agent.batch.commands import BatchCommands
from router.agent.batch.jobs import BatchJobs
from router.agent.metrics import Metrics
from router.agent.submission import images
from router.errors import BatchError, ConfigError
from router.host import Host
from router.host.reach import UserHosts
from router.hpc import BatchSystem, Commands, Submission, job_name
from router.pod import layout
from router.policy.model import Policy
from router.preflight import LAUNCHER, Line, Mark, jobs, nodes, probe
from router.preflight.queues import queue_lines
from router.preflight.seen import first
from router.site.schema import Runtime, Site
from router.sitecheck.imagecheck import QUESTION, imagepull_line
from router.sitecheck.probing import Followed, Probe, Stopped, Ways

CLUSTER: Final = "preflight"
"""Takes a cluster's place in the names of probes and of their directory; the empty directory stays."""
_OURS: Final = "workDir below a directory that the user may write"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to check. ``wait``: seconds that a probe may stay queued; ``command``: seconds for one command.

    :param own: the name of this process's user
    """

    site: Site
    users: tuple[str, ...]
    own: str
    commands: Commands
    wait: float = 600.0
    command: float = 60.0


def wanted_of(policy: Policy, name: str, users: tuple[str, ...], own: str) -> Wanted:
    """The site and its users: the given ones, else all that accounts name. Raises ConfigError if there are none."""
    site = sites.site_of(policy, name)
    found = users or tuple(sorted(sites.users_of(site, policy.accounts, own)))
    if not found:
        raise ConfigError(f"site {name}: no account names a user of it; write `as` in accounts, or --as USER")
    for user in found:
        sites.demand_account(site, user)
    return Wanted(site, found, own, sites.system_of(site).DEFAULT)


def with_queue(wanted: Wanted, state: Path | None, prefix: str) -> Wanted:
    """The same with the site's commands, also for an embedded queue. Raises ConfigError."""
    return replace(wanted, commands=sites.commands_of(wanted.site, state, prefix))


def check(policy: Policy, wanted: Wanted, stopping: threading.Event) -> tuple[Line, ...]:
    """All lines, in the order of the users. After ``stopping`` it returns early, with the lines so far."""
    with ExitStack() as stack:
        reach = UserHosts(wanted.site, wanted.own)
        stack.callback(reach.close)
        visits = [_Visit(policy, wanted, user, reach, stopping) for user in wanted.users]
        pool = stack.enter_context(ThreadPoolExecutor(max_workers=8))
        for visit in visits:
            stack.callback(visit.leave)
        list(pool.map(_Visit.begin, visits))
        for visit in visits:
            visit.look_around(visits)
        list(pool.map(_Visit.follow, visits))
        list(pool.map(_Visit.leave, visits))
    return tuple(line for visit in visits for line in visit.lines)


class _Visit:
    """One user's probes on the site, from the first request to the clean-up."""

    def __init__(self, policy: Policy, wanted: Wanted, user: str, reach: UserHosts, stopping: threading.Event) -> None:
        self.user = user
        self.lines: list[Line] = []
        self.one: Probe | None = None
        self._two: dict[Probe, tuple[str, ...]] = {}
        self._made: list[Probe] = []
        self._account = probe.account_of(policy.accounts, wanted.site.name, user)
        self._wanted = wanted
        self._site = wanted.site
        self._system: BatchSystem = sites.system_of(wanted.site)
        self._reach = reach
        self._stopping = stopping
        self._root = PurePosixPath(layout.site_directory(wanted.site.work_dir, user, wanted.site.name, CLUSTER))
        self._directory = self._root / secrets.token_hex(6)
        self._host: Host | None = None
        self._batch: BatchCommands | None = None

    def begin(self) -> None:
        """Reach the host, check files and queues, submit the probes."""
        if not self._reached():
            return
        self._say(self._version, "versions", "the batch system's version")
        self._say(self._queues, "queues", "figures of all queues")
        if self._site.pull == "host" and self._site.runtime is not Runtime.HOST:
            self._say(self._imagepull, "imagepull", "a program that pulls images")
        self._say(self._submit, "probe", "a job is taken")

    def look_around(self, visits: list[_Visit]) -> None:
        """Check which users see whose jobs, while all probes exist."""
        self._say(lambda: self._visible(visits), "own-jobs", "a list of jobs")
        self._say(self._observed, "observer", "the probe is seen by the observer")

    def follow(self) -> None:
        """Follow the probes to their end, and judge them."""
        for found in (self.one, *self._two):
            if found is not None:
                self._say(partial(self._judged, found), "probe", "what becomes of a job")

    def leave(self) -> None:
        """Delete the jobs and remove the written files. May be called twice."""
        probes, self._made = self._made, []
        problem = ""
        for found in probes:
            problem = found.remove() or problem
        if self._host is not None:
            problem = _removed(self._host, self._directory) or problem
            self._host = None
        if problem:
            words = f"remove {self._directory} and the user's jobs of the name {CLUSTER}"
            self._add("clean-up", Mark.WARNING, problem, "nothing is left", words)

    def _reached(self) -> bool:
        expected = _OURS
        try:
            host = self._reach.host_of(self.user, self._root)
            host.check()
            self._host = host
            self._files(host)
        except (ConfigError, OSError) as error:
            about = "work-directory" if str(self._root) in str(error) or self._host else "reach"
            self._add(about, Mark.MUST, str(error), expected if about != "reach" else "a way to the user", _MEND[about])
            return False
        wanted = self._wanted
        self._batch = BatchCommands(host, self._system, wanted.commands, self.user, wanted.command, Metrics())
        self._add("reach", Mark.OK, f"{self._site.host}, access: {self._site.access}", "a way to the user")
        return True

    def _files(self, host: Host) -> None:
        """Do the agent's file operations. Raises OSError if a file cannot be written or removed."""
        directory, path = self._directory, self._directory / "written"
        host.put(path, b"first")
        host.put(path, b"second")
        host.link_claim(directory, "first")
        claims = host.link_claim(directory, "first"), host.link_claim(directory, "second")
        good = host.read(path) == b"second" and claims == (True, False)
        host.remove(path)
        skew = time.time() - host.clock()
        change = "" if good else _MEND["work-directory"]
        seen = "written, replaced, linked, removed" if good else f"replaced files or claims go wrong: {claims}"
        self._add("work-directory", Mark.OK if good else Mark.MUST, f"{self._root}: {seen}", _OURS, change)
        self.lines.append(nodes.skew_line("clock-agent", self.user, skew))

    def _version(self) -> Iterator[Line]:
        assert self._host is not None  # noqa: S101 - reached
        words = self._system.ADVICE.version
        done = self._host.run(self._wanted.commands.argv(*words), self._wanted.command)
        text = " ".join((done.stdout or done.stderr).decode(errors="replace").split())[:200]
        if done.returncode == 0 or re.search(r"version", text, re.IGNORECASE):
            yield Line("versions", self.user, Mark.OK, text, str(self._site.system))
        else:
            change = "mend system in the policy, or name the directory of the batch system's commands: commandPath"
            yield Line("versions", self.user, Mark.MUST, text or "no answer", str(self._site.system), change)

    def _queues(self) -> Iterator[Line]:
        assert self._batch is not None  # noqa: S101 - reached
        yield from queue_lines(self._site, self._batch.queues(), self.user)

    def _imagepull(self) -> Iterator[Line]:
        assert self._host is not None  # noqa: S101 - reached
        done = self._host.run(images.argv_of(self._site), self._wanted.command, QUESTION)
        yield imagepull_line(self.user, self._site.imagepull, done)

    def _submit(self) -> Iterator[Line]:
        if queue := probe.queue_of(self._site, 1):
            self.one = self._submitted("one", probe.one_node(probe.Asked(self._site, queue, self._account)))
        profiles, queue = probe.profiles_of(self._site), probe.queue_of(self._site, 2)
        if not profiles or queue is None:
            words = "no queue of the policy has two nodes" if profiles else "the site has no MPI profile"
            yield Line("launcher", self.user, Mark.OK, words, "a launcher over two nodes, where there is one")
            return
        for number, profile in enumerate(profiles):
            same = tuple(one.name for one in self._site.mpi if probe.alike(one) == probe.alike(profile))
            script = probe.two_nodes(probe.Asked(self._site, queue, self._account), profile)
            self._two[self._submitted(f"two-{number}", script)] = same or (profile.name,)

    def _submitted(self, kind: str, script: str) -> Probe:
        assert self._host is not None  # noqa: S101 - reached
        assert self._batch is not None  # noqa: S101
        directory = self._directory / kind
        path = directory / "script"
        name = job_name(f"check-{self._site.name}-{kind}", CLUSTER, self._directory.name, self._system.NAME_LIMIT)
        self._host.make_directory(directory / probe.NAMES)
        self._host.put(directory / probe.GROWS, b"")
        self._host.put(directory / probe.RANK, probe.RANK_TEXT.encode())
        self._host.put(path, script.encode())
        submission = Submission(name, str(path), str(directory), str(directory / "output"))
        ways = Ways(self._host, self._batch, self._system, self._wanted.commands, self._wanted.command, self._stopping)
        made = Probe(ways, submission, delay=self._site.fs_delay, wait=self._wanted.wait)
        self._made.append(made)  # before it is submitted, as the result of a submission may stay unknown
        made.submit()
        return made

    def _visible(self, visits: list[_Visit]) -> Iterator[Line]:
        if self.one is None or self._batch is None:
            return
        others = {visit.user: visit.one.job_id for visit in visits if visit is not self and visit.one is not None}
        known = BatchJobs(self._batch).ask([self.one.job_id, *others.values()]).reports
        seen = [user for user, job_id in others.items() if job_id in known]
        hidden = [user for user in others if user not in seen]
        yield from jobs.visible_lines(self.user, own=self.one.job_id in known, others=seen, hidden=hidden)

    def _observed(self) -> Iterator[Line]:
        runner, wanted = self._reach.observer(), self._wanted
        if self.one is None or runner is None:
            return
        observer = BatchCommands(
            runner, self._system, wanted.commands, self.user, wanted.command, Metrics(), observes=True
        )
        jobs_seen = BatchJobs(observer)
        report = jobs_seen.ask([self.one.job_id], jobs_seen.listed()).reports.get(self.one.job_id)
        seen = report is not None and report.owner == self.user
        yield jobs.observer_line(self.user, self._site.observer, self._site.system, seen=seen)

    def _judged(self, found: Probe) -> Iterator[Line]:
        if not found.started():
            words = f"still queued after {self._wanted.wait:.0f} s: {found.reason}"
            change = "--wait longer, or make room: nothing is known of what only a probe can see"
            yield Line("probe", self.user, Mark.WARNING, words, "it starts", change, undecided=True)
            return
        if found in self._two:
            yield from self._of_two(found, self._two[found])
        else:
            yield from self._of_one(found)

    def _of_one(self, found: Probe) -> Iterator[Line]:
        site, user = self._site, self.user
        shown = found.shown()
        seen = found.watched()
        yield nodes.whole_line(user, site, seen.report, seen.ended)
        if seen.report is not None:
            yield from self._noted(found, seen, shown)
        known = found.known_after_end()
        yield jobs.history_line(user, site.system, kept=known is not None, known=bool(known))

    def _noted(self, found: Probe, seen: Followed, shown: jobs.Shown) -> Iterator[Line]:
        site, user, report = self._site, self.user, seen.report
        assert report is not None  # noqa: S101 - the caller looked
        account = first(report, "account") or shown.account
        yield jobs.name_line(user, shown)
        yield from jobs.account_lines(user, replace(shown, account=account), self._account, site.system)
        yield from nodes.link_lines(user, report)
        skew = nodes.node_skew(report)
        yield nodes.skew_line("clock-nodes", user, skew)
        for name, seconds in zip(("names-delay", "sizes-delay"), seen.delays(skew or 0.0), strict=True):
            yield nodes.delay_line(name, user, seconds, site, complete=seen.complete)
        if queue := probe.queue_of(site, 1):
            yield nodes.architecture_line(user, queue, report)
        yield from nodes.runtime_lines(user, site, report)
        yield jobs.kill_line(user, found.killed(max(seen.delays(skew or 0.0))), site.system)

    def _of_two(self, found: Probe, profiles: tuple[str, ...]) -> Iterator[Line]:
        seen = found.watched(grows=False)
        if seen.report is None:
            change = "see the job in the batch system; workDir must be there on the first node"
            words = f"no notes: {seen.ended}"
            for name in profiles:
                yield Line(LAUNCHER + name, self.user, Mark.MUST, words, "a launcher over two nodes", change)
            return
        count = 1 if self._system.TRAITS.embedded else 2
        left = found.left_by_ranks(count if seen.report.get("rank") else 0)
        lines = [line for name in profiles for line in jobs.two_nodes_lines(self.user, name, seen.report, left, count)]
        yield from dict.fromkeys(lines)

    def _say(self, look: Callable[[], Iterator[Line]], name: str, expected: str) -> None:
        """Add the lines of a check, or a line with its error."""
        if self._batch is None or self._stopping.is_set():
            return
        try:
            self.lines.extend(look())
        except Stopped:
            return
        except (BatchError, ConfigError, OSError) as error:
            words = error.words.strip() if isinstance(error, BatchError) else ""
            self._add(name, Mark.MUST, words or str(error), expected, "mend what the words say")

    def _add(self, name: str, mark: Mark, seen: str, expected: str, change: str = "") -> None:
        self.lines.append(Line(name, self.user, mark, seen, expected, change))


_MEND: Final = {
    "reach": "see docs/hosts.md, host and access",
    "work-directory": "mend workDir, or make it writable for the user",
}


def _removed(host: Host, directory: PurePosixPath) -> str:
    """Remove a probe's directory; returns an error or empty. Retries for 90 s: the file system may show files late."""
    until, words = time.monotonic() + 90.0, ""
    while True:
        try:
            host.remove_tree(directory)
        except OSError as error:
            words = str(error)
        else:
            return ""
        if time.monotonic() > until:
            return words
        time.sleep(1.0)
