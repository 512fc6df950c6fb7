"""Each verdict: a table of what was seen, and how the line stands."""

from __future__ import annotations

from typing import Any

import pytest

from router.hpc import QueueReport
from router.policy.schema import Account
from router.preflight import Line, Mark, jobs, nodes, worst
from router.preflight.jobs import Killed, Shown
from router.preflight.queues import queue_lines
from router.site.schema import Queue, Site
from router.site.systems import SYSTEMS

OK, WARNING, MUST = Mark.OK, Mark.WARNING, Mark.MUST
GIB = 1024**3


def site(**changed: Any) -> Site:
    queue = {"name": "batch", "nodes": 2, "cpusPerNode": 4, "memoryPerNode": "4Gi", "walltimeMax": "2h"}
    return Site.model_validate({"name": "here", "system": "slurm", "workDir": "/w", "queues": [queue], **changed})


@pytest.mark.parametrize(
    ("marks", "whole"), [([], OK), ([OK], OK), ([OK, WARNING, OK], WARNING), ([WARNING, MUST, OK], MUST)]
)
def test_the_worst(marks: list[Mark], whole: Mark) -> None:
    assert worst(Line("x", "", mark, "", "") for mark in marks) is whole


def state(**changed: Any) -> QueueReport:
    given = {"walltime_max": 7200, "nodes": 4, "cores_per_node": 4, "memory_per_node": 4 * GIB, "gpus_per_node": 0}
    return QueueReport(**{"name": "batch", "enabled": True, "started": True, **given, **changed})


@pytest.mark.parametrize(
    ("found", "mark", "change"),
    [
        ({}, MUST, "fix the queue's name"),
        ({"batch": state()}, OK, ""),
        ({"batch": QueueReport("batch", enabled=True, started=True)}, OK, ""),
        ({"batch": state(walltime_max=3600)}, MUST, "walltimeMax: 1h"),
        ({"batch": state(nodes_max=1)}, MUST, "nodes: 1"),
        ({"batch": state(nodes=1)}, MUST, "nodes: 1"),
        ({"batch": state(nodes=1, broken=("n2",))}, WARNING, "fix n2: a Job that needs more nodes"),
        ({"batch": state(nodes=1, nodes_max=2, broken=("n2",))}, WARNING, "fix n2: a Job that needs more nodes"),
        ({"batch": state(nodes=2, broken=("n3",))}, OK, ""),
        ({"batch": state(nodes=0, broken=("n1", "n2"))}, MUST, "fix n1, n2: the queue has no node that runs jobs"),
        ({"batch": state(nodes=0, nodes_max=2, broken=("n1", "n2"))}, MUST, "the queue has no node that runs jobs"),
        ({"batch": state(nodes=0, broken=("n1",), destinations=("other",))}, OK, ""),
        ({"batch": state(nodes=0, broken=())}, MUST, "nodes: 0"),
        ({"batch": state(nodes=1, broken=("n2",), cores_per_node=2)}, MUST, "cpusPerNode: 2"),
        ({"batch": state(cores_per_node=2)}, MUST, "cpusPerNode: 2"),
        ({"batch": state(memory_per_node=GIB)}, MUST, "memoryPerNode: 1024Mi"),
        ({"batch": state(nodes=1, destinations=("other",))}, OK, ""),
        ({"batch": state(enabled=False)}, WARNING, "open the queue"),
        ({"batch": state(started=False)}, WARNING, "open the queue"),
    ],
)
def test_queues(found: dict[str, QueueReport], mark: Mark, change: str) -> None:
    (line,) = queue_lines(site(), found, "ada")

    assert (line.name, line.user, line.mark, change in line.change) == ("queue/batch", "ada", mark, True), line


def test_a_queue_with_nodes_out_of_order_names_them() -> None:
    (line,) = queue_lines(site(), {"batch": state(nodes=1, broken=tuple("abcdefg"))}, "ada")

    assert line.seen.endswith(
        "; nodes 8; cpusPerNode 4; memoryPerNode 4096Mi; gpusPerNode 0; out of order: a, b, c, d, e and 2 more"
    )
    assert line.change.startswith("fix a, b, c, d, e and 2 more: ")


