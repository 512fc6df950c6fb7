"""Queues and nodes of OpenPBS, Slurm and the embedded queue (TORQUE's stand in test_torque)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from router.errors import OutputError
from router.hpc import QueueReport, local, openpbs, slurm
from router.hpc.slurm.records import RECORD_END, UNIT_END
from tests.hpc.recordings import text

GIB = 1 << 30
WORKQ = QueueReport(
    name="workq", enabled=True, started=True, nodes=4, free_nodes=2, cores_per_node=4, memory_per_node=4 * GIB,
    gpus_per_node=0, free_cores=10, queued=1, running=1,
)  # fmt: skip


def test_the_recorded_queues_of_openpbs() -> None:
    found = openpbs.parse_queues((text("openpbs/90-qstat-Qf.json"), text("openpbs/90-pbsnodes-av.json")))

    assert found == {
        "workq": WORKQ,
        "short": replace(
            WORKQ, name="short", walltime_max=600, walltime_default=300, running_max=2, queued=1, running=2
        ),
        "disabledq": replace(WORKQ, name="disabledq", enabled=False, reason="enabled = False", queued=0, running=0),
        "stoppedq": replace(WORKQ, name="stoppedq", started=False, reason="started = False", queued=0, running=0),
        "aclq": replace(WORKQ, name="aclq", queued=0, running=0),
        "limq": replace(WORKQ, name="limq", started=False, reason="started = False", queued_max=2, queued=0, running=0),
        "routeq": QueueReport(
            name="routeq", enabled=True, started=True, destinations=("short", "workq"), queued=0, running=0
        ),
    }


def openpbs_queue(nodes: dict[str, dict[str, object]], **attributes: object) -> QueueReport:
    usual = {"queue_type": "Execution", "enabled": "True", "started": "True", "state_count": ""}
    queues = {"pbs_server": "vm", "Queue": {"q": {**usual, **attributes}}}
    found = openpbs.parse_queues((json.dumps(queues), json.dumps({"pbs_server": "vm", "nodes": nodes})))
    return found["q"]


def vnode(state: str = "free", *, taken: int = 0, queue: str = "", **available: object) -> dict[str, object]:
    node: dict[str, object] = {
        "state": state,
        "resources_available": {"ncpus": 8, "mem": "16gb", **available},
        "resources_assigned": {"ncpus": taken},
    }
    return {**node, "queue": queue} if queue else node


def test_vnodes_of_one_host_are_one_node() -> None:
    found = openpbs_queue({"a[0]": vnode(host="a", ngpus=1), "a[1]": vnode(host="a", ngpus=1, taken=3)})

    assert (found.nodes, found.free_nodes, found.cores_per_node, found.free_cores) == (1, 0, 16, 13)
    assert (found.memory_per_node, found.gpus_per_node) == (32 * GIB, 2)


def test_nodes_that_do_not_work_are_counted_out() -> None:
    found = openpbs_queue(
        {"a": vnode("down"), "b": vnode("offline,free"), "c": vnode("job-busy", taken=8), "d": vnode()}
    )

    assert (found.nodes, found.free_nodes, found.free_cores, found.cores_per_node) == (2, 1, 8, 8)
    assert found.broken == ("a", "b")


def test_the_nodes_of_a_queue() -> None:
    nodes = {"a": vnode(queue="q"), "b": vnode(queue="other"), "c": vnode(Qlist="q,long"), "d": vnode(Qlist="long")}

    assert openpbs_queue(nodes, hasnodes="True").nodes == 1
    assert openpbs_queue(nodes, default_chunk={"Qlist": "q"}).nodes == 2
    assert openpbs_queue({"c": nodes["c"], "d": nodes["d"]}, default_chunk={"Qlist": "q", "ncpus": 1}).nodes == 1


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"max_queued": "[u:PBS_GENERIC=20]", "max_run": "[o:PBS_ALL=7]"}, (20, 7)),
        ({"max_queued": "[u:PBS_GENERIC=20],[o:PBS_ALL=10],[u:ada=1]"}, (10, None)),
        ({"max_queuable": 30, "max_user_run": 3, "max_running": 9}, (30, 3)),
        ({"max_run": "[g:PBS_GENERIC=1]"}, (None, None)),
    ],
)
def test_limits_of_one_users_jobs(attributes: dict[str, object], expected: tuple[int | None, int | None]) -> None:
    found = openpbs_queue({}, **attributes)

    assert (found.queued_max, found.running_max) == expected


def test_several_limits_as_one_key_several_times() -> None:
    queues = '{"pbs_server": "vm", "Queue": {"q": {"max_run": "[u:PBS_GENERIC=5]", "max_run": "[o:PBS_ALL=3]"}}}'

    assert openpbs.parse_queues((queues, '{"pbs_server": "vm"}'))["q"].running_max == 3


@pytest.mark.parametrize("bad", ["", "[]", "{", '{"Queue": {}}', '{"pbs_server": "vm", "Queue": {"q": 1}}'])
def test_what_is_no_answer_of_openpbs(bad: str) -> None:
    with pytest.raises(OutputError):
        openpbs.parse_queues((bad, text("openpbs/90-pbsnodes-av.json")))


PARTITIONS = (
    "PartitionName=batch AllowGroups=ALL DefaultTime=01:00:00 MaxNodes=UNLIMITED MaxTime=1-00:00:00 Nodes=node[1-2] State=UP\n"
    "PartitionName=gpu DefaultTime=NONE MaxNodes=2 MaxTime=UNLIMITED Nodes=node[3-4] State=DRAIN TotalCPUs=8\n"
)
NODES = (
    "NodeName=node1 CPUAlloc=1 CPUEfctv=4 CPUTot=4 Gres=(null) RealMemory=4000 State=MIXED Partitions=batch,all OS=Linux 6 #1\n"
    "NodeName=node2 CPUAlloc=0 CPUTot=4 Gres=(null) RealMemory=8000 State=IDLE Partitions=batch,all \n"
    "NodeName=node3 CPUAlloc=0 CPUTot=4 Gres=gpu:a100:2(S:0),gpu:1 RealMemory=8000 State=IDLE+DRAIN Partitions=gpu,all\n"
    "NodeName=node4 CPUAlloc=0 CPUTot=4 Gres=vgpu:4,gpu:2,my_gpu:a100:8 RealMemory=8000 State=DOWN* Partitions=gpu,all Reason=lost\n"
)
JOBS = "".join(
    f"{UNIT_END.join(job)}{RECORD_END}\n"
    for job in (
        ("PENDING", "batch", "59", "Priority", "90", "12"),
        ("PENDING", "batch", "10", "Priority", "90", "9"),
        ("PENDING", "batch,gpu", "120", "Resources", "100", "11"),
        ("PENDING", "gpu", "86400", "Dependency", "4294901755", "7"),
        ("PENDING", "gpu", "86400", "ReqNodeNotAvail, UnavailableNodes:node4", "200", "8"),
        ("RUNNING", "batch", "7200", "None", "300", "6"),
    )
)


def test_partitions_of_slurm() -> None:
    assert slurm.parse_queues((PARTITIONS, NODES, JOBS)) == {
        "batch": QueueReport(
            name="batch", enabled=True, started=True, walltime_max=86400, walltime_default=3600, nodes=2, free_nodes=1,
            cores_per_node=4, memory_per_node=8000 << 20, gpus_per_node=0, free_cores=7, queued=3, running=1,
            waited=120, line=("11", "9", "12"), listed=frozenset({"6", "9", "11", "12"}),
        ),
        "gpu": QueueReport(
            name="gpu", enabled=False, started=True, reason="State=DRAIN", nodes_max=2, nodes=0, free_nodes=0,
            cores_per_node=4, memory_per_node=8000 << 20, gpus_per_node=3, free_cores=0, queued=3, running=0,
            waited=120, line=("11",), listed=frozenset({"7", "8", "11"}), broken=("node3", "node4"),
        ),
    }  # fmt: skip
    assert {one.waited for one in slurm.parse_queues((PARTITIONS, NODES, "")).values()} == {0}


@pytest.mark.parametrize(
    ("pending", "reason", "expected"),
    [
        # The hosts' clocks differ by a few seconds.
        ("-2", "Priority", (0, ("7",))),
        ("-86400", "Dependency", (0, ())),
        ("3", "Resources,Priority", (3, ("7",))),
        ("3", "Resources, Priority", (3, ("7",))),
        ("3", "Priority,Dependency", (0, ())),
        ("3", "", (0, ())),
    ],
)
def test_which_jobs_of_slurm_wait_for_their_turn_and_how_long(
    pending: str, reason: str, expected: tuple[int, tuple[str, ...]]
) -> None:
    job = UNIT_END.join(("PENDING", "batch", pending, reason, "100", "7"))

    found = slurm.parse_queues((PARTITIONS, NODES, f"{job}{RECORD_END}\n"))["batch"]

    assert (found.waited, found.line) == expected


@pytest.mark.parametrize(
    "outputs",
    [
        (PARTITIONS[:-1], NODES, JOBS),
        (PARTITIONS, NODES[:-1], JOBS),
        (PARTITIONS, NODES, JOBS[:-1]),
        (NODES, NODES, JOBS),
        (PARTITIONS.replace("UP", "ODD"), NODES, JOBS),
        (PARTITIONS.replace("1-00", "x"), NODES, JOBS),
        (PARTITIONS, NODES.replace("CPUTot=4", "CPUTot=many"), JOBS),
        (PARTITIONS, NODES, "hello\n"),
        (PARTITIONS, NODES, JOBS.replace("120", "N/A-1")),
        (PARTITIONS, NODES, JOBS.replace("300", "high")),
        (PARTITIONS, NODES, "PENDING batch\n"),
    ],
)
def test_what_is_no_answer_of_slurm(outputs: tuple[str, str, str]) -> None:
    with pytest.raises(OutputError):
        slurm.parse_queues(outputs)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("IDLE", (1, 1, 4)),
        ("IDLE+CLOUD", (1, 1, 4)),
        ("IDLE+CLOUD+POWERED_DOWN", (1, 1, 4)),
        ("IDLE+POWERING_UP", (1, 1, 4)),
        ("IDLE+DYNAMIC_NORM", (1, 1, 4)),
        ("IDLE+A_FLAG_OF_SOME_LATER_RELEASE", (1, 1, 4)),
        ("MIXED", (1, 0, 4)),
        ("MIXED+CLOUD", (1, 0, 4)),
        ("MIXED+COMPLETING", (1, 0, 4)),
        ("IDLE+COMPLETING", (1, 0, 4)),
        ("IDLE+PLANNED", (1, 0, 0)),
        ("IDLE+RESERVED", (1, 0, 0)),
        ("MIXED+PLANNED", (1, 0, 0)),
        ("IDLE+POWERING_DOWN", (1, 0, 0)),
        ("IDLE+REBOOT_REQUESTED", (1, 0, 0)),
        ("IDLE+DRAIN", (0, 0, 0)),
        ("MIXED+DRAIN", (0, 0, 0)),
        ("IDLE+MAINTENANCE+RESERVED", (0, 0, 0)),
        ("IDLE+NOT_RESPONDING", (0, 0, 0)),
        ("IDLE*", (0, 0, 0)),
        ("IDLE$", (0, 0, 0)),
        ("DOWN+CLOUD", (0, 0, 0)),
        ("IDLE+FAIL", (0, 0, 0)),
        ("IDLE+INVALID_REG", (0, 0, 0)),
        ("FUTURE", (0, 0, 0)),
        ("UNKNOWN", (0, 0, 0)),
    ],
)
def test_nodes_of_slurm_by_their_flags(state: str, expected: tuple[int, int, int]) -> None:
    """Those that work, those that are free, and free cores."""
    node = f"NodeName=n CPUAlloc=0 CPUTot=4 Gres=(null) RealMemory=4000 State={state} Partitions=batch\n"

    found = slurm.parse_queues((PARTITIONS, node, ""))["batch"]

    assert (found.nodes, found.free_nodes, found.free_cores) == expected


def test_the_embedded_queues_own_figures() -> None:
    shown = {"site": "local", "queue": "workq", "up": False, "freeNodes": 1, "queuedJobs": 2, "runningJobs": 3}

    assert local.parse_queues((json.dumps({"queues": [shown]}),)) == {
        "workq": QueueReport(
            name="workq", enabled=False, started=False, reason="not enabled, or not started", free_nodes=1, queued=2,
            running=3,
        )
    }  # fmt: skip
    for wrong in ({"up": "yes"}, {"freeNodes": -1}, {"queuedJobs": True}, {"queue": 3}):
        with pytest.raises(OutputError):
            local.parse_queues((json.dumps({"queues": [{**shown, **wrong}]}),))
