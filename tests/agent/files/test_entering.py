"""The way into a running container: by the Pod's record, where the site allows it and its batch system has one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from router.agent.batch.commands import BatchCommands
from router.agent.files.entering import Entrance, program_text
from router.agent.files.log_source import logged
from router.agent.records import Record, Records
from router.errors import RequestError
from router.host import Host
from router.host.local import LocalHost
from router.hpc import BatchSystem, Commands, local, openpbs, slurm, torque
from router.kube.events import Recorder, Reference
from router.pod.layout import PodDirectory
from router.pod.status import ContainerStatus, PodStatus, Running
from router.reconcile import outcomes
from tests.reconcile.given import JOB, T, pod, report
from tests.script.builders import site

SLURM_ID = "17"


class Piping(LocalHost):
    """Notes what it is to start."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.started: list[tuple[str, ...]] = []

    def pipe(self, argv: Any) -> Any:
        self.started.append(tuple(argv))


class Told(Recorder):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.words: list[tuple[Reference, str, str, str]] = []

    def tell(self, regarding: Reference, kind: Any, reason: str, message: str) -> None:
        self.words.append((regarding, kind, reason, message))


def given(root: Path, system: BatchSystem, job_id: str, hosts: str = "") -> tuple[Record, Records]:
    status = PodStatus(phase="Running", started=T, containers=(ContainerStatus("main", Running(T)),))
    records = Records(lambda view: PodDirectory(str(root), view.job_uid, view.index, view.uid))
    record = records.add(outcomes.first(pod(status=status, job_id=job_id)))
    record.change(lambda facts: outcomes.reported(facts, report(job_id=job_id, hosts=hosts), T))
    return record, records


def entrance(
    root: Path, system: BatchSystem, name: str, records: Records, **fields: Any
) -> tuple[Entrance, Piping, Told]:
    host, told = Piping(root), Told()
    commands = cast("BatchCommands", SimpleNamespace(system=system, commands=system.DEFAULT, user="hpc-ada"))
    made = Entrance(site(name, **fields), records, lambda _: cast("Host", host), lambda _: commands, told)
    return made, host, told


OVER_SSH = (
    "ssh", "-T", "-x", "-a", "-oBatchMode=yes", "-oStrictHostKeyChecking=yes", "-oClearAllForwardings=yes",
    "-oPermitLocalCommand=no", "-oControlMaster=no", "-oControlPath=none", "-oConnectTimeout=20",
    "-oServerAliveInterval=20", "-oServerAliveCountMax=3", "-oLogLevel=ERROR",
)  # fmt: skip


@pytest.mark.parametrize(("name", "system", "job_id"), [("local", local, JOB), ("slurm", slurm, SLURM_ID)])
def test_a_command_is_started_for_the_pod_s_own_job(
    name: str, system: BatchSystem, job_id: str, tmp_path: Path
) -> None:
    record, records = given(tmp_path, system, job_id)
    way, host, told = entrance(tmp_path, system, name, records, exec=True)

    entered = way.enter(logged(record), "main", 'a"b' + "c" * 200)

    program = record.directory.path / "inside"
    assert Path(program).read_bytes() == program_text()
    assert host.started == [system.within_argv(job_id, ("/usr/bin/python3", "-I", str(program)), system.DEFAULT)]
    assert entered.contained
    about = Reference("Pod", record.namespace, record.name, record.uid)
    shown = 'a\\"b' + "c" * 97
    words = f'kubectl exec runs "{shown}" in container main as HPC user hpc-ada'
    assert told.words == [(about, "Normal", "Exec", words)]


@pytest.mark.parametrize(("system", "attach"), [(openpbs, f"pbs_attach -j {JOB}"), (torque, f"pbs_track -j {JOB} --")])
def test_ssh_leads_to_the_node_of_the_script(system: BatchSystem, attach: str, tmp_path: Path) -> None:
    record, records = given(tmp_path, system, JOB, "n1/0*2+n2/0*2")
    name = "openpbs" if system is openpbs else "torque"
    way, host, _ = entrance(tmp_path, system, name, records, exec="ssh")

    way.enter(logged(record), "main", "sh")

    path = f"PATH={dict(system.DEFAULT.environment)['PATH']}"
    far = f"/usr/bin/env {path} {attach} /usr/bin/python3 -I {record.directory.path / 'inside'}"
    assert host.started == [("env", "-i", path, *OVER_SSH, "n1", far)]


@pytest.mark.parametrize(
    ("hosts", "host"),
    [
        ("n1/0*4", "n1"),
        ("n1.site.org/0+n2/0", "n1.site.org"),
        ("gpu-01/0-3+gpu-02/0-3", "gpu-01"),
        ("", None),
        ("-oProxyCommand=id/0", None),
        ("a b/0", None),
        ("ada@n1/0", None),
    ],
)
def test_the_node_s_name_is_never_an_option(hosts: str, host: str | None) -> None:
    argv = openpbs.over_ssh("12.head", hosts, ("/usr/bin/python3", "-I", "/w/inside"))

    assert (None if argv is None else argv[-2]) == host


def test_the_words_on_the_node_are_quoted_and_get_the_settings_of_pbs() -> None:
    commands = Commands(environment=(("PATH", "/opt/my pbs/bin"), ("PBS_CONF_FILE", "/etc/x.conf"), ("LANG", "C")))

    argv = torque.over_ssh("12.head", "n1/0", ("/usr/bin/python3", "-I", "/w/a $(id)'b/inside"), commands)

    assert argv is not None
    assert argv[-1] == (
        "/usr/bin/env 'PATH=/opt/my pbs/bin' PBS_CONF_FILE=/etc/x.conf pbs_track -j 12.head -- "
        """/usr/bin/python3 -I '/w/a $(id)'"'"'b/inside'"""
    )


def test_slurm_and_the_embedded_queue_have_a_way_of_their_own() -> None:
    assert [one.over_ssh("17", "n1/0", ("true",)) for one in (slurm, local)] == [None, None]


def test_a_step_of_slurm() -> None:
    argv = slurm.within_argv("17", ("/usr/bin/python3", "-I", "/w/inside"))

    assert argv[argv.index("srun") :] == (
        "srun", "--jobid=17", "--overlap", "--nodes=1", "--ntasks=1", "--relative=0", "--mem=0", "--chdir=/",
        "--unbuffered", "--export=NONE", "--mpi=none", "--cpu-bind=none", "/usr/bin/python3", "-I", "/w/inside",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "system", "fields", "words"),
    [
        ("local", local, {}, "site hpc does not allow it (its setting exec is false)"),
        (
            "openpbs",
            openpbs,
            {"exec": True},
            "openpbs has no way of its own into a running job, and site hpc does not say exec ssh",
        ),
        ("openpbs", openpbs, {"exec": "ssh"}, f"openpbs has not told the node of job {JOB} yet; try again"),
    ],
)
def test_what_is_refused(name: str, system: BatchSystem, fields: dict[str, Any], words: str, tmp_path: Path) -> None:
    record, records = given(tmp_path, system, JOB)
    way, host, told = entrance(tmp_path, system, name, records, **fields)

    with pytest.raises(RequestError) as refused:
        way.enter(logged(record), "main", "sh")

    expected = f"exec is not possible, as {words}; kubectl logs and kubectl describe show what the Pod does"
    assert (refused.value.status, refused.value.text.replace(f"site {way._site.name}", "site hpc")) == (501, expected)
    assert (host.started, told.words) == ([], [])
