"""Where volumes lie on a site; nothing leaves what the site offers."""

from __future__ import annotations

from typing import Any

import pytest

from router.site.volumes import SitePath, place_of, sub_path_problem
from router.workload.claims import Claim
from router.workload.model import Volume
from tests.script.builders import container, site, workload

MAPS: list[dict[str, Any]] = [
    {"hostPath": "/mnt/data", "path": "/lustre/data"},
    {"hostPath": "/mnt", "path": "/lustre/mnt", "readOnly": True},
    {"nfs": "filer:/export/home", "path": "/home"},
    {"claim": "physics/*", "path": "/project/{namespace}/{claim}"},
]


def found(kind: str, maps: list[dict[str, Any]] = MAPS, claim: Claim | None = None, **source: Any) -> SitePath | str:
    job = workload(container("true"))
    return place_of(job, Volume("v", kind, "spec.volumes[0]", source, claim), site(volumes=maps))


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        ("hostPath", {"path": "/mnt/data"}, SitePath("/lustre/data")),
        ("hostPath", {"path": "/mnt/data/"}, SitePath("/lustre/data")),
        ("hostPath", {"path": "/mnt//data/./a/b"}, SitePath("/lustre/data", "a/b")),
        ("hostPath", {"path": "/mnt/database"}, SitePath("/lustre/mnt", "database", read_only=True)),
        ("nfs", {"server": "filer", "path": "/export/home/ada"}, SitePath("/home", "ada")),
        ("nfs", {"server": "filer", "path": "/export/home", "readOnly": True}, SitePath("/home", read_only=True)),
        ("persistentVolumeClaim", {"claimName": "data"}, SitePath("/project", "physics/data")),
        (
            "persistentVolumeClaim",
            {"claimName": "data", "readOnly": True},
            SitePath("/project", "physics/data", read_only=True),
        ),
    ],
)
def test_a_place(kind: str, source: dict[str, Any], expected: SitePath) -> None:
    assert found(kind, **source) == expected


@pytest.mark.parametrize(
    ("kind", "source", "words"),
    [
        ("hostPath", {"path": "/etc"}, "not a path that site hpc1 offers"),
        ("hostPath", {"path": "/mnt/data/../../etc"}, "not a path that site hpc1 offers"),
        ("hostPath", {"path": "mnt/data"}, "no absolute path"),
        ("hostPath", {"path": 7}, "no absolute path"),
        ("nfs", {"server": "other", "path": "/export/home"}, "not mounted at site hpc1"),
        ("nfs", {"server": "filer", "path": "/export/homes"}, "not mounted at site hpc1"),
        ("nfs", {"server": "filer", "path": "/export/home/.."}, "not mounted at site hpc1"),
        ("nfs", {"server": "filer"}, "needs server and path"),
        ("persistentVolumeClaim", {"claimName": "../x"}, "not a valid name of a claim"),
        ("persistentVolumeClaim", {"claimName": ".."}, "not a valid name of a claim"),
        ("persistentVolumeClaim", {}, "needs claimName"),
        ("iscsi", {}, "of kind iscsi"),
    ],
)
def test_no_place(kind: str, source: dict[str, Any], words: str) -> None:
    reason = found(kind, **source)

    assert isinstance(reason, str)
    assert words in reason


@pytest.mark.parametrize("sub_path", ["a", "a/b", "..a", "a..", "a/..b/c", ""])
def test_a_sub_path_below_its_volume(sub_path: str) -> None:
    assert sub_path_problem(sub_path) is None


@pytest.mark.parametrize("sub_path", ["..", "../a", "a/../b", "a/..", "/a"])
def test_a_sub_path_that_leaves_its_volume(sub_path: str) -> None:
    assert sub_path_problem(sub_path) is not None


def test_a_device_or_socket_of_the_node_is_nowhere_on_hpc() -> None:
    words = "asks for a socket of its node (type Socket), which HPC nodes do not have"

    assert found("hostPath", path="/mnt/data/docker.sock", type="Socket") == words
    assert found("hostPath", path="/mnt/data/x", type="DirectoryOrCreate") == SitePath("/lustre/data", "x")


BY_CLUSTER: list[dict[str, Any]] = [
    {"claim": "physics/own", "path": "/own"},
    {"storageClass": "fast-*", "path": "/fast/{namespace}/{claim}"},
    {"storageClass": "provisioned", "path": "/mnt/filer/{namespace}-{claim}-{volume}"},
    {"nfs": "filer:/export/home", "path": "/home"},
    {"hostPath": "/mnt/data", "path": "/lustre/data"},
    {"csi": "lustre.csi.example.org", "attributes": {"fs": "scratch*"}, "path": "/{attributes.fs}/{attributes.dir}"},
    {"csi": "*.csi.example.org", "path": "/by-handle/{handle}", "readOnly": True},
]


def csi(driver: str = "lustre.csi.example.org", handle: str = "h-1", **attributes: str) -> dict[str, Any]:
    return {"driver": driver, "volumeHandle": handle, "volumeAttributes": attributes}


