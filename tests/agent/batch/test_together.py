"""One batch system, asked and told by several threads at once: nothing that one remembers is lost or torn by another.

A fake in place of the machine answers at once, so that threads meet more often than commands would let them.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest

from router.agent.batch import commands
from router.agent.batch.commands import BatchCommands
from router.agent.batch.jobs import BatchJobs
from router.agent.batch.remembered import Remembered
from router.agent.metrics import Metrics
from router.host import Ended
from router.hpc import JobState, Submission, openpbs

BAD = frozenset(f"{number}.vm" for number in range(1000, 1400))
"""Jobs for which any question fails that names them."""
THREADS = 6
TURNS = 150
SERVERS = frozenset(f"s{number}" for number in range(2 * TURNS))
"""Each is named by one answer alone: to a submission or a search."""


TABLE = f"vm:\n{' '.join(['-' * 8] * 11)}\n1.vm ada workq x 1 1 1 -- 00:10 R 00:01\n".encode()


class Answers:
    """A fake of OpenPBS' host: it knows every job but the bad ones, and keeps records of jobs that are over at times."""

    def __init__(self) -> None:
        self.keeps = True
        self.numbers = itertools.count(1)
        self.servers = iter(sorted(SERVERS))

    def run(self, argv: Sequence[str], seconds: float, stdin: bytes = b"") -> Ended:
        program = next(word for word in argv if word in {"qsub", "qselect", "qstat"})
        if program != "qstat":
            return Ended(0, f"{next(self.numbers)}.{next(self.servers)}\n".encode(), b"")
        if "-f" not in argv:
            return Ended(0, TABLE, b"")
        words = [f"{word.removesuffix('.vm')}.vm" for word in argv if word.removesuffix(".vm").isdigit()]
        if BAD.intersection(words):
            return Ended(1, b"", b"qstat: cannot read that job")
        if "-x" in argv and not self.keeps:
            words_of_it = f"qstat: PBS is not configured to maintain job history {words[0]}"
            return Ended(0, b'{"pbs_server": "vm"}', words_of_it.encode())
        jobs = {
            one: {"Job_Name": "x", "Job_Owner": "ada@vm", "job_state": "R", "substate": 42, "queue": "q"}
            for one in words
        }
        return Ended(0, json.dumps({"timestamp": 1, "pbs_server": "vm", "Jobs": jobs}).encode(), b"")


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(*works: Callable[[], None]) -> list[object]:
    """Do all of this in threads of their own; what went wrong in any."""
    wrong: list[object] = []
    start = threading.Barrier(len(works))

    def guarded(work: Callable[[], None]) -> None:
        start.wait()
        try:
            work()
        except (RuntimeError, KeyError, AssertionError) as error:
            wrong.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return wrong


class Threads:
    """What each of several threads does with one batch system."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.batch = BatchCommands(answers, openpbs, openpbs.DEFAULT, "ada", 1, Metrics())
        self.jobs = BatchJobs(self.batch)

    def ask(self, mine: Sequence[str]) -> None:
        """About some jobs for which questions fail, each beside others."""
        for one in mine:
            answer = self.jobs.ask([one, "1.vm", "2.vm"])
            assert (set(answer.reports), answer.unknown) == ({"1.vm", "2.vm"}, frozenset()), one

    def list(self) -> None:
        for _ in range(TURNS):
            shown = self.jobs.listed("ada,ben")
            assert (list(shown.states.values()), shown.reports) == ([JobState.RUNNING], {})

    def submit(self) -> None:
        for number in range(TURNS):
            self.batch.submit(Submission(f"n{number}", "/w/script", "/w", "/w/out"))

    def find(self) -> None:
        for _ in range(TURNS):
            assert len(self.batch.find("tag")) == 1

    def switch(self) -> None:
        """Begin to keep records, and stop again."""
        for number in range(20 * TURNS):
            self.answers.keeps = bool(number % 2)


def test_threads_that_tell_and_ask_at_once_disturb_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Questions, lists, submissions and searches, while the batch system stops and begins to keep records."""
    monkeypatch.setattr(commands, "HISTORY_SECONDS", 0.0)
    threads, bad = Threads(Answers()), sorted(BAD)
    assert set(threads.jobs.ask(["1.vm"]).reports) == {"1.vm"}

    asking = [partial(threads.ask, bad[number::THREADS]) for number in range(THREADS)]
    wrong = at_once(*asking, threads.list, threads.submit, threads.find, threads.switch)

    remembered = threads.batch.remembered
    assert wrong == []
    assert remembered.held(0.0) == BAD
    assert remembered.servers == {"vm", *SERVERS}
    assert remembered.users == "ada,ben"
    said = [one for one in caplog.records if one.message == "the batch system keeps no records of ended jobs"]
    assert len(said) <= 1


MANY = [[f"{thread}-{number}" for number in range(2_000)] for thread in range(THREADS)]
ALL = frozenset(itertools.chain(*MANY))


def test_servers_that_several_threads_learn_of_are_all_kept() -> None:
    memory = Remembered()

    def learn(mine: Sequence[str]) -> None:
        for one in mine:
            memory.learn([one])

    assert at_once(*(partial(learn, mine) for mine in MANY)) == []
    assert memory.servers == ALL


def test_jobs_that_several_threads_hold_are_all_held() -> None:
    memory, few = Remembered(), [mine[:200] for mine in MANY]

    def hold(mine: Sequence[str]) -> None:
        for one in mine:
            memory.hold([one], 2.0)
            memory.away(one, 2.0)
            assert one in memory.held(1.0)
            assert memory.is_away(one, 1.0)

    assert at_once(*(partial(hold, mine) for mine in few)) == []
    assert memory.held(1.0) == frozenset(itertools.chain(*few))


def test_that_no_records_are_kept_is_news_to_one_thread_alone() -> None:
    memories = [Remembered() for _ in range(2_000)]
    first: list[int] = []

    def says() -> None:
        for number, memory in enumerate(memories):
            if memory.lacks_history(0.0):
                first.append(number)

    assert at_once(*[says] * THREADS) == []
    assert sorted(first) == list(range(len(memories)))
