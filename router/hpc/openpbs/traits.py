"""Traits and advice: what other rooms must know about this batch system. Pure."""

from __future__ import annotations

from typing import Final

from router.hpc import Advice, Traits

TRAITS: Final = Traits(shows_projects=True)
ADVICE: Final = Advice(
    version=("qstat", "--version"),
    history="qmgr -c 'set server job_history_enable = True'",
    observer="qmgr -c 'set server query_other_jobs = True', or make {observer} an operator",
    kill_delay="qmgr -c 'set queue QUEUE kill_delay = 30'",
)