def test_a_queue_whose_limit_the_policy_does_not_know() -> None:
    queue = Queue.model_validate({"name": "batch", "nodes": 1, "cpusPerNode": 1, "gpusPerNode": 1})
    found = {"batch": state(gpus_per_node=2)}

    (line,) = queue_lines(site(queues=[queue]), found, "ada")

    assert (line.mark, line.change) == (WARNING, "write walltimeMax: 2h, else longer Jobs are refused there")


@pytest.mark.parametrize(
    ("found", "name", "mark"),
    [(True, "a.b", OK), (True, "", OK), (True, "other", MUST), (False, "a.b", MUST), (False, "", MUST)],
)
def test_job_names(found: bool, name: str, mark: Mark) -> None:
    assert jobs.name_line("ada", Shown("a.b", found, name, "", "")).mark is mark


@pytest.mark.parametrize(
    ("system", "account", "shown", "marks"),
    [
        ("slurm", {}, ("research", ""), [OK]),
        ("slurm", {"account": "physics"}, ("physics", ""), [OK]),
        ("slurm", {"account": "physics"}, ("research", ""), [MUST]),
        ("slurm", {"account": "physics"}, ("", ""), [WARNING]),
        ("openpbs", {"project": "sky"}, ("", "sky"), [OK, OK]),
        ("openpbs", {"project": "sky"}, ("", "_pbs_project_default"), [OK, WARNING]),
        ("openpbs", {"project": "sky"}, ("", "sea"), [OK, MUST]),
        ("torque", {"project": "sky"}, ("", ""), [OK]),
    ],
)
def test_accounts(system: str, account: dict[str, str], shown: tuple[str, str], marks: list[Mark]) -> None:
    entry = Account.model_validate({"as": "ada", **account})

    lines = jobs.account_lines("ada", Shown("a", True, "a", *shown), entry, system)

    assert [line.mark for line in lines] == marks


@pytest.mark.parametrize(("kept", "known", "mark"), [(True, True, OK), (True, False, WARNING), (False, False, WARNING)])
@pytest.mark.parametrize(
    ("system", "change"),
    [("slurm", "slurmdbd"), ("openpbs", "job_history_enable"), ("torque", "keep_completed")],
)
def test_history(kept: bool, known: bool, mark: Mark, system: str, change: str) -> None:
    line = jobs.history_line("ada", system, kept=kept, known=known)

    assert (line.mark, change in line.change) == (mark, mark is not OK)


@pytest.mark.parametrize(
    ("own", "others", "hidden", "mark", "seen"),
    [
        (True, [], [], OK, "nobody else's probe was there"),
        (True, ["ben"], [], OK, "seen: ben"),
        (True, ["ben"], ["eve"], OK, "seen: ben; hidden: eve"),
        (False, [], ["ben"], MUST, "hidden: ben"),
    ],
)
def test_whose_jobs_are_seen(own: bool, others: list[str], hidden: list[str], mark: Mark, seen: str) -> None:
    mine, rest = jobs.visible_lines("ada", own=own, others=others, hidden=hidden)

    assert (mine.mark, rest.mark, rest.seen) == (mark, OK, seen)


@pytest.mark.parametrize("system", SYSTEMS)
def test_whether_the_observer_sees_a_probe(system: str) -> None:
    seen, hidden = (jobs.observer_line("ada", "watch", system, seen=seen) for seen in (True, False))

    assert (seen.mark, seen.seen, seen.change) == (OK, "watch sees the probe", "")
    assert (hidden.mark, hidden.seen) == (WARNING, "watch does not see the probe")
    assert "watch" in hidden.change
    assert "remove observer" in hidden.change


