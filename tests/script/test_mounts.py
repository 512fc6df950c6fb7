"""What a container may have planted in a volume leads no later container out of what the site offers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from router.demo import sandbox
from router.site.schema import Site
from router.workload import workload_of
from router.workload.claims import Bound, Claims, Wanted
from router.workload.cluster import Cluster
from tests.script.builders import IMAGE, container, job, site, text_of, workload
from tests.script.running import Pod

pytestmark = [
    pytest.mark.apptainer,
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer on this machine"),
]
CAT = ("/bin/sh", "-c", "cat /v/key; echo stolen >/v/written")

SOURCES: list[dict[str, Any]] = [
    {"hostPath": {"path": "/mnt/data/mine"}},
    {"nfs": {"server": "filer", "path": "/export/mine"}},
    {"persistentVolumeClaim": {"claimName": "mine"}},
    {"csi": {"driver": "lab.csi.example.org", "volumeAttributes": {"dir": "mine"}}},
]


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("image") / "sandbox"
    sandbox.build(path)
    return path


@pytest.fixture
def offered(pod: Pod) -> Path:
    """What the site maps: a directory, by a link that is the admin's own."""
    for directory in ("file-server/physics", "alice"):
        (pod.work / directory).mkdir(parents=True)
    (pod.work / "alice" / "key").write_text("secret\n")
    (pod.work / "project").symlink_to("file-server")
    return pod.work / "project"


def on(image: Path, offered: Path, **fields: Any) -> Site:
    maps = [
        {"hostPath": "/mnt/data", "path": f"{offered}/physics"},
        {"nfs": "filer:/export", "path": f"{offered}/physics"},
        {"claim": "physics/mine", "path": f"{offered}/{{namespace}}/{{claim}}"},
        {"csi": "lab.csi.example.org", "path": f"{offered}/physics/{{attributes.dir}}"},
        {"storageClass": "nfs", "path": f"{offered}/{{namespace}}/{{claim}}-{{volume}}"},
        {"image": "ghcr.io/lab/*", "path": f"{offered}/physics"},
    ]
    return site(images=[{"match": IMAGE, "path": str(image)}], volumes=maps, **fields)


def mounting(source: dict[str, Any], **mount: Any) -> dict[str, Any]:
    return {
        "containers": [container(*CAT, volumeMounts=[{"name": "v", "mountPath": "/v", **mount}])],
        "volumes": [{"name": "v", **source}],
    }


def script(image: Path, offered: Path, source: dict[str, Any], **mount: Any) -> str:
    fields = mounting(source, **mount)
    return text_of(workload(*fields.pop("containers"), **fields), on(image, offered))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: next(iter(source)))
@pytest.mark.parametrize("link", ["alice", "../../alice"])
def test_a_planted_link_is_refused(pod: Pod, image: Path, offered: Path, source: dict[str, Any], link: str) -> None:
    target = str(pod.work / link) if link == "alice" else link
    (offered / "physics" / "mine").symlink_to(target)

    assert pod.run(script(image, offered, source)) == 126

    below, root = ("physics/mine", offered) if "persistentVolumeClaim" in source else ("mine", offered / "physics")
    sentence = f"the volume's path {below} leads out of {root}, by a link"
    assert pod.log() == f"batchgate: {sentence}: the container is not started\n"
    found = pod.exit() or {}
    assert (found["code"], found["reason"], found["message"]) == (126, "CreateContainerError", sentence)
    assert sorted(path.name for path in (pod.work / "alice").iterdir()) == ["key"]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: next(iter(source)))
@pytest.mark.parametrize("link", [False, True], ids=["plain", "link"])
def test_what_lies_within_is_mounted_also_by_a_link(
    pod: Pod, image: Path, offered: Path, source: dict[str, Any], link: bool
) -> None:
    (offered / "physics" / ("there" if link else "mine")).mkdir()
    if link:
        (offered / "physics" / "mine").symlink_to("there")
    (offered / "physics" / "mine" / "key").write_text("own\n")

    assert pod.run(script(image, offered, source)) == 0, pod.log()

    assert pod.log() == "own\n"
    assert (offered / "physics" / "mine" / "written").read_text() == "stolen\n"


