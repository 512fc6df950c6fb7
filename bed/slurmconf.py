"""Makes Slurm's configuration files.

Pure: text from a layout and a variant. The manual pages slurm.conf(5), cgroup.conf(5), gres.conf(5) and
slurmdbd.conf(5) of Slurm 22.05 explain the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bed.layout import CONTROLLER, GPU_NODES, GPUS, MARK, NODES, Layout, Variant

CLUSTER: Final = "bed"
MEMORY: Final = {"node1": 4000, "node2": 4000, "node3": 8000, "node4": 8000}
"""MB of each node."""
GPU_TYPES: Final = dict(zip(GPU_NODES, ("v100", "a100"), strict=True))
BOARD, BOARDS = "fpga", 2
"""A resource that is only counted, and how many of it each node has."""
LICENCES: Final = ("solver:4", "mesher:1")
"""What jobs share on all nodes, and how many of it there are."""
DATABASE: Final = "slurm_acct_db"


@dataclass(frozen=True, slots=True)
class Queue:
    """A partition, with times in Slurm's format."""

    name: str
    nodes: tuple[str, ...]
    default_time: str
    longest: str
    extra: str = ""


QUEUES: Final = (
    Queue("batch", NODES[:2], "01:00:00", "24:00:00", "Default=YES"),
    Queue("debug", NODES[:2], "00:05:00", "00:30:00", "MaxNodes=1 PriorityJobFactor=10"),
    Queue("gpu", GPU_NODES, "00:30:00", "12:00:00"),
    Queue("all", NODES, "00:30:00", "04:00:00"),
)
MEMORY_PER_CORE: Final = 500
"""MB that a job gets for each core by default."""


def slurm_conf(layout: Layout, variant: Variant) -> str:
    """The text of ``slurm.conf``."""
    sections = (
        _addresses(layout),
        _paths(layout),
        _control(variant),
        _accounting(layout, variant),
        _scheduling(layout),
        {"GresTypes": f"gpu,{BOARD}" if variant.gpus else BOARD, "Licenses": ",".join(LICENCES)},
    )
    lines = [f"# {MARK}; it is written anew by every `up`."]
    for section in sections:
        lines += [f"{key}={value}" for key, value in section.items()]
    lines += [_node_line(layout, variant, node) for node in NODES]
    lines += [_queue_line(queue) for queue in QUEUES]
    return "\n".join(lines) + "\n"


def _addresses(layout: Layout) -> Mapping[str, object]:
    return {
        "ClusterName": CLUSTER,
        "SlurmctldHost": f"{CONTROLLER}(127.0.0.1)",
        "SlurmctldPort": layout.controller_port,
        # Every daemon binds only to the address of its own host name, which is loopback.
        "CommunicationParameters": "NoInAddrAny,NoCtldInAddrAny",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.munge_socket}",
    }


def _paths(layout: Layout) -> Mapping[str, object]:
    return {
        "SlurmUser": "slurm",
        "StateSaveLocation": layout.state / "slurmctld",
        "SlurmdSpoolDir": layout.state / "slurmd" / "%n",
        "SlurmctldPidFile": layout.own_pid_file("slurmctld"),
        "SlurmdPidFile": layout.own_pid_file("slurmd-%n"),
        "SlurmctldLogFile": layout.logs / "slurmctld.log",
        "SlurmdLogFile": layout.logs / "slurmd-%n.log",
    }


def _control(variant: Variant) -> Mapping[str, object]:
    if variant.cgroups:
        kind = {"ProctrackType": "proctrack/cgroup", "TaskPlugin": "task/cgroup", "JobAcctGatherParams": "UsePss"}
    else:
        # Without cgroups a job's memory can only be polled, and the job can use all devices.
        kind = {
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "JobAcctGatherParams": "UsePss,OverMemoryKill",
        }
    return {
        **kind,
        # The same nodes on any machine: slurmd takes the figures of the node lines.
        "SlurmdParameters": "config_overrides",
        "JobAcctGatherType": "jobacct_gather/linux",
        "JobAcctGatherFrequency": 2,
        "KillWait": 5,
        "CompleteWait": 0,
        "ReturnToService": 2,
        "SlurmdTimeout": 10,
        "MpiDefault": "none",
        "MailProg": "/bin/true",
    }


