"""Lists the options of MPI launchers: what each means, and how many words it takes.

Pure tables. Sources: ``mpirun --help`` of Open MPI 4 and PRRTE's mpirun of Open MPI 5, Hydra's and Intel MPI's
``mpiexec -help``, Slurm's ``srun --help``. Names are without leading dashes, as the launchers accept one or two.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class Meaning(Enum):
    """The meaning of an option for the run."""

    RANKS = auto()
    RANKS_PER_NODE = auto()
    ONE_PER_NODE = auto()
    NODES = auto()
    CORES_PER_RANK = auto()
    MAPPING = auto()
    MAPPING_WORD = auto()  # a flag whose name says the mapping: -bynode
    BINDING = auto()
    BINDING_WORD = auto()  # a flag whose name says the binding: -bind-to-core
    EXPORT = auto()  # -x A, -x A=1
    EXPORT_LIST = auto()  # -genvlist A,B
    SET = auto()  # -genv A 1, -genv A=1
    SRUN_EXPORT = auto()  # --export=ALL,A=1
    WORKING_DIR = auto()
    DROPPED = auto()
    SEVERAL_PROGRAMS = auto()


Option = tuple[Meaning, int]
"""Meaning, and number of words that follow as its value."""


def _flags(words: str) -> dict[str, Option]:
    return dict.fromkeys(words.split(), (Meaning.DROPPED, 0))


def _one(words: str) -> dict[str, Option]:
    return dict.fromkeys(words.split(), (Meaning.DROPPED, 1))


def _two(words: str) -> dict[str, Option]:
    return dict.fromkeys(words.split(), (Meaning.DROPPED, 2))


MPIRUN: Final[dict[str, Option]] = {
    **_flags(
        "allow-run-as-root continuous d debug debug-devel debug-daemons debug-daemons-file disable-recovery "
        "display-allocation display-devel-allocation display-devel-map display-diffable-map display-map display-topo "
        "do-not-launch do-not-resolve enable-instant-on-support enable-recovery fwd-mpirun-port get-stack-traces "
        "index-argv-by-rank leave-session-attached merge-stderr-to-stdout nolocal nooversubscribe noprefix novm "
        "output-proctable q quiet report-bindings report-child-jobs-separately report-state-on-timeout "
        "preload-binary set-cwd-to-session-dir show-progress tag-output timestamp-output tv use-hwthread-cpus "
        "use-regexp v verbose xml genvall genvnone envall envnone l prepend-rank print-all-exitcodes info localonly "
        "oversubscribe disable-auto-cleanup enable-x disable-x ilp64 silent-abort nocompress stream-buffering"
    ),
    **_one(
        "am cf cartofile cpu-list cpu-set debugger default-hostfile H host hosts hostfile machinefile machine f "
        "launch-agent max-restarts max-vm-size ompi-server output-filename path personality prefix preload-files "
        "prtemca-file rank-by report-events report-pid report-uri rf rankfile stdin timeout tune xml-file xterm "
        "display output runtime-options npersocket iface launcher launcher-exec bootstrap bootstrap-exec rmk "
        "demux order-nodes outfile-pattern errfile-pattern outfile errfile usize gtool gtoolfile "
        "port-range nameserver pmi-port membind topolib binding dvm-uri pmi-connect tmpdir"
    ),
    **_two("mca gmca prtemca gprtemca pmixmca gpmixmca omca gomca"),
    "n": (Meaning.RANKS, 1),
    "np": (Meaning.RANKS, 1),
    "c": (Meaning.RANKS, 1),
    "N": (Meaning.RANKS_PER_NODE, 1),
    "npernode": (Meaning.RANKS_PER_NODE, 1),
    "ppn": (Meaning.RANKS_PER_NODE, 1),
    "perhost": (Meaning.RANKS_PER_NODE, 1),
    "grr": (Meaning.RANKS_PER_NODE, 1),
    "pernode": (Meaning.ONE_PER_NODE, 0),
    "cpus-per-proc": (Meaning.CORES_PER_RANK, 1),
    "cpus-per-rank": (Meaning.CORES_PER_RANK, 1),
    "map-by": (Meaning.MAPPING, 1),
    "ppr": (Meaning.MAPPING, 1),
    "bynode": (Meaning.MAPPING_WORD, 0),
    "byslot": (Meaning.MAPPING_WORD, 0),
    "bycore": (Meaning.MAPPING_WORD, 0),
    "bind-to": (Meaning.BINDING, 1),
    "bind-to-core": (Meaning.BINDING_WORD, 0),
    "bind-to-socket": (Meaning.BINDING_WORD, 0),
    "bind-to-none": (Meaning.BINDING_WORD, 0),
    "x": (Meaning.EXPORT, 1),
    "genv": (Meaning.SET, 2),
    "env": (Meaning.SET, 2),
    "genvlist": (Meaning.EXPORT_LIST, 1),
    "envlist": (Meaning.EXPORT_LIST, 1),
    "wdir": (Meaning.WORKING_DIR, 1),
    "wd": (Meaning.WORKING_DIR, 1),
    "app": (Meaning.SEVERAL_PROGRAMS, 1),
    "configfile": (Meaning.SEVERAL_PROGRAMS, 1),
}

SRUN: Final[dict[str, Option]] = {
    **_flags(
        "E preserve-env H hold I immediate k no-kill K kill-on-bad-exit l label O overcommit overlap exact exclusive "
        "Q quiet quit-on-interrupt s reboot spread-job u unbuffered use-min-nodes v vv vvv verbose X disable-status Z "
        "no-allocate contiguous oversubscribe resv-ports compress nice propagate send-libs"
    ),
    **_one(
        "A account acctg-freq bb bbf bcast bcast-exclude b begin comment container cpu-freq d dependency deadline "
        "delay-boot e error epilog gres gres-flags i input jobid J job-name L licenses M clusters mail-type mail-user "
        "mcs-label mpi o output het-group power priority profile prolog p partition q qos r relative "
        "S core-spec signal slurmd-debug switches task-epilog task-prolog thread-spec T threads t time time-min W "
        "wait wckey cluster-constraint C constraint mem mincpus reservation tmp w nodelist x exclude mem-per-cpu "
        "sockets-per-node cores-per-socket threads-per-core B extra-node-info ntasks-per-core ntasks-per-socket "
        "cpus-per-gpu G gpus gpu-bind gpu-freq gpus-per-node gpus-per-socket gpus-per-task mem-per-gpu mem-bind hint "
        "network open-mode ntasks-per-gpu uid gid"
    ),
    "n": (Meaning.RANKS, 1),
    "ntasks": (Meaning.RANKS, 1),
    "ntasks-per-node": (Meaning.RANKS_PER_NODE, 1),
    "tasks-per-node": (Meaning.RANKS_PER_NODE, 1),
    "N": (Meaning.NODES, 1),
    "nodes": (Meaning.NODES, 1),
    "c": (Meaning.CORES_PER_RANK, 1),
    "cpus-per-task": (Meaning.CORES_PER_RANK, 1),
    "m": (Meaning.MAPPING, 1),
    "distribution": (Meaning.MAPPING, 1),
    "cpu-bind": (Meaning.BINDING, 1),
    "export": (Meaning.SRUN_EXPORT, 1),
    "D": (Meaning.WORKING_DIR, 1),
    "chdir": (Meaning.WORKING_DIR, 1),
    "pty": (Meaning.SEVERAL_PROGRAMS, 0),
    "multi-prog": (Meaning.SEVERAL_PROGRAMS, 0),
}

MPIRUN_HOSTS: Final = frozenset(["H", "host", "hosts", "hostfile", "machinefile", "f"])
"""Options that name hosts."""
PLAIN_HOSTS: Final = frozenset(["-H", "-host", "-hosts", "-hostfile", "--hostfile", "-machinefile", "--machinefile"])
"""As written, those of them that programs hardly have as well."""
SRUN_HOSTS: Final = frozenset(["w", "nodelist"])