@pytest.mark.parametrize(
    ("killed", "mark", "seen"),
    [
        (Killed(True, (10.0,), (10.2, 14.9)), OK, "KILL 4.9 s after TERM"),
        (Killed(True, (10.0,), ()), WARNING, "KILL 0.0 s after TERM"),
        (Killed(True, (10.0, 11.0), (10.2, 11.1)), WARNING, "KILL 1.1 s after TERM"),
        (Killed(True, (), ()), WARNING, "KILL without a TERM before"),
        (Killed(False, (10.0,), (10.2,)), MUST, "the deleted probe did not end"),
    ],
)
def test_deletion(killed: Killed, mark: Mark, seen: str) -> None:
    line = jobs.kill_line("ada", killed, "slurm")

    assert (line.mark, line.seen) == (mark, seen)


@pytest.mark.parametrize(
    ("system", "change"),
    [
        ("slurm", "KillWait = 30 in slurm.conf"),
        ("openpbs", "qmgr -c 'set queue QUEUE kill_delay = 30'"),
        (
            "torque",
            "`$exec_with_exec true` in mom_priv/config of the nodes, and qmgr -c 'set queue QUEUE kill_delay = 30'",
        ),
        ("local", "set a kill delay"),
    ],
)
@pytest.mark.parametrize("killed", [jobs.Killed(True, (), ()), jobs.Killed(True, (100.0,), (100.2,))])
def test_what_gives_a_deleted_job_its_time(killed: Killed, system: str, change: str) -> None:
    line = jobs.kill_line("ada", killed, system)

    assert line.change == f"{change}; else jobs that are deleted cannot say how they ended"


BOTH = {"launcher-path": ("/usr/bin/mpirun",), "launched": ("0",), "rank": ("n1", "n2")}


@pytest.mark.parametrize(
    ("report", "left", "count", "marks"),
    [
        (BOTH, ("n1", "n2"), 2, [OK, OK]),
        (BOTH, ("n1",), 2, [OK, MUST]),
        ({**BOTH, "rank": ("n1", "n1")}, ("n1",), 2, [MUST, OK]),
        ({**BOTH, "rank": ("n1", "n1")}, ("n1",), 1, [OK, OK]),
        ({**BOTH, "launched": ("213",), "said": ("no slots",)}, ("n1", "n2"), 2, [MUST, OK]),
        ({**BOTH, "rank": ()}, (), 2, [MUST, OK]),
        ({"launcher-path": ("",), "host": ("n1",)}, (), 2, [MUST]),
    ],
)
def test_two_nodes(report: Any, left: tuple[str, ...], count: int, marks: list[Mark]) -> None:
    assert [line.mark for line in jobs.two_nodes_lines("ada", "open-mpi", report, left, count)] == marks


RULER = "-" * 74
NO_SLOTS = (
    RULER,
    "There are not enough slots available in the system to satisfy the 2",
    "slots that were requested by the application:",
    "",
    "  /bin/bash",
    "",
    "Either request fewer slots for your application, or make more slots",
    "available for use.",
    RULER,
)


@pytest.mark.parametrize(
    ("launched", "said", "complaint"),
    [
        (
            "1",
            NO_SLOTS,
            "There are not enough slots available in the system to satisfy the 2 slots that were requested by the application: /bin/bash",
        ),
        ("213", (RULER, "", RULER), "it started too few"),
        ("1", (), "it started too few"),
        ("2", ("loading site defaults", "", "[mpiexec@n1] unrecognized argument nope", "[mpiexec@n1] usage"), "[mpiexec@n1] unrecognized argument nope [mpiexec@n1] usage"),
        ("124", ("waiting for n2",), "it was ended after 120 s: waiting for n2"),
        ("1", ("srun: error: Unable to create step", RULER), "srun: error: Unable to create step"),
    ],
)  # fmt: skip
def test_a_launchers_own_sentence_is_said(launched: str, said: tuple[str, ...], complaint: str) -> None:
    """Open MPI's last line is a ruler."""
    line, _ = jobs.two_nodes_lines(
        "ada", "open-mpi", {**BOTH, "launched": (launched,), "said": said, "rank": ()}, (), 2
    )

    assert (line.name, line.mark) == ("launcher/open-mpi", MUST)
    assert line.change == f"fix MPI profile open-mpi (options, env): {complaint}"


