"""Traits and advice: what other rooms must know about this batch system. Pure."""

from __future__ import annotations

from typing import Final

from router.hpc import Advice, Traits

TRAITS: Final = Traits(walltime_step=60, tells_hosts=True, gres=True, lists_usage=False)
ADVICE: Final = Advice(
    version=("sinfo", "--version"),
    history="set up slurmdbd (AccountingStorageType=accounting_storage/slurmdbd)",
    observer="sacctmgr modify user {observer} set AdminLevel=Operator",
    kill_delay="KillWait = 30 in slurm.conf",
)