def test_a_directory_of_the_manifest_is_not_made(pod: Pod, image: Path, offered: Path) -> None:
    assert pod.run(script(image, offered, SOURCES[0], subPath="deep")) == 126

    name = os.uname().nodename
    assert pod.log() == (
        f"batchgate: there is no {offered}/physics/mine on {name}, which is to be mounted: the container is not started\n"
    )
    assert not list((offered / "physics").iterdir())


@pytest.mark.parametrize("source", [{"emptyDir": {}}, SOURCES[0]], ids=lambda source: next(iter(source)))
def test_a_sub_path_is_made_also_for_a_read_only_mount(
    pod: Pod, image: Path, offered: Path, source: dict[str, Any]
) -> None:
    """A kubelet makes it in the volume, which is no more read-only than before."""
    (offered / "physics" / "mine").mkdir()
    mount = {"name": "v", "mountPath": "/v", "subPath": "in/side", "readOnly": True}
    look = container("/bin/sh", "-c", "ls -A /v | wc -l; touch /v/x || echo refused", volumeMounts=[mount])

    assert pod.run(text_of(workload(look, volumes=[{"name": "v", **source}]), on(image, offered))) == 0, pod.log()

    assert pod.log().splitlines()[0] == "0"
    assert pod.log().splitlines()[-1] == "refused"


@pytest.mark.parametrize("link", ["../../../alice", "../other", "loop"])
def test_no_sub_path_is_made_by_a_planted_link(pod: Pod, image: Path, offered: Path, link: str) -> None:
    """Also a link to another's volume of the same site."""
    (offered / "physics" / "mine").mkdir()
    (offered / "physics" / "other").mkdir()
    (offered / "physics" / "mine" / "loop").symlink_to("loop")
    (offered / "physics" / "mine" / "in").symlink_to(link)

    assert pod.run(script(image, offered, SOURCES[0], subPath="in/side", readOnly=True)) == 126

    assert sorted(path.name for path in (pod.work / "alice").iterdir()) == ["key"]
    assert not list((offered / "physics" / "other").iterdir())
    assert sorted(path.name for path in (offered / "physics" / "mine").iterdir()) == ["in", "loop"]


@pytest.mark.parametrize(
    "source",
    [
        {"nfs": {**SOURCES[1]["nfs"], "readOnly": True}},
        {"persistentVolumeClaim": {"claimName": "mine", "readOnly": True}},
    ],
    ids=["nfs", "claim"],
)
def test_a_sub_path_is_not_made_in_a_volume_that_is_read_only(
    source: dict[str, Any], pod: Pod, image: Path, offered: Path
) -> None:
    (offered / "physics" / "mine").mkdir()

    assert pod.run(script(image, offered, source, subPath="deep")) == 126
    assert not list((offered / "physics" / "mine").iterdir())


def test_a_link_below_a_sub_path_that_was_made(pod: Pod, image: Path, offered: Path) -> None:
    (offered / "physics" / "mine").mkdir()
    (offered / "physics" / "mine" / "out").symlink_to(pod.work / "alice")

    assert pod.run(script(image, offered, SOURCES[0], subPath="out/more")) == 126

    assert pod.log() == (
        "batchgate: the subPath out/more leads out of its volume, by a link: the container is not started\n"
    )
    assert sorted(path.name for path in (pod.work / "alice").iterdir()) == ["key"]


@pytest.mark.mpi
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun on this machine")
def test_each_rank_walks_on_its_own_node(pod: Pod, image: Path, offered: Path) -> None:
    """Other nodes see what was planted since the first one looked."""
    mine = offered / "physics" / "mine"
    mine.mkdir()
    (mine / "key").write_text("own\n")
    (pod.work / "nodefile").write_text(f"{os.uname().nodename}\n" * 2)
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.getuid() == 0 else {}
    mount = [{"name": "v", "mountPath": "/v"}, {"name": "e", "mountPath": "/e"}]
    text = text_of(
        workload(
            container("mpirun", "-n", "2", "sh", "-c", "cat /v/key; ls -d /e", volumeMounts=mount),
            volumes=[{"name": "v", **SOURCES[0]}, {"name": "e", "emptyDir": {}}],
        ),
        on(image, offered, mpi=[{"name": "open-mpi", "launcher": "openmpi"}]),
    )
    assert pod.run(text, PBS_NODEFILE=str(pod.work / "nodefile"), **as_root) == 0, pod.log()
    assert sorted(pod.log().splitlines()[-4:]) == ["/e", "/e", "own", "own"]

    mine.rename(offered / "physics" / "old")
    mine.symlink_to(pod.work / "alice")
    rank = subprocess.run(
        ["/bin/bash", str(pod.path / "rank")],
        env={**os.environ, "BATCHGATE_WORDS_0_0": "ADAA"},
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        timeout=60,
    )

    sentence = f"the volume's path mine leads out of {offered}/physics, by a link"
    assert (rank.returncode, rank.stdout, rank.stderr) == (126, "", f"batchgate: {sentence}: the container is not started\n")  # fmt: skip