@pytest.mark.parametrize(
    ("version", "program"),
    [(("",), "/usr/bin/mpirun"), (("mpirun (Open MPI) 4.1.4",), "/usr/bin/mpirun (mpirun (Open MPI) 4.1.4)")],
)
def test_the_launchers_version_is_said(version: tuple[str, ...], program: str) -> None:
    line, _ = jobs.two_nodes_lines("ada", "open-mpi", {**BOTH, "launcher-version": version}, ("n1", "n2"), 2)

    assert line.seen == f"{program}: exit code 0, 2 ranks on n1, n2"


@pytest.mark.parametrize(
    ("report", "mark"),
    [
        (None, MUST),
        ({"user": ("ada",), "host": ("n1",)}, OK),
        ({"user": ("root",), "host": ("n1",)}, MUST),
        ({"user": ("ada",), "host": ("n1",), "modules": ("module load x failed",)}, MUST),
    ],
)
def test_the_probe_itself(report: Any, mark: Mark) -> None:
    assert nodes.whole_line("ada", site(), report, "job 1 ended").mark is mark


LINKS = {"link": ("ok",), "link-over": ("first",), "link-count": ("2",), "rename": ("ok",), "rename-over": ("new",)}


@pytest.mark.parametrize(
    ("labels", "machine", "mark", "change"),
    [
        ({}, "x86_64", OK, ""),
        ({}, "", OK, ""),  # a probe of the release before did not say
        ({"kubernetes.io/arch": "arm64"}, "aarch64", OK, ""),
        ({"kubernetes.io/arch": ["amd64", "arm64"]}, "aarch64", OK, ""),
        ({"kubernetes.io/arch": "ppc64le"}, "ppc64le", OK, ""),
        ({}, "aarch64", WARNING, "write nodeLabels: {kubernetes.io/arch: arm64} for queue q"),
        (
            {"kubernetes.io/arch": "arm64"},
            "x86_64",
            WARNING,
            "write nodeLabels: {kubernetes.io/arch: amd64} for queue q",
        ),
    ],
)
def test_architectures(labels: Any, machine: str, mark: Mark, change: str) -> None:
    (queue,) = site(queues=[{"name": "q", "nodes": 1, "cpusPerNode": 1, "nodeLabels": labels}]).queues

    line = nodes.architecture_line("ada", queue, {"host": ("n1",), "machine": (machine,)})

    assert (line.name, line.mark, line.change.partition(",")[0]) == ("architecture", mark, change)


@pytest.mark.parametrize(
    ("changed", "marks"),
    [
        ({}, [OK, OK]),
        ({"link-count": ("1",)}, [OK, OK]),  # sshfs always says so
        ({"link": ("ln: Operation not permitted",)}, [MUST, OK]),
        ({"link-over": ("replaced",)}, [MUST, OK]),
        ({"rename-over": ("first",)}, [OK, MUST]),
        ({"rename": ("the old name is still there",)}, [OK, MUST]),
    ],
)
def test_links_and_renames(changed: Any, marks: list[Mark]) -> None:
    assert [line.mark for line in nodes.link_lines("ada", {**LINKS, **changed})] == marks


@pytest.mark.parametrize(
    ("seconds", "complete", "mark", "change"),
    [
        (0.0, True, OK, ""),
        (24.0, True, OK, ""),
        (25.0, True, WARNING, "fsDelay: 38s"),
        (31.0, True, MUST, "fsDelay: 46s"),
        (10.0, False, MUST, "fsDelay: 15s"),
    ],
)
def test_delays(seconds: float, complete: bool, mark: Mark, change: str) -> None:
    line = nodes.delay_line("names-delay", "ada", seconds, site(fsDelay=30), complete=complete)

    assert (line.mark, change in line.change) == (mark, True)


@pytest.mark.parametrize(
    ("seconds", "mark", "seen"),
    [
        (0.0, OK, "0.0 s ahead"),
        (-5.0, OK, "5.0 s behind"),
        (5.1, WARNING, "5.1 s ahead"),
        (-61.0, MUST, "61.0 s behind"),
        (None, WARNING, "not known"),
    ],
)
def test_clocks(seconds: float | None, mark: Mark, seen: str) -> None:
    line = nodes.skew_line("clock-nodes", "ada", seconds)

    assert (line.mark, line.seen, bool(line.change)) == (mark, seen, mark is not OK)


