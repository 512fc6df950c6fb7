"""Traits and advice: what other rooms must know about this batch system. Pure."""

from __future__ import annotations

from typing import Final

from router.hpc import Advice, Traits

TRAITS: Final = Traits(
    # MoM sets RLIMIT_DATA to ``mem``. Below about 160 MB Go's runtime, and so Apptainer, does not start.
    memory_floor=512 * 1024**2,
    cores_per_line=True,
    projects=False,
    signals_one_host=True,
)
ADVICE: Final = Advice(
    version=("qstat", "--version"),
    history="qmgr -c 'set server keep_completed = 3600'",
    observer="qmgr -c 'set server query_other_jobs = True', or make {observer} an operator",
    kill_delay="`$exec_with_exec true` in mom_priv/config of the nodes, and qmgr -c 'set queue QUEUE kill_delay = 30'",
)
