"""The host name in real containers: the Pod's, as on a cluster; the node's where ranks on several nodes need it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bed.standing import layout
from router.pod import hostname
from router.script import render
from router.script.completing import FORMAT, part_text
from router.site.schema import Site
from tests.script.builders import IMAGE, container, route, site, text_of, workload
from tests.script.running import Pod

NODE = os.uname().nodename
ASKS = 'read -r name </proc/sys/kernel/hostname; echo "$$name $$HOSTNAME"; while read -r line; do echo "$$line"; done </etc/hosts'

apptainer = pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer on this machine")


def on(image: Path, **fields: Any) -> Site:
    return site(images=[{"match": IMAGE, "path": str(image)}], **fields)


def named(pod: Pod, **spec: Any) -> Pod:
    """The Pod's directory with the file that the agent stages."""
    pod.make()
    metadata = {"name": "work-7-x2x9z", "namespace": "lab"}
    (pod.path / "hostname").write_bytes(hostname.text({"metadata": metadata, "spec": spec}))
    return pod


def said(pod: Pod) -> list[str]:
    return pod.log().splitlines()


def asking(**fields: Any) -> dict[str, Any]:
    return container("/bin/sh", "-c", ASKS, **fields)


@apptainer
@pytest.mark.apptainer
@pytest.mark.parametrize(
    ("spec", "env", "first", "names"),
    [
        ({}, [], "work-7-x2x9z work-7-x2x9z", "work-7-x2x9z"),
        ({"hostname": "work-7"}, [], "work-7 work-7", "work-7"),
        ({"hostname": "a", "subdomain": "svc"}, [], "a a", "a.svc.lab.svc.cluster.local a"),
        (
            {"hostname": "a", "subdomain": "svc", "setHostnameAsFQDN": True},
            [],
            "a.svc.lab.svc.cluster.local a.svc.lab.svc.cluster.local",
            "a.svc.lab.svc.cluster.local a",
        ),
        ({}, [{"name": "HOSTNAME", "value": "mine"}], "work-7-x2x9z mine", "work-7-x2x9z"),
    ],
)
def test_a_container_has_the_pods_name(
    pod: Pod, image: Path, spec: dict[str, Any], env: list[dict[str, str]], first: str, names: str
) -> None:
    assert named(pod, **spec).run(text_of(workload(asking(env=env)), on(image))) == 0

    own, *hosts = said(pod)
    assert (own, hosts[-1].partition(" ")[2]) == (first, names)
    assert hosts[:-1] == Path("/etc/hosts").read_text().splitlines()
    assert [note["reason"] for note in pod.notes() if "reason" in note] == [""]


@apptainer
@pytest.mark.apptainer
def test_a_job_of_an_older_agent_keeps_the_nodes_name(pod: Pod, image: Path) -> None:
    assert pod.make().run(text_of(workload(asking()), on(image))) == 0

    assert said(pod)[0] == f"{NODE} {NODE}"


