"""One batch system, asked and told by several threads at once: nothing that one remembers is lost or torn by another.

A fake in place of the machine answers at once, so that threads meet more often than commands would let them.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Sequence

import pytest

from router.agent.batch.commands import Batch
from router.agent.metrics import Metrics
from router.host import Ended
from router.hpc import openpbs

BAD = frozenset(f"{number}.vm" for number in range(1000, 1400))
"""Jobs for which any question fails that names them."""
THREADS = 6


class Answers:
    """A fake of OpenPBS' host: it knows every job but the bad ones."""

    def run(self, argv: Sequence[str], seconds: float, stdin: bytes = b"") -> Ended:
        words = [f"{word.removesuffix('.vm')}.vm" for word in argv if word.removesuffix(".vm").isdigit()]
        if BAD.intersection(words):
            return Ended(1, b"", b"qstat: cannot read that job")
        if "-f" not in argv:
            return Ended(0, b"", b"")
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


def test_threads_that_ask_at_once_disturb_nobody() -> None:
    batch = Batch(Answers(), openpbs, openpbs.DEFAULT, user="ada", seconds=1, metrics=Metrics())
    assert set(batch.ask(["1.vm"]).reports) == {"1.vm"}
    wrong: list[object] = []

    def asks(mine: Sequence[str]) -> None:
        try:
            for one in mine:
                answer = batch.ask([one, "1.vm", "2.vm"])
                if set(answer.reports) != {"1.vm", "2.vm"} or answer.unknown:
                    wrong.append((one, answer))
        except RuntimeError as error:
            wrong.append(error)

    bad = sorted(BAD)
    threads = [threading.Thread(target=asks, args=(bad[number::THREADS],)) for number in range(THREADS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert wrong == []
    assert batch._remembered.held(0.0) == BAD
