"""What is known of a claim: a volume counts only if it says itself whose it is."""

from __future__ import annotations

from typing import Any

import pytest

from router.workload.claims import Bound, Claim, Claims, Wanted, bound_of, wanted_of

NFS = {"server": "filer", "path": "/export"}


def claim(**spec: Any) -> dict[str, Any]:
    metadata = {"namespace": "lab", "name": "data", "uid": "u-1"}
    return {"metadata": metadata, "spec": {"storageClassName": "nfs", "volumeName": "pv", **spec}, "status": {"phase": "Bound"}}  # fmt: skip


def volume(uid: str = "u-1", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "pv"}, "spec": {"claimRef": {"namespace": "lab", "name": "data", "uid": uid}, **spec}}


BOUND = Claim(True, "nfs", "pv", "nfs", NFS)


@pytest.mark.parametrize(
    ("wanted", "bound", "expected"),
    [
        (claim(), volume(nfs=NFS), BOUND),
        (claim(), volume(nfs=NFS, mountOptions=["hard", "ro"]), Claim(True, "nfs", "pv", "nfs", NFS, read_only=True)),
        ({**claim(), "status": {"phase": "Pending"}}, volume(nfs=NFS), Claim(storage_class="nfs")),
        (claim(), volume(uid="u-2", nfs=NFS), Claim(storage_class="nfs")),
        (claim(), {"metadata": {"name": "pv"}, "spec": {"nfs": NFS}}, Claim(storage_class="nfs")),
        (claim(volumeName="other"), volume(nfs=NFS), Claim(storage_class="nfs")),
        (
            claim(),
            volume(csi={"driver": "d", "volumeHandle": "h", "nodePublishSecretRef": {"name": "s"}}),
            Claim(True, "nfs", "pv", "csi", {"driver": "d", "volumeHandle": "h"}),
        ),
        (claim(), volume(iscsi={"iqn": "x"}), Claim(True, "nfs", "pv")),
    ],
)
def test_a_claim_and_its_volume(wanted: dict[str, Any], bound: dict[str, Any], expected: Claim) -> None:
    known = Claims({("lab", "data"): wanted_of(wanted)}, {("", "pv"): bound_of(bound)})

    assert known.find("lab", "data") == expected


def test_who_names_another_s_volume_in_a_claim_gets_nothing_of_it() -> None:
    known = Claims({("evil", "mine"): Wanted("u-9", "", "pv")}, {("", "pv"): Bound("nfs", NFS, ("lab", "data", "u-1"))})

    assert known.find("evil", "mine") == Claim()


def test_no_claim_of_that_name() -> None:
    assert Claims().find("lab", "data") == Claim(exists=False)
