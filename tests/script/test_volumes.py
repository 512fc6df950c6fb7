"""Where volumes lie on a site; nothing leaves what the site offers."""

from __future__ import annotations

from typing import Any

import pytest

from router.site.volumes import SitePath, place_of, sub_path_problem
from router.workload.model import Volume
from tests.script.builders import container, site, workload

MAPS = [
    {"hostPath": "/mnt/data", "path": "/lustre/data"},
    {"hostPath": "/mnt", "path": "/lustre/mnt", "readOnly": True},
    {"nfs": "filer:/export/home", "path": "/home"},
    {"claim": "physics/*", "path": "/project/{namespace}/{claim}"},
]


def found(kind: str, **source: Any) -> SitePath | str:
    job = workload(container("true"))
    return place_of(job, Volume("v", kind, "spec.volumes[0]", source), site(volumes=MAPS))


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
