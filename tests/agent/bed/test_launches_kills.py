"""Launches inside a container are killed at moments that are drawn: the text goes on, and nothing is left."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Iterator

import pytest

from bed import daemons
from tests.agent.bed import faults
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import end_of, exit_code
from tests.agent.bed.launching import COVER, LAUNCHER, RANKS, Launching, launching, scratch, those
from tests.agent.bed.site import SUDO
from tests.agent.bed.test_mpi import MpiSite
from tests.agent.whole.long import LONG

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.mpi, pytest.mark.timeout(7200)]
log = logging.getLogger(__name__)
KILLS = 50 if LONG else 5
AGENT, NODE = "the agent", "all on a node"
RANK = r"^(sh -c ring|ring$|sleep 2$)"
"""A rank of the text below, whichever of its processes runs just then."""
VICTIMS = {"cover": COVER, "launcher": LAUNCHER, "rank": RANK, AGENT: "", NODE: ""}
TEXT = f"""
for launch in 1 2 3; do
	mpirun -np {RANKS} sh -c 'ring && sleep 2'
	echo "launch $launch: $?"
done
exit 3
"""
LATEST = 9.0
"""Seconds after the text's start by which a kill has come; the three launches take about so long."""


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    with reached(cluster, SUDO, kind=MpiSite) as found:
        yield found


def test_kills_at_any_moment(stack: Stack, rng: random.Random, seed: str) -> None:
    wrong = []
    for number in range(KILLS):
        victim, moment = list(VICTIMS)[number % len(VICTIMS)], rng.uniform(0, LATEST)
        job = launching(stack, f"echo start\n{TEXT}")
        job.awaits("start")
        time.sleep(moment)
        done = harm(stack, job, victim, rng)

        end = (end_of(stack.ben, job.name), exit_code(stack.ben, job.name))
        job.await_no_process()
        log.info("%s: %s after %.1f s, %s: %s %s, left %s", number, victim, moment, done, end, codes(job), scratch())
        if problem := wrongs(job, victim, done, end):
            wrong.append(f"{number}: {victim} after {moment:.1f} s, {done}: {problem}; {end} {job.lines}")
    assert not wrong, "\n".join((seed, *wrong))


def harm(stack: Stack, job: Launching, victim: str, rng: random.Random) -> bool:
    """Whether something was killed: between two launches, there is nothing of one."""
    if victim == AGENT:
        stack.agent.kill()
        time.sleep(rng.uniform(0, 3))
        stack.agent.start()
        return True
    if victim == NODE:
        above = faults.shepherds(job.batch_job) if codes(job) != [0] * 3 else []
        found = daemons.descendants(rng.choice(above)) if above else []
    else:
        found = rng.sample(living, 1) if (living := those(VICTIMS[victim])) else []
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(found)


def codes(job: Launching) -> list[int]:
    """The exit codes of launches, as the text has seen them."""
    return [int(found[1]) for line in job.lines if (found := re.fullmatch(r"launch \d: (\d+)", line))]


def wrongs(job: Launching, victim: str, done: bool, end: tuple[str, int]) -> str:
    """What is not as it should be; empty if all is."""
    seen = codes(job)
    failed = [code for code in seen if code]
    if victim == NODE and done:
        # The text may be among what was killed, with all that would tidy up, or only one launch.
        for path in scratch():
            shutil.rmtree(path)
        return "" if end[0] == "Failed" and len(failed) <= 1 else "another end"
    if left := scratch():
        return f"left {left}"
    if end != ("Failed", 3) or len(seen) != 3:
        return "another end"
    if len(failed) > (done and victim != AGENT):
        return "more launches failed than were killed"
    rings = job.count(r"rank=\d .*sum=")
    if not RANKS * (3 - len(failed)) <= rings <= RANKS * 3:
        return f"{rings} ranks told their sum"
    return ""