def _accounting(layout: Layout, variant: Variant) -> Mapping[str, object]:
    if not variant.accounting:
        return {"AccountingStorageType": "accounting_storage/none", "PrivateData": "jobs"}
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "127.0.0.1",
        "AccountingStoragePort": layout.accounting_port,
        # With munge this is the socket instead of a password: sacctmgr and sacct ignore the one in AuthInfo.
        "AccountingStoragePass": layout.munge_socket,
        "AccountingStorageEnforce": "associations,limits",
        "PrivateData": "jobs",
    }


def _scheduling(layout: Layout) -> Mapping[str, object]:
    return {
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "SchedulerType": "sched/backfill",
        # The defaults suit ten thousand jobs, and would slow down tests.
        "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=0,sched_interval=2,bf_interval=2",
        # A job that exceeds its queue is refused at submission, as in PBS, instead of waiting for ever.
        "EnforcePartLimits": "ALL",
        "MinJobAge": layout.keep,
    }


def _node_line(layout: Layout, variant: Variant, node: str) -> str:
    gpus = f",gpu:{GPU_TYPES[node]}:{GPUS}" if variant.gpus and node in GPU_NODES else ""
    return (
        f"NodeName={node} NodeAddr=127.0.0.1 Port={layout.node_port(node)} "
        f"CPUs={variant.cores} RealMemory={MEMORY[node]} Gres={BOARD}:{BOARDS}{gpus} State=UNKNOWN"
    )


def _queue_line(queue: Queue) -> str:
    words = [
        f"PartitionName={queue.name}",
        f"Nodes={','.join(queue.nodes)}",
        f"DefaultTime={queue.default_time}",
        f"MaxTime={queue.longest}",
        f"DefMemPerCPU={MEMORY_PER_CORE}",
        *queue.extra.split(),
        "State=UP",
    ]
    return " ".join(words)


def gres_conf(variant: Variant) -> str:
    """The text of ``gres.conf``. A GPU counts only with a device file; the boards are only counted."""
    lines = [f"# {MARK}.", f"NodeName={','.join(NODES)} Name={BOARD} Count={BOARDS} Flags=CountOnly"]
    if variant.gpus:
        lines += [
            f"NodeName={node} Name=gpu Type={GPU_TYPES[node]} File=/dev/nvidia[0-{GPUS - 1}]" for node in GPU_NODES
        ]
    return "\n".join(lines) + "\n"


def cgroup_conf(variant: Variant) -> str:
    """The text of ``cgroup.conf``. Cores are not constrained, as the nodes pretend to have more than the machine."""
    held = "yes" if variant.cgroups else "no"
    return (
        f"# {MARK}.\n"
        "CgroupPlugin=cgroup/v1\n"
        "ConstrainCores=no\n"
        f"ConstrainRAMSpace={held}\n"
        "ConstrainSwapSpace=no\n"
        f"ConstrainDevices={held}\n"
    )


def slurmdbd_conf(layout: Layout, password: str) -> str:
    """The text of ``slurmdbd.conf``. slurmdbd starts only if just its own user can read this file."""
    settings = {
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.munge_socket}",
        "DbdHost": CONTROLLER,
        "DbdAddr": "127.0.0.1",
        "DbdPort": layout.accounting_port,
        "SlurmUser": "slurm",
        "CommunicationParameters": "NoInAddrAny,NoCtldInAddrAny",
        "PidFile": layout.own_pid_file("slurmdbd"),
        "LogFile": layout.logs / "slurmdbd.log",
        "PrivateData": "jobs",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "127.0.0.1",
        "StoragePort": layout.database_port,
        "StorageUser": "slurm",
        "StoragePass": password,
        "StorageLoc": DATABASE,
    }
    return "\n".join([f"# {MARK}.", *(f"{key}={value}" for key, value in settings.items())]) + "\n"


def controllers_mounted(mounts: str) -> bool:
    """Whether the cgroup v1 controllers that Slurm needs are mounted.

    :param mounts: the text of /proc/mounts
    """
    found: set[str] = set()
    for line in mounts.splitlines():
        fields = line.split()
        # Slurm looks only there (CgroupMountpoint).
        if len(fields) > 3 and fields[2] == "cgroup" and fields[1].startswith("/sys/fs/cgroup/"):
            found.update(fields[3].split(","))
    return {"memory", "devices", "freezer", "cpuset", "cpuacct"} <= found
