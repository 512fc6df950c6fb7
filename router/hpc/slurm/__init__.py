"""Slurm: everything that the project knows about it.

Pure. ``router.hpc.BatchSystem`` describes each name.
"""

from router.hpc.slurm.commands import (
    DEFAULT,
    LISTS_ALL,
    NAME_LIMIT,
    cancel_argv,
    details_argv,
    failure,
    is_id,
    job_id,
    list_argv,
    parse_details,
    parse_list,
    parse_listed,
    parse_queues,
    parse_states,
    past_argv,
    proof_argv,
    queues_argvs,
    signal_argv,
    signal_ends,
    states_argv,
    submit_argv,
    unknown_ids,
    within_argv,
)
from router.hpc.slurm.directives import MARK, allowed, directives, entry_lines, is_directive, key_problem, value_problem
from router.hpc.slurm.records import STATES
from router.hpc.slurm.traits import ADVICE, TRAITS

__all__ = [
    "ADVICE",
    "DEFAULT",
    "LISTS_ALL",
    "MARK",
    "NAME_LIMIT",
    "STATES",
    "TRAITS",
    "allowed",
    "cancel_argv",
    "details_argv",
    "directives",
    "entry_lines",
    "failure",
    "is_directive",
    "is_id",
    "job_id",
    "key_problem",
    "list_argv",
    "parse_details",
    "parse_list",
    "parse_listed",
    "parse_queues",
    "parse_states",
    "past_argv",
    "proof_argv",
    "queues_argvs",
    "signal_argv",
    "signal_ends",
    "states_argv",
    "submit_argv",
    "unknown_ids",
    "value_problem",
    "within_argv",
]
