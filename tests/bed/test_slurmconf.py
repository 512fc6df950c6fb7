"""Slurm's configuration, as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from bed import slurmconf
from bed.layout import MARK, NODES, Layout, Variant

LAYOUT = Layout(state=Path("/s"), running=Path("/r"), shared=Path("/f"), first_port=100)


def settings(text: str) -> dict[str, str]:
    """The single-valued lines of a configuration file."""
    lines = [line for line in text.splitlines() if not line.startswith("#") and " " not in line]
    pairs = [line.split("=", 1) for line in lines]
    assert len({key for key, _ in pairs}) == len(pairs), "a parameter stands twice"
    return dict(pairs)


def lines_of(text: str, key: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(f"{key}=")]


def test_queues_and_nodes() -> None:
    text = slurmconf.slurm_conf(LAYOUT, Variant())

    assert lines_of(text, "NodeName") == [
        "NodeName=node1 NodeAddr=127.0.0.1 Port=110 CPUs=4 RealMemory=4000 Gres=fpga:2 State=UNKNOWN",
        "NodeName=node2 NodeAddr=127.0.0.1 Port=111 CPUs=4 RealMemory=4000 Gres=fpga:2 State=UNKNOWN",
        "NodeName=node3 NodeAddr=127.0.0.1 Port=112 CPUs=4 RealMemory=8000 Gres=fpga:2,gpu:v100:2 State=UNKNOWN",
        "NodeName=node4 NodeAddr=127.0.0.1 Port=113 CPUs=4 RealMemory=8000 Gres=fpga:2,gpu:a100:2 State=UNKNOWN",
    ]
    assert lines_of(text, "PartitionName") == [
        "PartitionName=batch Nodes=node1,node2 DefaultTime=01:00:00 MaxTime=24:00:00 DefMemPerCPU=500 Default=YES State=UP",
        (
            "PartitionName=debug Nodes=node1,node2 DefaultTime=00:05:00 MaxTime=00:30:00 DefMemPerCPU=500 "
            "MaxNodes=1 PriorityJobFactor=10 State=UP"
        ),
        "PartitionName=gpu Nodes=node3,node4 DefaultTime=00:30:00 MaxTime=12:00:00 DefMemPerCPU=500 State=UP",
        "PartitionName=all Nodes=node1,node2,node3,node4 DefaultTime=00:30:00 MaxTime=04:00:00 DefMemPerCPU=500 State=UP",
    ]


def test_the_cores_of_a_node() -> None:
    usual = lines_of(slurmconf.slurm_conf(LAYOUT, Variant()), "NodeName")

    assert lines_of(slurmconf.slurm_conf(LAYOUT, Variant(cores=32)), "NodeName") == [
        line.replace("CPUs=4 ", "CPUs=32 ") for line in usual
    ]


def test_what_every_variant_has() -> None:
    for variant in (Variant(), Variant(accounting=False), Variant(cgroups=False), Variant(gpus=False)):
        found = settings(slurmconf.slurm_conf(LAYOUT, variant))

        assert found["PrivateData"] == "jobs"
        assert found["SlurmdTimeout"] == "10"
        assert found["SlurmctldHost"] == "ctl1(127.0.0.1)"
        assert "NoInAddrAny" in found["CommunicationParameters"]
        assert not {"TaskProlog", "Prolog", "JobSubmitPlugins"} & set(found)


def test_accounting() -> None:
    with_it = settings(slurmconf.slurm_conf(LAYOUT, Variant()))
    without = settings(slurmconf.slurm_conf(LAYOUT, Variant(accounting=False)))

    assert with_it["AccountingStorageType"] == "accounting_storage/slurmdbd"
    assert with_it["AccountingStorageEnforce"] == "associations,limits"
    assert {key: value for key, value in without.items() if key.startswith("Accounting")} == {
        "AccountingStorageType": "accounting_storage/none"
    }


@pytest.mark.parametrize(
    ("cgroups", "expected"),
    [(True, ("proctrack/cgroup", "task/cgroup", "yes")), (False, ("proctrack/linuxproc", "task/none", "no"))],
)
def test_cgroups(cgroups: bool, expected: tuple[str, str, str]) -> None:
    variant = Variant(cgroups=cgroups)
    found = settings(slurmconf.slurm_conf(LAYOUT, variant))
    held = settings(slurmconf.cgroup_conf(variant))

    assert (found["ProctrackType"], found["TaskPlugin"], held["ConstrainRAMSpace"]) == expected
    assert held["ConstrainDevices"] == held["ConstrainRAMSpace"]
    assert ("OverMemoryKill" in found["JobAcctGatherParams"]) is not cgroups


def test_gpus_are_device_files_of_two_nodes_and_boards_are_counted() -> None:
    boards = "NodeName=node1,node2,node3,node4 Name=fpga Count=2 Flags=CountOnly"

    assert slurmconf.gres_conf(Variant()).splitlines()[1:] == [
        boards,
        "NodeName=node3 Name=gpu Type=v100 File=/dev/nvidia[0-1]",
        "NodeName=node4 Name=gpu Type=a100 File=/dev/nvidia[0-1]",
    ]
    assert slurmconf.gres_conf(Variant(gpus=False)).splitlines()[1:] == [boards]
    assert settings(slurmconf.slurm_conf(LAYOUT, Variant()))["GresTypes"] == "gpu,fpga"
    assert settings(slurmconf.slurm_conf(LAYOUT, Variant(gpus=False)))["GresTypes"] == "fpga"
    assert "gpu" not in "".join(lines_of(slurmconf.slurm_conf(LAYOUT, Variant(gpus=False)), "NodeName"))


def test_slurmdbd() -> None:
    found = settings(slurmconf.slurmdbd_conf(LAYOUT, "secret"))

    assert found["StoragePass"] == "secret"
    assert (found["DbdPort"], found["StoragePort"], found["StorageHost"]) == ("101", "102", "127.0.0.1")


def test_the_first_line_says_whose_a_file_is() -> None:
    texts = [
        slurmconf.slurm_conf(LAYOUT, Variant()),
        slurmconf.gres_conf(Variant()),
        slurmconf.cgroup_conf(Variant()),
        slurmconf.slurmdbd_conf(LAYOUT, "x"),
    ]

    assert [MARK in text.splitlines()[0] for text in texts] == [True] * 4


def test_no_two_daemons_share_a_port() -> None:
    layout = Layout()
    ports = [layout.ssh_port, layout.controller_port, layout.accounting_port, layout.database_port]
    ports += [layout.node_port(node) for node in NODES]

    assert len(set(ports)) == len(ports)


V1 = "".join(
    f"cgroup /sys/fs/cgroup/{name} cgroup rw,relatime,{name} 0 0\n"
    for name in ("cpuset", "cpu,cpuacct", "memory", "devices", "freezer")
)


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        (V1, True),
        (V1.replace("memory", "pids"), False),
        (V1.replace("/sys/", "/other/root/sys/"), False),
        ("cgroup2 /sys/fs/cgroup cgroup2 rw,memory,devices,freezer,cpuset,cpuacct 0 0\n", False),
        ("", False),
        ("garbage\n\n", False),
    ],
)
def test_where_controllers_are_mounted(mounts: str, expected: bool) -> None:
    assert slurmconf.controllers_mounted(mounts) is expected