@pytest.mark.parametrize(
    ("report", "skew"),
    [
        ({"clock": ("100",), "stamp": ("98",)}, 2.0),
        ({"clock": ("100",)}, None),
        ({"clock": ("x",), "stamp": ("1",)}, None),
    ],
)
def test_the_clock_of_a_node(report: Any, skew: float | None) -> None:
    assert nodes.node_skew(report) == skew


RUNS = {"runtime-path": ("/usr/bin/apptainer",), "setuid": ("no",), "namespaces": ("yes",), "image": ("0 ",)}


@pytest.mark.parametrize(
    ("changed", "report", "marks"),
    [
        ({"runtime": "host"}, {}, [OK]),
        ({}, {"host": ("n1",)}, [MUST]),
        ({}, RUNS, [OK, OK]),
        ({}, {**RUNS, "namespaces": ("unshare failed",)}, [OK, MUST]),
        ({}, {**RUNS, "namespaces": ("unshare failed",), "setuid": ("yes",)}, [OK, OK]),
        ({"images": [{"match": "*", "path": "/i.sif"}]}, RUNS, [OK, OK, OK]),
        ({"images": [{"match": "*", "path": "/i.sif"}]}, {**RUNS, "image": ("255 no file",)}, [OK, OK, MUST]),
    ],
)
def test_runtimes(changed: Any, report: Any, marks: list[Mark]) -> None:
    assert [line.mark for line in nodes.runtime_lines("ada", site(**changed), report)] == marks


@pytest.mark.parametrize(
    ("declared", "found", "mark", "change"),
    [
        (None, "apptainer version 1.3.4-1.el9", OK, ""),
        (None, "singularity-ce version 3.11.4-focal", OK, ""),
        (None, "singularity version 3.8.7-1.el8", MUST, "write runtimeVersion: '3.8.7'"),
        (None, "apptainer version 1.0.3", MUST, "write runtimeVersion: '1.0.3'"),
        ("1.0.3", "apptainer version 1.0.3", OK, ""),
        ("1.0.3", "apptainer version 1.3.4", OK, ""),  # escaped, and read as shell text all the same
        ("1.3.4", "apptainer version 1.0.3", MUST, "install Apptainer 1.1"),
        (None, "a wrapper of the site's", OK, ""),
    ],
)
def test_versions_of_runtimes(declared: str | None, found: str, mark: Mark, change: str) -> None:
    changed = {} if declared is None else {"runtimeVersion": declared}

    line, *_ = nodes.runtime_lines("ada", site(**changed), {**RUNS, "runtime-version": (found,)})

    assert (line.name, line.mark, change in line.change, bool(line.change)) == ("runtime", mark, True, bool(change))


@pytest.mark.parametrize(
    ("system", "limit", "seen", "named"),
    [
        ("torque", "65536", "/i.sif: exit code 2 with 65536 KiB of data (ulimit -d): fatal error: no", True),
        ("torque", "unlimited", "/i.sif: exit code 2: fatal error: no", False),
        ("openpbs", "65536", "/i.sif: exit code 2: fatal error: no", False),
    ],
)
def test_a_runtime_that_has_too_little_memory(system: str, limit: str, seen: str, named: bool) -> None:
    """TORQUE's MoM sets RLIMIT_DATA."""
    found = site(system=system, images=[{"match": "*", "path": "/i.sif"}])

    *_, line = nodes.runtime_lines("ada", found, {**RUNS, "image": ("2 fatal error: no",), "data-limit": (limit,)})

    assert (line.name, line.mark, line.seen, "$ignmem" in line.change) == ("image", MUST, seen, named)


def test_images_that_cannot_be_read() -> None:
    found = site(images=[{"match": "a", "path": "/a.sif"}, {"match": "b", "path": "/b.sif"}])

    *_, line = nodes.runtime_lines("ada", found, {**RUNS, "image-missing": ("/b.sif",)})

    assert (line.mark, line.seen) == (WARNING, "/a.sif starts; not to be read: /b.sif")