@apptainer
@pytest.mark.apptainer
def test_a_volume_at_etc_hosts_is_the_jobs(pod: Pod, image: Path, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("192.0.2.1 own\n")
    volumes = [{"name": "v", "hostPath": {"path": str(tmp_path)}}]
    mounts = [{"name": "v", "mountPath": "/etc/hosts", "subPath": "hosts"}]
    where = on(image, volumes=[{"hostPath": str(tmp_path), "path": str(tmp_path)}])

    assert named(pod).run(text_of(workload(asking(volumeMounts=mounts), volumes=volumes), where)) == 0

    assert said(pod) == ["work-7-x2x9z work-7-x2x9z", "192.0.2.1 own"]


@apptainer
@pytest.mark.apptainer
def test_where_the_runtime_cannot_the_variable_is_the_pods_and_the_job_is_told(pod: Pod, image: Path) -> None:
    conf = Path(pod.work / "apptainer.conf")
    conf.write_text(Path("/etc/apptainer/apptainer.conf").read_text().replace("uts ns = yes", "uts ns = no"))
    wrapper = pod.work / "bin" / "apptainer"
    wrapper.parent.mkdir()
    real = shutil.which("apptainer")
    wrapper.write_text(
        f'#!/bin/sh\n[ "$1" != buildcfg ] || {{ echo APPTAINER_CONF_FILE={conf}; exit; }}\nexec {real} --config {conf} "$@"\n'
    )
    wrapper.chmod(0o755)

    path = f"{wrapper.parent}:{os.environ['PATH']}"
    text = text_of(workload(asking(), container("/bin/sh", "-c", "exit 0", name="other")), on(image))
    assert named(pod).run(text, PATH=path) == 0

    assert said(pod)[0] == f"{NODE} work-7-x2x9z"
    reasons = [note.get("reason") for note in pod.notes() if note["event"] == "running"]
    assert sorted(map(str, reasons)) == ["NodeHostname", "None"]


SIF = layout().image
built = pytest.mark.skipif(not SIF.exists(), reason=f"{SIF} is not built: make bed")


@apptainer
@pytest.mark.apptainer
@built
@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
def test_an_unprivileged_user_gets_it_too() -> None:
    words = ["apptainer", "--quiet", "exec", "--no-home", "--hostname", "a", str(SIF), "hostname"]
    become = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"]
    found = subprocess.run([*become, *words], capture_output=True, text=True, check=False, cwd="/")

    assert (found.stdout, found.returncode) == ("a\n", 0), found.stderr


@apptainer
@pytest.mark.apptainer
@pytest.mark.mpi
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun on this machine")
@built
def test_ranks_on_one_node_have_the_pods_name_and_talk(pod: Pod) -> None:
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.getuid() == 0 else {}
    nodefile = pod.work / "nodefile"
    nodefile.write_text(f"{NODE}\n" * 2)
    where = site(images=[{"match": "mpi:*", "path": str(SIF)}], mpi=[{"name": "m", "launcher": "openmpi"}])
    job = workload(container("mpirun", "-np", "2", "ring", image="mpi:1"))

    assert named(pod).run(text_of(job, where), PBS_NODEFILE=str(nodefile), **as_root) == 0, pod.log()

    shown = sorted(line.partition(" sum=")[0] for line in said(pod) if line.startswith("rank="))
    assert shown == [f"rank={rank} size=2 node=work-7-x2x9z" for rank in (0, 1)]


@pytest.mark.parametrize(
    ("nodefile", "nodes", "several"),
    [("a\na\n", "", False), ("a\nb\na\n", "", True), ("", "1", False), ("", "2", True), ("", "", False)],
)
def test_ranks_keep_the_names_of_several_nodes(tmp_path: Path, nodefile: str, nodes: str, several: bool) -> None:
    """By which they find each other: with one name for all, MPICH would take them for ranks of one node."""
    environment = {"PATH": os.environ["PATH"]} | ({"SLURM_JOB_NUM_NODES": nodes} if nodes else {})
    if nodefile:
        (tmp_path / "nodefile").write_text(nodefile)
        environment["PBS_NODEFILE"] = str(tmp_path / "nodefile")
    script = f"{part_text(FORMAT, 'mpi')}\nseveral_nodes"

    assert (subprocess.run(["bash", "-c", script], env=environment, check=False).returncode == 0) is several


def test_a_job_over_several_nodes_that_asks_for_its_name_is_told() -> None:
    where = site(mpi=[{"name": "m", "launcher": "openmpi"}], queue={"cpusPerNode": 4})
    texts = ["export MASTER_ADDR=$(hostname); mpirun -np 8 ./a", "mpirun -np 8 ./a", "hostname; mpirun -np 2 ./a"]
    told = []
    for line in texts:
        job = workload(container("sh", "-c", line))
        told.append([one for one in render(job, route(job, where)).warnings if "hostname" in one])

    sentence = "it starts ranks on 2 nodes, so its hostname is the first node's, not the Pod's"
    assert told == [[f"spec.template.spec.containers[0]: {sentence}"], [], []]


def test_without_a_container_the_variable_is_the_pods(pod: Pod) -> None:
    line = 'read -r name </proc/sys/kernel/hostname; echo "$$name $$HOSTNAME"'
    text = text_of(workload(container("/bin/sh", "-c", line)), site(system="local", runtime="host"))

    assert named(pod).run(text) == 0
    assert said(pod) == [f"{NODE} work-7-x2x9z"]