def wanted(uid: str, storage_class: str) -> Wanted:
    return Wanted(uid, storage_class, f"pv-{uid}")


CSI = {"driver": "lab.csi.example.org", "volumeAttributes": {"dir": "by-driver"}}
CLAIMS = Claims(
    {("physics", "a"): wanted("a", "nfs"), ("physics", "b"): wanted("b", ""), ("physics", "c"): wanted("c", "")},
    {
        ("", "pv-a"): Bound("nfs", {}, ("physics", "a", "a")),
        ("", "pv-b"): Bound("nfs", {"server": "filer", "path": "/export/by-export"}, ("physics", "b", "b")),
        ("", "pv-c"): Bound("csi", CSI, ("physics", "c", "c"), read_only=True),
    },
)


@pytest.mark.parametrize(
    ("claim", "directory", "log"),
    [
        ("a", "a-pv-a", "own\n"),
        ("b", "by-export", "own\n"),
        ("c", "by-driver", "own\n/bin/sh: 1: cannot create /v/written: Read-only file system\n"),
    ],
)
def test_a_claim_is_mounted_by_its_class_or_volume(
    pod: Pod, image: Path, offered: Path, claim: str, directory: str, log: str
) -> None:
    (offered / "physics" / directory).mkdir()
    (offered / "physics" / directory / "key").write_text("own\n")
    fields = mounting({"persistentVolumeClaim": {"claimName": claim}})
    manifest = job(*fields.pop("containers"), **fields)
    sized = workload_of(manifest, namespace="physics", cluster=Cluster(claims=CLAIMS))

    pod.run(text_of(sized, on(image, offered)))

    assert pod.log() == log
    assert (offered / "physics" / directory / "written").exists() == (claim != "c")


def test_an_ephemeral_volume_is_empty_and_the_pods_own(pod: Pod, image: Path, offered: Path) -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}}
    fields = mounting({"ephemeral": {"volumeClaimTemplate": template}})
    fields["containers"][0]["command"] = ["/bin/sh", "-c", "ls -A /v; echo x >/v/written"]
    sized = workload(*fields.pop("containers"), **fields)

    assert pod.run(text_of(sized, on(image, offered))) == 0

    assert (pod.log(), (pod.path / "volumes" / "v" / "written").read_text()) == ("", "x\n")
    assert sized.warnings == (
        "spec.template.spec.volumes[0].ephemeral: is a directory of the Pod on HPC, without the 5Gi that it asks for being set aside",
    )


def test_the_files_of_an_image_volume_are_there_and_stay(pod: Pod, image: Path, offered: Path) -> None:
    (offered / "physics" / "key").write_text("model\n")

    pod.run(script(image, offered, {"image": {"reference": "ghcr.io/lab/model:1"}}))

    assert pod.log().startswith("model\n")
    assert "Read-only file system" in pod.log()


def test_a_container_has_network_and_memory_of_its_node(pod: Pod, image: Path, offered: Path) -> None:
    ask = container("/bin/sh", "-c", "ls -l /proc/self/ns/net /proc/self/ns/ipc")

    assert pod.run(text_of(workload(ask, hostNetwork=True, hostIPC=True), on(image, offered))) == 0

    assert sorted(line.split()[-1] for line in pod.log().splitlines()) == [
        str(Path(f"/proc/self/ns/{one}").readlink()) for one in ("ipc", "net")
    ]


def test_a_privileged_container_runs_without_where_the_site_says_so(pod: Pod, image: Path, offered: Path) -> None:
    security = {"privileged": True, "capabilities": {"add": ["IPC_LOCK"]}}
    ask = workload(container("/bin/sh", "-c", "echo ran", securityContext=security))

    assert pod.run(text_of(ask, on(image, offered, ignorePrivileged=["physics"]))) == 0

    assert pod.log() == "ran\n"