@pytest.mark.parametrize(
    ("name", "claim", "expected"),
    [
        ("own", None, SitePath("/own")),
        ("own", Claim(storage_class="fast-ssd"), SitePath("/own")),
        ("data", Claim(storage_class="fast-ssd"), SitePath("/fast", "physics/data")),
        (
            "data",
            Claim(storage_class="provisioned", volume="pvc-1", kind="nfs", source={"server": "other", "path": "/x"}),
            SitePath("/mnt/filer", "physics-data-pvc-1"),
        ),
        (
            "data",
            Claim(volume="pv", kind="nfs", source={"server": "filer", "path": "/export/home/ada"}),
            SitePath("/home", "ada"),
        ),
        (
            "data",
            Claim(volume="pv", kind="nfs", source={"server": "filer", "path": "/export/home"}, read_only=True),
            SitePath("/home", read_only=True),
        ),
        ("data", Claim(volume="pv", kind="hostPath", source={"path": "/mnt/data/x"}), SitePath("/lustre/data", "x")),
        ("data", Claim(volume="pv", kind="csi", source=csi(fs="scratch2", dir="a/b")), SitePath("/", "scratch2/a/b")),
        ("data", Claim(volume="pv", kind="csi", source=csi(fs="home")), SitePath("/by-handle", "h-1", read_only=True)),
        (
            "data",
            Claim(
                volume="pv",
                kind="csi",
                source=csi("nfs.csi.k8s.io", server="filer", share="/export/home", subdir="ada"),
            ),
            SitePath("/home", "ada"),
        ),
    ],
)
def test_a_place_by_what_the_cluster_says_of_a_claim(name: str, claim: Claim | None, expected: SitePath) -> None:
    assert found("persistentVolumeClaim", BY_CLUSTER, claim, claimName=name) == expected


ADD = "its admins can add an entry with {} to volumes of hpc1"
NOT_HERE = "physics/data is a claim whose data are not at site hpc1"


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        (None, f"{NOT_HERE} (claims are not read, so its class and volume are unknown); {ADD.format('claim')}"),
        (Claim(exists=False), f"{NOT_HERE}, and namespace physics has no such claim yet; {ADD.format('claim')}"),
        (
            Claim(storage_class="slow"),
            f"{NOT_HERE} (of storage class slow, not bound to a volume); {ADD.format('claim or storageClass')}",
        ),
        (
            Claim(storage_class="provisioned"),
            "has no volume, which the path /mnt/filer/{namespace}-{claim}-{volume} in volumes of its site needs",
        ),
        (
            Claim(volume="pv", kind="nfs", source={"server": "filer", "path": "/export/other"}),
            f"{NOT_HERE} (of no storage class, bound to filer:/export/other); {ADD.format('claim or nfs')}",
        ),
        (
            Claim(storage_class="gp3", volume="pv", kind="csi", source=csi("ebs.csi.aws.com")),
            (
                f"{NOT_HERE} (of storage class gp3, bound to a volume of CSI driver ebs.csi.aws.com); "
                f"{ADD.format('claim or storageClass or csi')}"
            ),
        ),
        (
            Claim(volume="pv", kind="hostPath", source={"path": "/var/x"}),
            (
                f"{NOT_HERE} (of no storage class, bound to a directory of a cloud node, /var/x); "
                f"{ADD.format('claim or hostPath')}"
            ),
        ),
        (
            Claim(volume="pv", kind="", source={}),
            (
                f"{NOT_HERE} (of no storage class, bound to a volume of a kind that HPC nodes do not have); "
                f"{ADD.format('claim')}"
            ),
        ),
        (
            Claim(volume="pv", kind="csi", source=csi(fs="scratch", dir="..")),
            "has the attributes.dir '..', which is no part of a path below /",
        ),
    ],
)
def test_no_place_for_a_claim_names_what_is_known_and_the_key(claim: Claim | None, reason: str) -> None:
    assert found("persistentVolumeClaim", BY_CLUSTER, claim, claimName="data") == reason


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (csi(fs="scratch", dir="a"), SitePath("/", "scratch/a")),
        ({**csi(fs="scratch", dir="a"), "readOnly": True}, SitePath("/", "scratch/a", read_only=True)),
        (csi("nfs.csi.k8s.io", server="filer", share="/export/home/ada"), SitePath("/home", "ada")),
        (
            csi("nfs.csi.k8s.io", server="filer", share="/export/home/.."),
            f"is a volume of CSI driver nfs.csi.k8s.io, whose data are not at site hpc1; {ADD.format('csi')}",
        ),
        (csi(fs="scratch", dir="a/../b"), "has the attributes.dir 'a/../b', which is no part of a path below /"),
        (csi(fs="scratch", dir="./"), "has the attributes.dir './', which is no part of a path below /"),
        (csi(fs="scratch"), "has no attributes.dir, which the path /{attributes.fs}/{attributes.dir} in volumes of its site needs"),
        ({"driver": "x.csi.example.org"}, "has no handle, which the path /by-handle/{handle} in volumes of its site needs"),
        ({}, "needs driver"),
    ],
)  # fmt: skip
def test_an_inline_csi_volume(source: dict[str, Any], expected: SitePath | str) -> None:
    assert found("csi", BY_CLUSTER, **source) == expected


def test_dots_of_two_values_do_not_meet() -> None:
    maps = [{"csi": "*", "path": "/x/{attributes.a}{attributes.b}/y"}]

    assert found("csi", maps, driver="d", volumeAttributes={"a": "p/.", "b": "./q"}) == "leaves /x by '..'"


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("ghcr.io/lab/data:1", SitePath("/apps/data", read_only=True)),
        ("other:1", f"is the image other:1, whose files are not at site hpc1; {ADD.format('image')}"),
    ],
)
def test_an_image_volume(reference: str, expected: SitePath | str) -> None:
    assert found("image", [{"image": "ghcr.io/lab/*", "path": "/apps/data"}], reference=reference) == expected
