"""Runs the study of ``bench.study`` on the bed's Slurm.

The bed has to be up (``make bed``, docs/bed.md); without it this is skipped. A job's end is written to slurmctld's database
before it is in its saved state. One that is killed in between holds the job for running when it comes back, until it asks
the nodes. So kills end with the last container.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench import study
from bench.onbed import demand_standing, on_bed
from bench.slurmways import Site, place
from tests.agent.bed import faults
from tests.agent.bed.site import OWN_KEYS


@contextmanager
def _standing() -> Iterator[study.Bench]:
    demand_standing()
    with on_bed(OWN_KEYS, raised_limits=False, kind=Site, plain_node=False, lost_seconds=study.LOST_SECONDS) as bed:
        agent = study.Victim(bed.stack.agent.kill, bed.stack.agent.start)
        yield study.Bench(place(bed), (agent, study.Victim(_kill, _start)), faults.repair)


def _kill() -> None:
    faults.kill("slurmctld")


def _start() -> None:
    faults.start("slurmctld")
    faults.resume()


if __name__ == "__main__":
    study.main("slurm", __doc__, _standing)
